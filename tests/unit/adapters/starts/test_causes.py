"""Each failure of a pod is made to happen, and says what its row on the page of failures says."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from activator_ext.adapters.starts import causes, story, workloads
from activator_ext.adapters.starts.objects import Pod, Run
from activator_ext.adapters.starts.records import records
from runtime.contract import Failure, FailureCause
from scripts.pod_failures import ANY, POD_ROWS, PodRow
from tests.unit.adapters.starts.build import (
    SCHEDULED,
    at,
    condition,
    ended,
    event,
    pod,
    running,
    told,
    waiting,
    workload,
)

Make = Callable[[], Failure | None]
NOT_READY = condition("Ready", "False", 0)
READY = condition("Ready", "True", 30)
SHORT = (
    "0/3 nodes are available: 1 node(s) had untolerated taint {x: y}, 2 Insufficient cpu, 1 Insufficient "
    "nvidia.com/gpu. preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."
)


def unscheduled(message: str, reason: str = "Unschedulable") -> story.PodStory:
    return told(pod(None, condition("PodScheduled", "False", 1, reason, message), node=None))


def failing_scheduling(message: str) -> Failure | None:
    return causes.trouble(story.with_event(unscheduled(message), event("FailedScheduling", message, 2)))


def crashed(code: int, reason: str = "Error", message: str = "", **spec: Any) -> Failure | None:
    (start,) = records(told(pod(running(5), SCHEDULED), pod(ended(5, 9, code, reason, message), SCHEDULED, **spec)))
    return start.failure


def looping() -> Failure | None:
    back_off = waiting("CrashLoopBackOff", "back-off 20s restarting failed container")
    seen = told(
        pod(running(5), SCHEDULED), pod(back_off, SCHEDULED, restarts=3, last=ended(30, 31, 3, message="a\nb: last\n"))
    )
    return causes.trouble(seen)


def died() -> Failure | None:
    seen = told(
        pod(running(5), SCHEDULED, NOT_READY),
        pod(running(5), SCHEDULED, READY),
        pod(ended(5, 99, 1, message="no"), SCHEDULED, NOT_READY),
    )
    return records(seen)[0].ended


def probed() -> Failure | None:
    killing = event("Killing", "Container kserve-container failed liveness probe, will be restarted", 8)
    seen = told(pod(running(5), SCHEDULED), pod(ended(5, 9, 137), SCHEDULED), killing)
    return records(seen)[0].failure


def at_the_deadline() -> Failure | None:
    exceeded = workload("Deployment", condition("Progressing", "False", 600, "ProgressDeadlineExceeded"))
    seen = told(pod(running(5), SCHEDULED), pod(running(5), SCHEDULED, deleted=630))
    return records(seen, workloads=[exceeded])[0].failure


def rejected(reason: str, message: str = "why") -> Failure | None:
    return causes.trouble(told(pod(None, SCHEDULED, phase="Failed", reason=reason, message=message)))


def taken(reason: str, *before: Pod) -> Failure | None:
    target = condition("DisruptionTarget", "True", 50, reason, "why")
    leaving = pod(running(5), SCHEDULED, NOT_READY, target, deleted=50)
    return records(told(*before, pod(running(5), SCHEDULED, NOT_READY), leaving))[0].failure


def waits(reason: str, message: str) -> Failure | None:
    return causes.trouble(told(pod(waiting(reason, message), SCHEDULED)))


def refused() -> Failure | None:
    return workloads.failures(
        [workload("Deployment", condition("ReplicaFailure", "True", 3, "FailedCreate", "quota"))]
    )[-1]


MAKERS: dict[str, tuple[Make, FailureCause]] = {
    "no node has what it asks for": (lambda: failing_scheduling(SHORT), FailureCause.UNSCHEDULABLE),
    "no node may take it": (
        lambda: failing_scheduling("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. x"),
        FailureCause.UNSCHEDULABLE,
    ),
    "its scheduling gates are shut": (
        lambda: causes.trouble(
            unscheduled("Scheduling is blocked due to non-empty scheduling gates", "SchedulingGated")
        ),
        FailureCause.UNSCHEDULABLE,
    ),
    "its node refuses it": (lambda: rejected("OutOfnvidia.com/gpu"), FailureCause.UNSCHEDULABLE),
    "image not to be had": (lambda: waits("ImagePullBackOff", "Back-off pulling image"), FailureCause.IMAGE_PULL),
    "no pod may be made": (refused, FailureCause.POD_REFUSED),
    "container not to be made (a Secret or ConfigMap that is not there)": (
        lambda: waits("CreateContainerConfigError", 'secret "x" not found'),
        FailureCause.POD_CONFIG,
    ),
    "volume, network or sandbox not to be had": (
        lambda: causes.trouble(
            told(pod(waiting("ContainerCreating"), SCHEDULED), event("FailedMount", "no volume", 9, container=None))
        ),
        FailureCause.POD_CONFIG,
    ),
    "a container before the engine fails (KServe's storage initializer)": (
        lambda: causes.trouble(
            told(
                pod(waiting("PodInitializing"), SCHEDULED, inits={"state": ended(2, 9, 1, message="x\n404 not found")})
            )
        ),
        FailureCause.INIT_FAILED,
    ),
    "killed for memory": (lambda: crashed(137, "OOMKilled", limits={"memory": "48Gi"}), FailureCause.NO_MEMORY),
    "ended by its runtime": (
        lambda: crashed(1, message="model-missing: model directory /mnt/models does not exist"),
        FailureCause.MODEL_MISSING,
    ),
    "killed by its probe": (probed, FailureCause.PROBE_FAILED),
    "ended by a signal": (lambda: crashed(139, message="Segmentation fault"), FailureCause.KILLED),
    "its command cannot be started": (lambda: crashed(128, "StartError", "no such file"), FailureCause.SPAWN_FAILED),
    "any other end, crash loops too": (looping, FailureCause.EXITED),
    "ended after it was ready": (died, FailureCause.DIED_AFTER_READY),
    "evicted": (lambda: rejected("Evicted", "The node was low on resource: memory."), FailureCause.EVICTED),
    "taken away by the cluster: for a pod of higher priority, by a drain of its node": (
        lambda: taken("PreemptionByScheduler"),
        FailureCause.EVICTED,
    ),
    "its node is lost": (lambda: rejected("NodeLost"), FailureCause.NODE_LOST),
    "taken away at the progress deadline": (at_the_deadline, FailureCause.PROGRESS_DEADLINE),
}


@pytest.mark.parametrize("row", POD_ROWS, ids=[row.failure for row in POD_ROWS])
def test_a_row(row: PodRow) -> None:
    make, cause = MAKERS[row.failure]
    failure = make()
    assert failure is not None
    assert (failure.cause, row.cause) == (cause, cause)
    pattern = ".+".join(re.escape(part) for part in row.message.split(ANY))
    assert re.fullmatch(pattern, failure.message), failure.message
    assert failure.numbers["kubernetes"] == row.kubernetes


def test_every_row_happens() -> None:
    assert [row.failure for row in POD_ROWS] == list(MAKERS)


def test_the_resource_that_is_short_is_named() -> None:
    """GPUs before processors: who waits for a GPU is not helped by more of the rest."""
    failure = failing_scheduling(SHORT)
    assert failure is not None
    numbers = {"resource": "nvidia.com/gpu", "nodes_short": 1.0, "nodes": 3.0}
    assert numbers.items() <= failure.numbers.items()
    assert failure.at == at(1), "since when, however often it is said again"


def test_one_that_served_and_was_taken_away_has_ended_so() -> None:
    target = condition("DisruptionTarget", "True", 90, "EvictionByEvictionAPI", "Eviction API: evicting")
    serving = pod(running(5), SCHEDULED, READY)
    (start,) = records(told(pod(running(5), SCHEDULED), serving, pod(running(5), SCHEDULED, READY, target, deleted=90)))
    assert start.ended is not None
    assert (start.ended.cause, start.ended.numbers["kubernetes"]) == (FailureCause.EVICTED, "EvictionByEvictionAPI")


def test_a_node_that_is_lost_takes_its_pods_by_its_taint() -> None:
    failure = taken("DeletionByTaintManager")
    assert failure is not None
    assert failure.cause is FailureCause.NODE_LOST


def test_trouble_that_is_said_again_is_the_same() -> None:
    seen = told(pod(waiting("ContainerCreating"), SCHEDULED))
    once = story.with_event(seen, event("FailedMount", "no volume", 9, container=None))
    again = story.with_event(once, event("FailedMount", "no volume", 9, last=300, count=7, container=None))
    assert causes.trouble(once) == causes.trouble(again)
    unheard = unscheduled(SHORT)
    first = story.with_event(unheard, event("FailedScheduling", SHORT, 2))
    later = story.with_event(first, event("FailedScheduling", SHORT, 302))
    assert causes.trouble(first) == causes.trouble(later)


@pytest.mark.parametrize(
    ("message", "resource", "short"),
    [
        ("0/2 nodes are available: 2 Insufficient nvidia.com/gpu.", "nvidia.com/gpu", 2),
        ("0/2 nodes are available: 1 Insufficient memory, 2 Insufficient cpu. preemption: none", "cpu", 2),
        ("0/9 nodes are available: 9 Insufficient nvidia.com/mig-1g.5gb. x", "nvidia.com/mig-1g.5gb", 9),
        ("0/2 nodes are available: 2 Too many pods.", None, None),
        ("no nodes available to schedule pods", None, None),
    ],
)
def test_words_of_the_scheduler(message: str, resource: str | None, short: int | None) -> None:
    failure = failing_scheduling(message)
    assert failure is not None
    assert (failure.numbers.get("resource"), failure.numbers.get("nodes_short")) == (resource, short)


@pytest.mark.parametrize(
    ("reason", "message", "permanent"),
    [
        ("ErrImagePull", "connection refused", False),
        ("ImagePullBackOff", "Back-off pulling: 503 Service Unavailable", False),
        ("ImagePullBackOff", "Back-off pulling: manifest unknown", True),
        ("ErrImagePull", 'failed to resolve reference "x": not found', True),
        ("InvalidImageName", "couldn't parse", True),
        ("ErrImageNeverPull", "not present with pull policy of Never", True),
    ],
)
def test_whether_the_same_image_fails_again(reason: str, message: str, permanent: bool) -> None:
    failure = waits(reason, message)
    assert failure is not None
    assert failure.permanent is permanent


@pytest.mark.parametrize(
    ("message", "cause", "permanent", "text"),
    [
        ("bad-arguments: no such flag; correct it", FailureCause.BAD_ARGUMENTS, True, "no such flag; correct it"),
        ("stuck: the start is stuck in compile", FailureCause.STUCK, False, "the start is stuck in compile"),
        ("golden-wrong: other tokens\nsecond line", FailureCause.GOLDEN_WRONG, False, "other tokens\nsecond line"),
    ],
)
def test_what_our_runtime_leaves_counts(message: str, cause: FailureCause, permanent: bool, text: str) -> None:
    failure = crashed(1, message=message)
    assert failure is not None
    assert (failure.cause, failure.permanent, failure.message) == (cause, permanent, text)
    assert failure.numbers["exit_code"] == 1


@pytest.mark.parametrize("message", ["error: no such flag", "unknown-cause: x", "Traceback (most recent call last):"])
def test_what_others_leave_is_the_end_of_a_log(message: str) -> None:
    failure = crashed(1, message=f"first\n{message}\n\n")
    assert failure is not None
    assert failure.cause is FailureCause.EXITED
    assert failure.message.endswith(f"exited with code 1: {message}")
    assert failure.tail[:2] == ("first", message)


def test_a_crash_loop_says_how_often_and_the_end_of_its_log() -> None:
    failure = looping()
    assert failure is not None
    assert failure.tail == ("a", "b: last")
    assert {"exit_code": 3.0, "restarts": 3.0, "kubernetes": "CrashLoopBackOff"}.items() <= failure.numbers.items()
    assert failure.at == at(31)


def test_a_mount_that_failed_and_then_came_is_no_trouble() -> None:
    failed = event("FailedMount", "no volume", 9, container=None)
    assert (
        causes.trouble(told(pod(waiting("ContainerCreating"), SCHEDULED), failed, pod(running(20), SCHEDULED))) is None
    )


def test_a_sidecar_that_crashes_is_named() -> None:
    made = told(pod(running(5), SCHEDULED))
    sidecar = made.pod.beside[0]
    assert sidecar.name == "queue-proxy"
    item = pod(running(5), SCHEDULED)
    broken = replace(sidecar, waiting="CrashLoopBackOff", runs=(Run(2, at(1), at(2), 7, "Error", "bind"),))
    failure = causes.trouble(told(replace(item, beside=(broken,))))
    assert failure is not None
    assert (
        failure.message
        == "container queue-proxy beside the engine of pod chat-1-abc exits with 7 again and again: bind"
    )


@pytest.mark.parametrize(
    ("kind", "told_as", "cause", "says"),
    [
        pytest.param(
            "Deployment",
            condition("Progressing", "False", 5, "ProgressDeadlineExceeded"),
            FailureCause.PROGRESS_DEADLINE,
            "chat-1-deployment was not ready within its progress deadline of 600 s",
            id="deadline",
        ),
        pytest.param(
            "Revision",
            condition("ContainerHealthy", "False", 5, "ExitCode3", "Container failed with: a\nboom"),
            FailureCause.EXITED,
            "exited with code 3: boom",
            id="exit code",
        ),
        pytest.param(
            "Revision",
            condition("ResourcesAvailable", "False", 5, "Unschedulable", SHORT),
            FailureCause.UNSCHEDULABLE,
            "insufficient nvidia.com/gpu",
            id="no GPU",
        ),
        pytest.param(
            "Revision",
            condition("ContainerHealthy", "False", 5, "ImagePullBackOff", "back-off"),
            FailureCause.IMAGE_PULL,
            "cannot be had (ImagePullBackOff)",
            id="image",
        ),
        pytest.param(
            "Revision",
            condition("ResourcesAvailable", "False", 5, "ProgressDeadlineExceeded", "slow"),
            FailureCause.PROGRESS_DEADLINE,
            "did not come up",
            id="deadline of the revision",
        ),
        pytest.param(
            "PodAutoscaler",
            condition("Active", "False", 5, "TimedOut", "x"),
            FailureCause.PROGRESS_DEADLINE,
            "could not be activated in time",
            id="activation",
        ),
    ],
)
def test_objects_tell_where_no_pod_does(kind: str, told_as: dict[str, str], cause: FailureCause, says: str) -> None:
    (failure,) = workloads.failures([workload(kind, told_as)])
    assert (failure.cause, failure.at) == (cause, at(5))
    assert says in failure.message
    assert str(failure.numbers["object"]).startswith(f"{kind}/chat-1")


@pytest.mark.parametrize(
    ("kind", "told_as"),
    [
        ("Deployment", condition("Available", "False", 5, "MinimumReplicasUnavailable")),
        ("Deployment", condition("Progressing", "True", 5, "ReplicaSetUpdated")),
        ("Revision", condition("Active", "False", 5, "NoTraffic")),
        ("Revision", condition("ContainerHealthy", "Unknown", 5, "Deploying")),
        ("PodAutoscaler", condition("Active", "Unknown", 5, "Queued")),
        ("PodAutoscaler", condition("Active", "False", 5, "NoTraffic")),
    ],
)
def test_what_is_no_failure(kind: str, told_as: dict[str, str]) -> None:
    assert workloads.failures([workload(kind, told_as)]) == ()
