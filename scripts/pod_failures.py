"""The failures of pods, told by the API server: the second table of the page of failures.

tests/unit/adapters/starts/test_causes.py makes each happen and compares its message with the row's. `…` stands for what
varies.
"""

from dataclasses import dataclass

from runtime.contract import FailureCause

ANY = "…"


@dataclass(frozen=True, slots=True)
class PodRow:
    """One failure of a pod, told by the API server. `kubernetes`: the word that kubectl shows for it."""

    failure: str
    told: str
    cause: FailureCause
    kubernetes: str
    message: str


_POD = f"pod {ANY} "
_ENGINE = f"container {ANY} of pod {ANY} "
POD_ROWS: tuple[PodRow, ...] = (
    PodRow(
        "no node has what it asks for",
        "the pod's condition PodScheduled, the scheduler's Event",
        FailureCause.UNSCHEDULABLE,
        "FailedScheduling",
        f"{_POD}is not scheduled: insufficient {ANY} on {ANY} of {ANY} nodes; free {ANY}, add a node that "
        "has it, or ask for less",
    ),
    PodRow(
        "no node may take it",
        "as above",
        FailureCause.UNSCHEDULABLE,
        "FailedScheduling",
        f"{_POD}is not scheduled: {ANY}; correct its nodeSelector, affinity or tolerations, or add a node "
        "that they allow",
    ),
    PodRow(
        "its scheduling gates are shut",
        "the pod's condition PodScheduled",
        FailureCause.UNSCHEDULABLE,
        "SchedulingGated",
        f"{_POD}is not scheduled: it waits for its scheduling gates; whoever set them must lift them",
    ),
    PodRow(
        "its node refuses it",
        "the pod's phase Failed and reason, before anything ran",
        FailureCause.UNSCHEDULABLE,
        "OutOfnvidia.com/gpu",
        f"node {ANY} refused {_POD.strip()}: {ANY} ({ANY}); the node did not have what the scheduler counted on: "
        "look at its devices and taints",
    ),
    PodRow(
        "image not to be had",
        "the container's waiting reason",
        FailureCause.IMAGE_PULL,
        "ImagePullBackOff",
        f"image {ANY} of pod {ANY} cannot be pulled: {ANY}; correct the name, push the image, or give the pod what its "
        "registry asks for (imagePullSecrets)",
    ),
    PodRow(
        "no pod may be made",
        "the Deployment's condition ReplicaFailure",
        FailureCause.POD_REFUSED,
        "FailedCreate",
        f"{ANY} gets no pod (FailedCreate): {ANY}; give its namespace more quota, or correct what its "
        "admission refuses",
    ),
    PodRow(
        "container not to be made (a Secret or ConfigMap that is not there)",
        "the container's waiting reason",
        FailureCause.POD_CONFIG,
        "CreateContainerConfigError",
        f"{_ENGINE}cannot be made (CreateContainerConfigError): {ANY}; correct its spec",
    ),
    PodRow(
        "volume, network or sandbox not to be had",
        "the kubelet's Event, while no container has run",
        FailureCause.POD_CONFIG,
        "FailedMount",
        f"{_POD}cannot be set up (FailedMount): {ANY}; correct its volumes, secrets or network",
    ),
    PodRow(
        "a container before the engine fails (KServe's storage initializer)",
        "the init container's exit code and message",
        FailureCause.INIT_FAILED,
        "Error",
        f"{_ENGINE.rstrip()}, which runs before the engine, exited with {ANY}: {ANY}; correct what it "
        "fetches, and what it needs for it (address, credentials, room)",
    ),
    PodRow(
        "killed for memory",
        "the container's reason OOMKilled",
        FailureCause.NO_MEMORY,
        "OOMKilled",
        f"{_ENGINE}was killed for memory (OOMKilled, limit {ANY}): raise resources.limits.memory, or let the engine "
        "ask for less (--max-model-len, --max-num-seqs)",
    ),
    PodRow(
        "ended by its runtime",
        "the termination message that `pilotlight-engine` leaves: any cause of the table above",
        FailureCause.MODEL_MISSING,
        "Error",
        f"model directory {ANY} does not exist",
    ),
    PodRow(
        "killed by its probe",
        "the kubelet's Event Killing within that run",
        FailureCause.PROBE_FAILED,
        "Killing",
        f"{_ENGINE}was killed by its probe ({ANY}): a start takes longer than the probe allows: raise "
        "initialDelaySeconds and failureThreshold, or drop it",
    ),
    PodRow(
        "ended by a signal",
        "exit code over 128",
        FailureCause.KILLED,
        "Error",
        f"{_ENGINE}was ended by signal {ANY} ({ANY}); its last line: {ANY}",
    ),
    PodRow(
        "its command cannot be started",
        "the container's reason StartError",
        FailureCause.SPAWN_FAILED,
        "StartError",
        f"{_ENGINE}cannot be started (StartError): {ANY}; correct its command",
    ),
    PodRow(
        "any other end, crash loops too",
        "exit code, and the end of the log where the container's policy is FallbackToLogsOnError, as in Knative",
        FailureCause.EXITED,
        "CrashLoopBackOff",
        f"{_ENGINE}exited with code {ANY}: {ANY}",
    ),
    PodRow(
        "ended after it was ready",
        "as of a start; `numbers.how` has the cause that a start would have",
        FailureCause.DIED_AFTER_READY,
        "Error",
        f"{_ENGINE}exited with code {ANY}: {ANY}",
    ),
    PodRow(
        "evicted",
        "the pod's reason",
        FailureCause.EVICTED,
        "Evicted",
        f"{_POD}was evicted from {ANY} ({ANY}): give it requests that it keeps to, or free the node's memory and disk",
    ),
    PodRow(
        "taken away by the cluster: for a pod of higher priority, by a drain of its node",
        "the pod's condition DisruptionTarget",
        FailureCause.EVICTED,
        "PreemptionByScheduler",
        f"{_POD}was taken from {ANY} (PreemptionByScheduler): {ANY}; give it a higher priority, or a "
        "PodDisruptionBudget, if it must stay",
    ),
    PodRow(
        "its node is lost",
        "the pod's reason",
        FailureCause.NODE_LOST,
        "NodeLost",
        f"node {ANY} of pod {ANY} is lost: see `kubectl describe node {ANY}`",
    ),
    PodRow(
        "taken away at the progress deadline",
        "the Deployment's condition Progressing, where the pod itself showed no trouble",
        FailureCause.PROGRESS_DEADLINE,
        "ProgressDeadlineExceeded",
        f"{ANY} was not ready within its progress deadline of {ANY} s: raise serving.knative.dev/progress-deadline "
        "above the slowest start, or see why it hangs",
    ),
)


_INTRODUCTION = """\
## In a cluster

A pod's failures come from the API server, and from the pod's own runtime where it has one. `numbers.kubernetes` is the
word that kubectl shows, `restarts` how often the container had been started before. The kubelet tries again, after 10,
20, 40 … 300 s. They are kept when the pod is gone. What may pass by itself (no node yet, a Secret that is still not
there) keeps the replica `warming` until the progress deadline; what fails makes it `failed`. An InferenceService says
nothing of a crash in a later start: it stays Ready."""


def section() -> str:
    """The part of the page."""
    head = ("failure", "how it is told", "cause", "kubectl's word", "message")
    rows = ((row.failure, row.told, f"`{row.cause.value}`", f"`{row.kubernetes}`", row.message) for row in POD_ROWS)
    lines = [head, tuple("---" for _ in head), *rows]
    table = "\n".join(f"| {' | '.join(cell.replace('|', '¦') for cell in line)} |" for line in lines)
    return f"{_INTRODUCTION}\n\n{table}"
