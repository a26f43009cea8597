"""Why a pod's start does not go on, or why its engine ended: one named cause with place, numbers and what to do.

`kubernetes` among the numbers is the word that kubectl shows for it. Pure: stories and objects in, failures out.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from activator_ext.adapters.starts.objects import Container, Run, Workload
from activator_ext.adapters.starts.story import PodStory, Told, killed_by_probe
from runtime.contract import Failure, FailureCause

Numbers = dict[str, float | str]
_OF_THE_IMAGE = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "ImageInspectError",
        "RegistryUnavailable",
    }
)
_OF_THE_SPEC = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreCreateHookError"}
)
_SAME_IMAGE_AGAIN = re.compile(
    r"not found|manifest unknown|InvalidImageName|ErrImageNeverPull|invalid reference", re.IGNORECASE
)
_OURS = re.compile(r"([a-z-]+): (.+)", re.DOTALL)
_NODES = re.compile(r"^(\d+)/(\d+) nodes are available: (.*?)(?:\. |\.?$)", re.DOTALL)
_SHORT = re.compile(r"(\d+) Insufficient ([^,.\s]+(?:\.[^,.\s]+)*)")
_PERMANENT = frozenset(
    {
        FailureCause.MODEL_MISSING,
        FailureCause.MODEL_INCOMPLETE,
        FailureCause.UNSUPPORTED_MODEL,
        FailureCause.BAD_ARGUMENTS,
        FailureCause.NO_COMPILER,
        FailureCause.NOT_SERVED,
    }
)
"""What our own runtime says in its container's termination message, where the same pod would fail again."""
_TAIL_LINES = 20


def trouble(story: PodStory) -> Failure | None:
    """What keeps the pod's start from going on now; None: it goes on, or is over."""
    pod = story.pod
    if pod.phase == "Failed":
        return _rejected(story)
    if story.node_lost_at is not None:
        return node_lost(story, story.node_lost_at)
    if story.scheduled_at is None:
        if story.unscheduled is None:
            return None
        # Since when, not when it was last said: the scheduler repeats itself every few minutes.
        return unschedulable(pod.name, replace(story.unscheduled, at=story.unscheduled_since or story.unscheduled.at))
    for each in pod.before:
        if (failure := _init_trouble(story, each)) is not None:
            return failure
    for each in (pod.engine, *pod.beside):
        if (failure := _waiting_trouble(story, each)) is not None:
            return failure
    if story.setup_trouble is not None and not pod.engine.runs and pod.engine.waiting != "PodInitializing":
        told = story.setup_trouble
        return _failure(
            FailureCause.POD_CONFIG,
            f"pod {pod.name} cannot be set up ({told.reason}): {told.message}; correct its volumes, secrets or network",
            told.at,
            {"kubernetes": told.reason},
        )
    return None


def _rejected(story: PodStory) -> Failure:
    """The pod was refused or ended by its node."""
    pod, at = story.pod, _latest(story)
    said = f" ({pod.message})" if pod.message else ""
    numbers: Numbers = {"kubernetes": pod.reason or "Failed"}
    if pod.reason == "Evicted":
        fix = "give it requests that it keeps to, or free the node's memory and disk"
        return _failure(FailureCause.EVICTED, f"pod {pod.name} was evicted from {pod.node}{said}: {fix}", at, numbers)
    if pod.reason in ("NodeLost", "NodeShutdown", "Terminated"):
        return node_lost(story, at)
    if not story.runs and pod.reason:
        fix = "the node did not have what the scheduler counted on: look at its devices and taints"
        message = f"node {pod.node} refused pod {pod.name}: {pod.reason}{said}; {fix}"
        return _failure(FailureCause.UNSCHEDULABLE, message, at, numbers)
    run = story.current
    if run is not None and run.ended_at is not None:
        return ended(story, run)
    return _failure(FailureCause.EVICTED, f"pod {pod.name} failed on {pod.node}: {pod.reason}{said}", at, numbers)


def disrupted(story: PodStory) -> Failure | None:
    """The cluster took the pod away: for a pod of higher priority, by a drain of its node, with a node that is lost."""
    if story.node_lost_at is not None:
        return node_lost(story, story.node_lost_at)
    told = story.pod.is_true("DisruptionTarget")
    if told is None:
        return None
    at = told.at or _latest(story)
    if told.reason == "DeletionByTaintManager":
        return node_lost(story, at)
    fix = "give it a higher priority, or a PodDisruptionBudget, if it must stay"
    message = f"pod {story.pod.name} was taken from {story.pod.node} ({told.reason}): {told.message}; {fix}"
    return _failure(FailureCause.EVICTED, message, at, {"kubernetes": told.reason})


def node_lost(story: PodStory, at: datetime) -> Failure:
    """The pod's node does not answer any more, or was shut down."""
    message = f"node {story.pod.node} of pod {story.pod.name} is lost: see `kubectl describe node {story.pod.node}`"
    return _failure(FailureCause.NODE_LOST, message, at, {"kubernetes": story.pod.reason or "NodeLost"})


def unschedulable(name: str, told: Told) -> Failure:
    """No node takes the pod; which resource is short, on how many nodes, stands among the numbers."""
    numbers: Numbers = {"kubernetes": told.reason}
    match = _NODES.match(told.message)
    reasons = match.group(3) if match else told.message
    if match:
        numbers["nodes"] = float(match.group(2))
    short = _SHORT.findall(reasons)
    if short:
        # GPUs before all else: who waits for one is not helped by more processors.
        count, resource = max(short, key=lambda pair: ("gpu" in pair[1] or "/" in pair[1], int(pair[0])))
        numbers |= {"resource": resource, "nodes_short": float(count)}
        what = f"insufficient {resource} on {count} of {match.group(2) if match else 'all'} nodes"
        fix = f"free {resource}, add a node that has it, or ask for less"
    else:
        what = reasons or "no node fits"
        fix = "correct its nodeSelector, affinity or tolerations, or add a node that they allow"
    if told.reason == "SchedulingGated":
        what, fix = "it waits for its scheduling gates", "whoever set them must lift them"
    return _failure(FailureCause.UNSCHEDULABLE, f"pod {name} is not scheduled: {what}; {fix}", told.at, numbers)


def _init_trouble(story: PodStory, container: Container) -> Failure | None:
    last = container.runs[-1] if container.runs else None
    failed = last is not None and last.exit_code not in (None, 0)
    if last is not None and failed:
        numbers: Numbers = {"container": container.name, "exit_code": last.exit_code or 0, "restarts": last.index}
        said = _last_line(last.message) or last.reason
        where = f"container {container.name} of pod {story.pod.name}, which runs before the engine,"
        what = f"{where} exited with {last.exit_code}"
        fix = "correct what it fetches, and what it needs for it (address, credentials, room)"
        numbers["kubernetes"] = container.waiting or last.reason
        at = last.ended_at or _latest(story)
        return _failure(FailureCause.INIT_FAILED, f"{what}: {said}; {fix}", at, numbers, tail=_tail(last.message))
    return _waiting_trouble(story, container) if container.waiting != "PodInitializing" else None


def _waiting_trouble(story: PodStory, container: Container) -> Failure | None:
    reason, said = container.waiting, container.waiting_message
    numbers: Numbers = {"kubernetes": reason, "container": container.name}
    at = _latest(story)
    if reason in _OF_THE_IMAGE:
        again = bool(_SAME_IMAGE_AGAIN.search(f"{reason} {said}"))
        fix = "correct the name, push the image, or give the pod what its registry asks for (imagePullSecrets)"
        message = f"image {container.image} of pod {story.pod.name} cannot be pulled: {said or reason}; {fix}"
        return _failure(FailureCause.IMAGE_PULL, message, at, numbers | {"image": container.image}, permanent=again)
    if reason in _OF_THE_SPEC:
        where = f"container {container.name} of pod {story.pod.name}"
        message = f"{where} cannot be made ({reason}): {said}; correct its spec"
        return _failure(FailureCause.POD_CONFIG, message, at, numbers)
    if reason == "CrashLoopBackOff" and container.runs:
        if container is story.pod.engine:
            return ended(story, story.runs[-1])
        last = container.runs[-1]
        where = f"container {container.name} beside the engine of pod {story.pod.name}"
        message = f"{where} exits with {last.exit_code} again and again: {_last_line(last.message)}"
        numbers |= {"exit_code": last.exit_code or 0, "restarts": last.index}
        return _failure(FailureCause.EXITED, message, last.ended_at or at, numbers, tail=_tail(last.message))
    return None


def ended(story: PodStory, run: Run) -> Failure:
    """How one run of the engine's container ended: by the runtime's own word, the kubelet's, or its exit code."""
    container = story.pod.engine
    at = run.ended_at or story.gone_at or _latest(story)
    where = f"container {container.name} of pod {story.pod.name}"
    if run.exit_code is None:
        message = f"{where} has ended unseen; see `kubectl describe pod {story.pod.name}` while there is one"
        return _failure(FailureCause.EXITED, message, at, {"restarts": run.index})
    code = run.exit_code
    numbers: Numbers = {"exit_code": code, "restarts": run.index, "kubernetes": run.reason or "Error"}
    if container.waiting == "CrashLoopBackOff" and run is story.current and numbers["kubernetes"] == "Error":
        numbers["kubernetes"] = container.waiting
    tail = _tail(run.message)
    if run.reason == "OOMKilled":
        limit = container.memory_limit
        numbers |= {"limit": limit} if limit else {}
        what = f"{where} was killed for memory (OOMKilled, limit {limit or 'that of its node'})"
        fix = "raise resources.limits.memory, or let the engine ask for less (--max-model-len, --max-num-seqs)"
        return _failure(FailureCause.NO_MEMORY, f"{what}: {fix}", at, numbers, tail=tail)
    if (said := _by_us(run)) is not None:
        cause, text = said
        return _failure(cause, text, at, numbers, tail=(), permanent=cause in _PERMANENT)
    if (killed := killed_by_probe(story, run)) is not None:
        fix = "a start takes longer than the probe allows: raise initialDelaySeconds and failureThreshold, or drop it"
        numbers["kubernetes"] = "Killing"
        message = f"{where} was killed by its probe ({killed.message}): {fix}"
        return _failure(FailureCause.PROBE_FAILED, message, at, numbers, tail=tail)
    if run.reason in ("StartError", "ContainerCannotRun"):
        message = f"{where} cannot be started ({run.reason}): {run.message}; correct its command"
        return _failure(FailureCause.SPAWN_FAILED, message, at, numbers, permanent=True)
    if code > 128:
        numbers["signal"] = code - 128
        why = (
            "its node short of memory, a probe, or somebody's hand" if code == 137 else "from outside or its own fault"
        )
        said_last = _last_line(run.message) or "it said nothing"
        message = f"{where} was ended by signal {code - 128} ({why}); its last line: {said_last}"
        return _failure(FailureCause.KILLED, message, at, numbers, tail=tail)
    said_last = _last_line(run.message) or f"it said nothing; see `kubectl logs --previous {story.pod.name}`"
    return _failure(FailureCause.EXITED, f"{where} exited with code {code}: {said_last}", at, numbers, tail=tail)


def died_serving(story: PodStory, run: Run) -> Failure:
    """An engine that had been ready has ended by itself."""
    why = ended(story, run)
    numbers = {**why.numbers, "how": why.cause.value}
    return why.model_copy(update={"cause": FailureCause.DIED_AFTER_READY, "numbers": numbers, "permanent": False})


def deadline_passed(workloads: Iterable[Workload], story: PodStory) -> Failure | None:
    """The progress deadline of the pod's Deployment ran out in its time, and so it was taken away."""
    for each in workloads:
        found = each.conditions.get("Progressing")
        mine = each.kind == "Deployment" and each.service == story.pod.service and each.revision == story.pod.revision
        if not mine or found is None or found.reason != "ProgressDeadlineExceeded" or found.at is None:
            continue
        if found.at >= story.pod.created_at:
            return of_deadline(each, found.at)
    return None


def of_deadline(deployment: Workload, at: datetime) -> Failure:
    """The Deployment made no progress within its deadline."""
    numbers: Numbers = {"kubernetes": "ProgressDeadlineExceeded", "object": f"Deployment/{deployment.name}"}
    told = ""
    if deployment.deadline_s is not None:
        numbers["deadline_s"] = deployment.deadline_s
        told = f" of {deployment.deadline_s:.0f} s"
    fix = "raise serving.knative.dev/progress-deadline above the slowest start, or see why it hangs"
    message = f"{deployment.name} was not ready within its progress deadline{told}: {fix}"
    return _failure(FailureCause.PROGRESS_DEADLINE, message, at, numbers)


def _by_us(run: Run) -> tuple[FailureCause, str] | None:
    """`cause: sentence`, which `pilotlight-engine` leaves as its termination message."""
    match = _OURS.fullmatch(run.message.strip())
    known = {cause.value: cause for cause in FailureCause}
    return (known[match.group(1)], match.group(2)) if match is not None and match.group(1) in known else None


def _latest(story: PodStory) -> datetime:
    """When the pod last became what it is, as far as its conditions say."""
    times = [each.at for each in story.pod.conditions.values() if each.at is not None]
    return max(times, default=story.pod.created_at)


def _tail(message: str) -> tuple[str, ...]:
    return tuple(message.splitlines()[-_TAIL_LINES:])


def _last_line(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _failure(
    cause: FailureCause,
    message: str,
    at: datetime,
    numbers: Numbers,
    *,
    tail: tuple[str, ...] = (),
    permanent: bool = False,
) -> Failure:
    return Failure(cause=cause, message=message, at=at, numbers=numbers, permanent=permanent, tail=tail)
