"""What real pods showed (tests/data/cluster), replayed: what each start, failure and replica is told as."""

from dataclasses import dataclass, field
from datetime import datetime

import pytest

from activator_ext.adapters.starts.stories import ServiceStarts, Stories
from activator_ext.core.model import ServiceId, Warmth
from runtime.contract import FailureCause, Mark, PodStage, StartKind
from tests.unit.adapters.starts.replay import RECORDED, Replay, lines


@dataclass(frozen=True)
class Case:
    """One recording: `warmths` its service's best replica as it changed, the rest as it was at the end."""

    service: str
    warmths: tuple[str, ...]
    outcomes: tuple[str | None, ...]
    kinds: tuple[StartKind, ...] = (StartKind.CACHED_NODE,)
    last_failure: FailureCause | None = None
    says: str = ""
    numbers: dict[str, float | str] = field(default_factory=dict)
    stages: frozenset[PodStage] = frozenset()


READY = ("cold", "warming", "warm")
CRASHING = ("cold", "warming", "failed", "warming", "failed")
CASES = {
    "cold_node": Case(
        "slow",
        READY,
        ("ready",),
        (StartKind.COLD_NODE,),
        stages=frozenset({PodStage.SCHEDULE, PodStage.IMAGE_PULL}),
    ),
    "cached_node": Case("slow", (*READY, "cold"), ("ready",)),
    "new_node": Case("grown", READY, ("ready",), (StartKind.NEW_NODE,), stages=frozenset({PodStage.NODE_PROVISION})),
    "init_container": Case("stored", READY, ("ready",), stages=frozenset({PodStage.INIT_CONTAINERS})),
    "crash_first": Case(
        "crash",
        CRASHING,
        ("failed",) * 3,
        (StartKind.CACHED_NODE,) * 3,
        FailureCause.EXITED,
        "exited with code 3: CUDA error: out of memory",
        {"exit_code": 3, "restarts": 2, "kubernetes": "CrashLoopBackOff"},
    ),
    # The InferenceService is Ready and its modelStatus Loaded all the while.
    "crash_later": Case(
        "crash",
        (*CRASHING, "warming", "failed", "cold"),
        ("failed",) * 4,
        (StartKind.CACHED_NODE,) * 4,
        FailureCause.EXITED,
        "exited with code 3: CUDA error: out of memory",
        {"exit_code": 3, "restarts": 3},
    ),
    "died_serving": Case(
        "dies",
        READY,
        ("ready", "ready"),
        (StartKind.CACHED_NODE,) * 2,
        FailureCause.DIED_AFTER_READY,
        "ended by signal 9",
        {"exit_code": 137, "how": "killed", "signal": 9},
    ),
    "image_pull": Case(
        "nopull",
        ("cold", "warming", "failed"),
        (None,),
        last_failure=FailureCause.IMAGE_PULL,
        says="image testbed.local/missing:1 of pod nopull-predictor",
        numbers={"kubernetes": "ImagePullBackOff", "image": "testbed.local/missing:1"},
    ),
    "unschedulable": Case(
        "nogpu",
        ("cold", "warming", "failed", "cold"),
        ("failed",),
        last_failure=FailureCause.UNSCHEDULABLE,
        says="insufficient nvidia.com/gpu on 1 of 2 nodes; free nvidia.com/gpu, add a node that has it",
        numbers={"resource": "nvidia.com/gpu", "nodes": 2, "nodes_short": 1},
    ),
    "config_error": Case("nosecret", ("cold", "warming"), (None,)),
    "liveness": Case(
        "probed",
        ("cold", "warming"),
        ("failed", None),
        (StartKind.CACHED_NODE,) * 2,
        FailureCause.PROBE_FAILED,
        "was killed by its probe (Container kserve-container failed liveness probe, will be restarted)",
        {"restarts": 0},
    ),
    "refused": Case(
        "quota",
        ("cold", "warming", "failed"),
        (),
        (),
        FailureCause.POD_REFUSED,
        "exceeded quota: none, requested: pods=1",
        {"kubernetes": "FailedCreate"},
    ),
    "node_lost": Case(
        "lost",
        (*READY, "unknown"),
        ("ready",),
        last_failure=FailureCause.NODE_LOST,
        says="node real-0 of pod lost-predictor",
    ),
}


def best(seen: ServiceStarts) -> str:
    order = [Warmth.WARM, Warmth.WARMING, Warmth.FAILED, Warmth.UNKNOWN]
    return min((each.warmth for each in seen.replicas), key=order.index, default=Warmth.COLD).value


def test_every_recording_is_replayed() -> None:
    assert {path.stem for path in RECORDED.glob("*.jsonl")} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_recording(name: str) -> None:
    case = CASES[name]
    service = ServiceId("team-a", case.service)
    warmths: list[str] = []

    def look(stories: Stories, at: datetime) -> None:
        now = best(stories.of(service, at))
        if warmths[-1:] != [now]:
            warmths.append(now)

    seen = Replay(name, case.service, look).starts()
    assert _without_passing(warmths) == case.warmths
    assert tuple(start.outcome for start in seen.starts) == case.outcomes
    assert tuple(start.kind for start in seen.starts) == case.kinds
    failure = seen.last_failure
    assert (failure.cause if failure is not None else None) == case.last_failure
    if failure is not None:
        assert case.says in failure.message
        assert case.numbers.items() <= failure.numbers.items()
    if seen.starts:
        assert case.stages <= {stage.stage for stage in seen.starts[0].stages}
    for start in seen.starts:
        marks = [start.marks[mark] for mark in Mark if mark in start.marks]
        assert marks == sorted(marks)


def _without_passing(warmths: list[str]) -> tuple[str, ...]:
    """A pod is seen to leave before its Deployment is seen to want one less: for that instant another is expected."""
    return tuple(each for index, each in enumerate(warmths) if (each, *warmths[index + 1 :]) != ("warming", "cold"))


def test_a_pull_is_told_with_its_seconds_and_bytes() -> None:
    (start,) = Replay("cold_node", "slow").starts().starts
    (pull,) = [stage for stage in start.stages if stage.stage is PodStage.IMAGE_PULL]
    assert pull.elapsed_ms == pytest.approx(4000, abs=100)
    assert pull.bytes == 9_000_000_000
    assert start.pod is not None
    assert start.pod.image_bytes == 9_000_000_000


def test_a_pod_that_drains_is_no_replica_and_keeps_its_gpu() -> None:
    leaving: list[tuple[datetime, int, int]] = []

    def look(stories: Stories, at: datetime) -> None:
        seen = stories.of(ServiceId("team-a", "slow"), at)
        leaving.append((at, seen.leaving, len(seen.replicas)))

    Replay("cached_node", "slow", look)
    drained = [at for at, count, replicas in leaving if count == 1 and replicas == 0]
    assert (leaving[-1][0] - drained[0]).total_seconds() == pytest.approx(30, abs=1.5)
    assert leaving[-1][1:] == (0, 0)


def test_readiness_after_a_restart_teaches_nothing() -> None:
    """Kubernetes called the pod Ready in the second of its restart; its process listened a second later."""
    first, again = Replay("died_serving", "dies").starts().starts
    assert first.pod is not None
    assert again.pod is not None
    assert (first.pod.teaches, again.pod.teaches) == (True, False)
    assert again.ready_s == 0.0


def test_the_wait_for_a_node_is_trouble_but_no_failure() -> None:
    troubles: list[FailureCause | None] = []

    def look(stories: Stories, at: datetime) -> None:
        seen = stories.of(ServiceId("team-a", "grown"), at)
        cause = seen.trouble.cause if seen.trouble is not None else None
        if troubles[-1:] != [cause]:
            troubles.append(cause)
        assert seen.last_failure is None

    Replay("new_node", "grown", look)
    assert troubles == [None, FailureCause.UNSCHEDULABLE, None]


@pytest.mark.parametrize("name", CASES)
def test_the_order_of_watches_does_not_matter(name: str) -> None:
    """Each kind comes by a watch of its own: whichever is ahead, the end is the same."""
    ends = []
    for order in (["Node", "Pod", "Event"], ["Event", "Pod", "Node"], ["Pod", "Node", "Event"]):
        replay = Replay.__new__(Replay)
        replay.stories, replay.service, replay._kinds = Stories(), ServiceId("team-a", CASES[name].service), {}
        told = [(at, line) for at, line in lines(name)]
        kinds = [*order, "Deployment", "PodAutoscaler", "Revision"]
        told.sort(key=lambda pair: ("gone" in pair[1], kinds.index(_kind(pair[1])) if _kind(pair[1]) in kinds else 99))
        for replay.at, line in told:
            replay.take(line)
        ends.append(replay.starts())
    starts = [[start.model_dump(exclude={"pod": {"gone_at"}}) for start in end.starts] for end in ends]
    assert starts[0] == starts[1] == starts[2]
    assert ends[0].replicas == ends[1].replicas == ends[2].replicas


def _kind(line: dict[str, dict[str, str]]) -> str:
    return (line.get("object") or line["gone"])["kind"]
