"""Pods and Deployments → the replicas that `decide` sees, and what `decide` makes of them."""

from datetime import UTC, datetime

import pytest

from activator_ext.adapters.starts import story
from activator_ext.adapters.starts.objects import Pod, Workload
from activator_ext.adapters.starts.records import records
from activator_ext.adapters.starts.replicas import replica, replicas
from activator_ext.adapters.starts.story import PodStory
from activator_ext.core.decide import decide
from activator_ext.core.model import (
    Bounds,
    Config,
    Floor,
    Observation,
    Policy,
    QueueView,
    Reason,
    ReasonCode,
    ReplicaView,
    ServiceId,
    ServiceObservation,
    ServiceState,
    State,
    Warmth,
)
from tests.unit.adapters.starts.build import (
    SCHEDULED,
    at,
    condition,
    ended,
    event,
    pod,
    posted,
    running,
    told,
    waiting,
    workload,
)

READY = condition("Ready", "True", 70)
NOT_READY = condition("Ready", "False", 0)
FELL = condition("Ready", "False", 90)
UNSCHEDULED = condition("PodScheduled", "False", 0, "Unschedulable", "0/1 nodes are available: 1 Insufficient x/gpu.")
CHAT = ServiceId("team-a", "chat")
STARTED = pod(running(20), SCHEDULED, NOT_READY)
SERVING = pod(running(20), SCHEDULED, READY)


def view(seen: PodStory, now: float = 100, give_up_s: float = 600) -> ReplicaView | None:
    return replica(seen, records(seen), at(now), give_up_s)


@pytest.mark.parametrize(
    ("seen", "now", "warmth", "since"),
    [
        pytest.param(told(pod(None, node=None)), 1, Warmth.WARMING, 0, id="just made"),
        pytest.param(told(pod(None, UNSCHEDULED, node=None)), 599, Warmth.WARMING, 0, id="no node yet"),
        pytest.param(told(pod(None, UNSCHEDULED, node=None)), 600, Warmth.FAILED, 0, id="no node for long"),
        pytest.param(told(pod(waiting("ContainerCreating"), SCHEDULED)), 100, Warmth.WARMING, 0, id="image on its way"),
        pytest.param(
            told(pod(waiting("ImagePullBackOff"), SCHEDULED)), 100, Warmth.FAILED, 0, id="image not to be had"
        ),
        pytest.param(
            told(pod(waiting("CreateContainerConfigError"), SCHEDULED)), 100, Warmth.WARMING, 0, id="Secret missing"
        ),
        pytest.param(
            told(pod(waiting("CreateContainerConfigError"), SCHEDULED)),
            700,
            Warmth.FAILED,
            0,
            id="Secret missing for long",
        ),
        pytest.param(told(STARTED), 100, Warmth.WARMING, 0, id="its process starts"),
        pytest.param(told(STARTED, SERVING), 100, Warmth.WARM, 70, id="Ready"),
        pytest.param(story.with_success(told(STARTED), at(61)), 100, Warmth.WARM, 61, id="answered, Ready comes later"),
        pytest.param(
            story.with_posted(told(STARTED), [posted(20)]), 100, Warmth.WARM, 80, id="admitted, Ready comes later"
        ),
        pytest.param(
            told(STARTED, SERVING, pod(running(20), SCHEDULED, FELL)), 100, Warmth.UNKNOWN, 90, id="Ready no more"
        ),
        pytest.param(
            told(STARTED, SERVING, pod(ended(20, 95), SCHEDULED, FELL)),
            100,
            Warmth.WARMING,
            0,
            id="died, is started again",
        ),
        pytest.param(
            told(STARTED, pod(waiting("CrashLoopBackOff"), SCHEDULED, last=ended(20, 30))),
            100,
            Warmth.FAILED,
            30,
            id="crash loop",
        ),
        pytest.param(
            told(STARTED, pod(running(40), SCHEDULED, NOT_READY, restarts=1, last=ended(20, 30))),
            100,
            Warmth.WARMING,
            30,
            id="started again",
        ),
        pytest.param(
            told(pod(running(20), SCHEDULED, READY, phase="Unknown")), 100, Warmth.UNKNOWN, 70, id="its node is silent"
        ),
    ],
)
def test_a_pod(seen: PodStory, now: float, warmth: Warmth, since: float) -> None:
    made = view(seen, now)
    assert made is not None
    assert (made.id, made.warmth, made.since) == ("team-a/chat/chat-1-abc", warmth, at(since))
    assert (made.ready_at is not None) == (warmth in (Warmth.WARM, Warmth.UNKNOWN))


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(told(STARTED, SERVING, pod(running(20), SCHEDULED, READY, deleted=90)), id="drains"),
        pytest.param(story.gone(told(SERVING), at(90)), id="gone"),
        pytest.param(told(pod(None, SCHEDULED, phase="Failed", reason="Evicted")), id="evicted"),
        pytest.param(told(pod(ended(20, 90, 0), SCHEDULED, phase="Succeeded")), id="over"),
    ],
)
def test_what_is_no_replica(seen: PodStory) -> None:
    assert view(seen) is None


def test_the_wait_for_a_node_does_not_count_for_what_comes_after_it() -> None:
    """Nine minutes for a node, and then a Secret that is still missing: that wait begins anew."""
    seen = told(
        pod(None, UNSCHEDULED, node=None),
        pod(waiting("CreateContainerConfigError"), condition("PodScheduled", "True", 540)),
    )
    made = view(seen, 700)
    assert made is not None
    assert made.warmth is Warmth.WARMING


def test_the_wait_for_a_node_is_bounded_by_the_deadline() -> None:
    made = view(told(pod(None, UNSCHEDULED, node=None), event("FailedScheduling", "0/1 nodes", 3)), 31, give_up_s=30)
    assert made is not None
    assert made.warmth is Warmth.FAILED


def pods(*made: Pod) -> list[tuple[PodStory, ReplicaView | None]]:
    return [(seen, view(seen)) for seen in map(told, made)]


def warm(name: str, revision: str = "chat-1") -> Pod:
    return pod(running(20), SCHEDULED, READY, name=name, uid=name, revision=revision)


def cold(name: str, revision: str = "chat-1") -> Pod:
    return pod(None, SCHEDULED, name=name, uid=name, revision=revision)


REFUSED = condition("ReplicaFailure", "True", 7, "FailedCreate", "quota")


@pytest.mark.parametrize(
    ("made", "deployments", "current", "running", "warmths"),
    [
        pytest.param([], [], None, 0, [], id="nothing"),
        pytest.param(
            [], [workload("Deployment", replicas=2)], None, 0, ["warming", "warming"], id="wanted, not made yet"
        ),
        pytest.param(
            [warm("a")], [workload("Deployment", replicas=2)], None, 0, ["warm", "warming"], id="one of two made"
        ),
        pytest.param([warm("a")], [workload("Deployment", replicas=0)], None, 0, ["warm"], id="not yet told to leave"),
        pytest.param([], [workload("Deployment", REFUSED)], None, 0, ["failed"], id="none may be made"),
        pytest.param([warm("a"), warm("b")], [], None, 1, ["busy", "warm"], id="one is busy"),
        pytest.param([cold("a"), warm("b")], [], None, 5, ["warming", "busy"], id="only a warm one can be busy"),
        pytest.param([warm("a")], [], "chat-2", 0, ["warm"], id="the old Revision serves"),
        pytest.param([warm("a"), cold("b", "chat-2")], [], "chat-2", 0, ["warming"], id="its successor is on its way"),
        pytest.param(
            [warm("a"), warm("c"), cold("b", "chat-2")],
            [],
            "chat-2",
            0,
            ["warming", "warm"],
            id="two before, one of the new",
        ),
        pytest.param(
            [],
            [workload("Deployment", replicas=1), workload("Deployment", replicas=0, revision="chat-2")],
            "chat-2",
            0,
            [],
            id="an old Revision's wish counts for nothing",
        ),
    ],
)
def test_a_service(
    made: list[Pod], deployments: list[Workload], current: str | None, running: int, warmths: list[str]
) -> None:
    got = replicas(pods(*made), deployments, current=current, running=running)
    assert [each.warmth.value for each in got] == warmths
    assert len({each.id for each in got}) == len(got)


def decided(views: tuple[ReplicaView, ...], before: int, now: datetime, waiting_now: int = 0) -> Floor:
    queue = QueueView(seen_at=now, waiting=waiting_now)
    floor = Floor(before, None, Reason(ReasonCode.NO_DEMAND))
    seen = Observation({CHAT: ServiceObservation(replicas=views, queue=queue)})
    config = Config({CHAT: Policy(bounds=Bounds(0, 5))})
    return decide(now, seen, State({CHAT: ServiceState(floor)}), config).services[CHAT].floor


def test_a_pending_pod_is_capacity_on_its_way() -> None:
    """Nobody wants it any more: a start under way is not given up, and no second one is asked for."""
    pending = replicas(pods(pod(None, UNSCHEDULED, node=None)), [])
    floor = decided(pending, 1, at(100))
    assert (floor.replicas, floor.reason.code) == (1, ReasonCode.LOADING_LEASE)


def test_a_pod_that_only_fails_holds_no_floor_up() -> None:
    failing = replicas(pods(pod(waiting("CrashLoopBackOff"), SCHEDULED, restarts=2, last=ended(20, 30))), [])
    assert decided(failing, 1, at(100)).replicas == 0
    assert decided(failing, 1, at(100), waiting_now=1).replicas == 1


def test_times_are_aware() -> None:
    made = view(told(STARTED, SERVING))
    assert made is not None
    assert made.since.tzinfo is UTC
