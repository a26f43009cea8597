"""Stories → start records: T0, marks, stages, kinds, outcomes, and what the pod's own runtime posts."""

from datetime import timedelta

import pytest

from activator_ext.adapters.starts import story
from activator_ext.adapters.starts.objects import Pod
from activator_ext.adapters.starts.records import NOBODY, Wanted, records
from runtime.contract import Failure, FailureCause, Mark, PodStage, PodStageTime, StartKind
from tests.unit.adapters.starts.build import (
    SCHEDULED,
    UID,
    at,
    condition,
    ended,
    event,
    node,
    pod,
    posted,
    pulled,
    running,
    told,
    waiting,
    workload,
)

READY = condition("Ready", "True", 70)
NOT_READY = condition("Ready", "False", 0)


def started(since: float = 20) -> Pod:
    return pod(running(since), SCHEDULED, NOT_READY)


def serving() -> tuple[Pod, Pod]:
    return started(), pod(running(20), SCHEDULED, READY)


@pytest.mark.parametrize(
    ("wanted", "t0", "why"),
    [
        pytest.param(NOBODY, 0, "its pod was created", id="nobody is known to have asked"),
        pytest.param(Wanted(written_at=at(-3.5), why="schedule office"), -3.5, "schedule office", id="our write"),
        pytest.param(Wanted(waiting_at=at(-2)), -2, "a request waited", id="the first waiting request"),
        pytest.param(Wanted(at(-1), at(-2), "hold h1"), -1, "hold h1", id="our write before a request"),
        pytest.param(Wanted(written_at=at(0.9)), 0.9, "asked for", id="creation is cut to its second"),
        pytest.param(Wanted(written_at=at(1.0)), 0, "its pod was created", id="a write after it is another pod's"),
        pytest.param(Wanted(at(5), at(-2)), -2, "a request waited", id="a late write, an early request"),
    ],
)
def test_t0(wanted: Wanted, t0: float, why: str) -> None:
    (start,) = records(told(pod()), wanted)
    assert (start.marks[Mark.T0], start.why) == (at(t0), why)
    assert start.id == f"{UID}-0"
    assert start.replica == "team-a/chat/chat-1-abc"


def test_t0_of_a_restart_is_the_exit_before() -> None:
    first = started()
    crashed = pod(waiting("CrashLoopBackOff"), SCHEDULED, NOT_READY, restarts=0, last=ended(20, 30, 3, message="no"))
    again = pod(running(40), SCHEDULED, NOT_READY, restarts=1, last=ended(20, 30, 3, message="no"))
    one, two = records(told(first, crashed, again), Wanted(written_at=at(-5)))
    assert (one.marks[Mark.T0], one.outcome) == (at(-5), "failed")
    assert two.marks[Mark.T0] == at(30)
    assert two.why == "its container had ended (exited)"
    assert two.stages == (PodStageTime(stage=PodStage.RESTART_WAIT, begun_at=at(30), elapsed_ms=10_000),)
    assert (two.id, two.outcome, two.kind) == (f"{UID}-1", None, StartKind.CACHED_NODE)


def test_the_whole_way_of_a_pod() -> None:
    seen = told(
        pod(None, condition("PodScheduled", "False", 0, "Unschedulable", "none"), node=None),
        event("FailedScheduling", "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. x", 0.2, exact=True),
        event("Scheduled", "", 90.5, exact=True, container=None),
        pod(None, condition("PodScheduled", "True", 90), inits={"state": running(93)}),
        node(60, 85),
        pod(None, condition("PodScheduled", "True", 90), inits={"state": ended(93, 100, 0, "Completed")}),
        pulled(142, "40s", "41s", 9_000),
        pod(running(143), condition("PodScheduled", "True", 90), NOT_READY, inits={"state": ended(93, 100, 0)}),
        pod(running(143), condition("PodScheduled", "True", 90), condition("Ready", "True", 200)),
    )
    (start,) = records(seen, Wanted(written_at=at(-2)))
    assert start.kind is StartKind.NEW_NODE
    assert start.marks == {
        Mark.T0: at(-2),
        Mark.T1: at(90.5),
        Mark.T2: at(142),
        Mark.T4: at(143),
        Mark.T9: at(200),
    }
    assert [(stage.stage, stage.elapsed_ms / 1000) for stage in start.stages] == [
        (PodStage.POD_CREATE, 2),
        (PodStage.NODE_PROVISION, 85),
        (PodStage.SCHEDULE, 5.5),
        (PodStage.POD_SETUP, 2.5),
        (PodStage.INIT_CONTAINERS, 7),
        (PodStage.IMAGE_PULL, 41),
        (PodStage.CONTAINER_START, 1),
    ]
    assert start.ready_s == 202
    # Unnamed: 100 → 101, and the process of the pod itself, 143 → 200.
    assert start.attributed == pytest.approx(1 - 58 / 202, abs=1e-3)


@pytest.mark.parametrize(
    ("seen", "kind"),
    [
        pytest.param(told(started(), node(-900, -800)), StartKind.CACHED_NODE, id="nothing pulled"),
        pytest.param(
            told(started(), event("Pulled", 'Container image "x" already present on machine', 2)),
            StartKind.CACHED_NODE,
            id="image there",
        ),
        pytest.param(told(started(), pulled(2, "310ms", "310ms")), StartKind.CACHED_NODE, id="the registry only asked"),
        pytest.param(told(started(), pulled(19, "1m2.5s", "1m3s")), StartKind.COLD_NODE, id="pulled"),
        pytest.param(told(started(), pulled(19, "900ms", "30s")), StartKind.COLD_NODE, id="waited for another pull"),
        pytest.param(told(started(), node(3, 15), pulled(19)), StartKind.NEW_NODE, id="node made for it"),
        pytest.param(
            told(started(), node(-60, 15), event("FailedScheduling", "x", 1)),
            StartKind.NEW_NODE,
            id="node came up late",
        ),
        pytest.param(told(started(), node(-60, 15)), StartKind.CACHED_NODE, id="node flapped, but was not waited for"),
        pytest.param(
            told(pod(None, node=None), event("TriggeredScaleUp", "", 2, container=None)),
            StartKind.NEW_NODE,
            id="a node is being made",
        ),
        pytest.param(
            told(started(), event("Pulled", 'Successfully pulled image "q" in 30s', 9, container="queue-proxy")),
            StartKind.CACHED_NODE,
            id="a sidecar's image is not the engine's",
        ),
    ],
)
def test_kind(seen: story.PodStory, kind: StartKind) -> None:
    assert records(seen)[0].kind is kind


@pytest.mark.parametrize(
    ("seen", "says", "kind"),
    [
        pytest.param(told(*serving()), StartKind.FORK, StartKind.FORK, id="it waited for nothing: its own word"),
        pytest.param(told(*serving()), StartKind.COLD_NODE, StartKind.COLD_NODE, id="no compiled code"),
        pytest.param(told(*serving(), pulled(19)), StartKind.FORK, StartKind.COLD_NODE, id="image pulled all the same"),
        pytest.param(told(*serving(), node(3, 9)), StartKind.COLD_NODE, StartKind.NEW_NODE, id="the slower word"),
    ],
)
def test_kind_with_the_runtimes_word(seen: story.PodStory, says: StartKind, kind: StartKind) -> None:
    made = story.with_posted(seen, [posted(20.4, kind=says)])
    assert records(made)[0].kind is kind


def test_what_the_pod_posts_fills_t3_and_on() -> None:
    seen = told(*serving(), pulled(19, "12s", "12s"))
    (start,) = records(story.with_posted(seen, [posted(20.4, golden_key="g")]), Wanted(written_at=at(-1)))
    assert start.marks == {
        Mark.T0: at(-1),
        Mark.T1: at(0),
        Mark.T2: at(19),
        Mark.T3: at(22.4),
        Mark.T4: at(22.5),
        Mark.T8: at(79.4),
        Mark.T9: at(80.4),
    }
    assert (start.outcome, start.ready_s, start.golden_key) == ("ready", 81.4, "g")
    assert start.pod is not None
    assert (start.pod.ready_at, start.pod.teaches) == (at(70), True)


def test_ready_by_its_own_answer_before_kubernetes_says_so() -> None:
    seen = told(started())
    before = posted(20, marks={Mark.T0: 0, Mark.T4: 1, Mark.T9: 30})
    (start,) = records(story.with_posted(seen, [before]))
    assert (start.outcome, start.marks[Mark.T9]) == ("ready", at(50))
    assert start.pod is not None
    assert start.pod.ready_at is None


def test_a_first_success_is_ready_too() -> None:
    (start,) = records(story.with_success(told(*serving()), at(64.5)))
    assert (start.marks[Mark.T9], start.ready_s) == (at(64.5), 64.5)
    assert start.pod is not None
    assert (start.pod.first_success_at, start.pod.ready_at) == (at(64.5), at(70))


def test_starts_again_within_one_container_are_starts_of_their_own() -> None:
    first = posted(20.4, id="h-1")
    died = Failure(cause=FailureCause.DIED_AFTER_READY, message="died", at=at(100))
    again = posted(100, id="h-2", why="it had served")
    made = story.with_posted(told(*serving()), [first.model_copy(update={"ended": died}), again])
    one, two = records(made)
    assert (one.id, one.outcome, one.ended) == (f"{UID}-0", "ready", died)
    assert (two.id, two.outcome, two.marks[Mark.T0]) == (f"{UID}-0.2", "ready", at(100))
    assert two.service == "team-a/chat"


@pytest.mark.parametrize(
    ("last_seen", "outcome", "ended_by"),
    [
        pytest.param(
            pod(ended(20, 200, 137, "OOMKilled"), SCHEDULED, READY), "ready", "no-memory", id="killed with its host"
        ),
        pytest.param(pod(ended(20, 200, 0), SCHEDULED, READY, deleted=190), "ready", None, id="stopped"),
        pytest.param(pod(running(20), SCHEDULED, READY), "ready", None, id="serves"),
    ],
)
def test_how_the_last_start_of_a_container_ends(last_seen: Pod, outcome: str, ended_by: str | None) -> None:
    died = Failure(cause=FailureCause.DIED_AFTER_READY, message="died", at=at(100))
    first = posted(20.4, id="h-1").model_copy(update={"ended": died})
    seen = story.with_posted(told(*serving(), last_seen), [first, posted(100, id="h-2")])
    one, two = records(seen)
    assert one.ended == died, "its own end, not the container's"
    assert two.outcome == outcome
    assert (two.ended.numbers["how"] if two.ended is not None else None) == ended_by


def test_the_node_that_is_gone_ended_what_served_on_it() -> None:
    seen = story.gone(story.node_gone(told(*serving()), at(90)), at(400))
    (start,) = records(seen)
    assert start.ended is not None
    assert (start.ended.cause, start.ended.at) == (FailureCause.NODE_LOST, at(90))


def test_an_engine_that_is_started_again_and_again_keeps_the_names_of_its_starts() -> None:
    seen = told(*serving())
    for number in range(1, 50):
        seen = story.with_posted(seen, [posted(20.4 + 10 * number, id=f"host-7-99-{number}")])
        made = records(seen)
        assert made[0].id == f"{UID}-0", "the container's first, with what the API server tells"
        assert made[0].marks[Mark.T4] == at(20.4 + 10 + 2.1)
        assert made[-1].id == (f"{UID}-0.{number}" if number > 1 else f"{UID}-0")
    assert len(seen.posted) == story.KEPT_POSTED + 1


def test_a_container_that_ends_ends_the_start_that_it_had_told_of() -> None:
    under_way = posted(20.4, marks={Mark.T0: 0, Mark.T4: 1})
    crashed = pod(ended(20, 40, 137, "OOMKilled"), SCHEDULED, NOT_READY, limits={"memory": "48Gi"})
    (start,) = records(story.with_posted(told(started(), crashed), [under_way]))
    assert start.outcome == "failed"
    assert start.failure is not None
    assert start.failure.cause is FailureCause.NO_MEMORY
    assert Mark.T9 not in start.marks
    assert start.ready_s is None


def test_the_hosts_own_failure_counts_over_the_exit_code() -> None:
    told_by_host = Failure(cause=FailureCause.GOLDEN_WRONG, message="other tokens", at=at(39))
    failed = posted(20.4, marks={Mark.T0: 0, Mark.T4: 1}, outcome="failed", failure=told_by_host)
    (start,) = records(story.with_posted(told(started(), pod(ended(20, 40, 1), SCHEDULED, NOT_READY)), [failed]))
    assert (start.outcome, start.failure) == ("failed", told_by_host)


@pytest.mark.parametrize(
    ("last_seen", "gone", "outcome", "cause", "ended_by"),
    [
        pytest.param(pod(running(20), SCHEDULED, NOT_READY), None, None, None, None, id="under way"),
        pytest.param(
            pod(running(20), SCHEDULED, NOT_READY, deleted=50), None, "cancelled", None, None, id="wanted no more"
        ),
        pytest.param(pod(running(20), SCHEDULED, NOT_READY), 60, "cancelled", None, None, id="gone between two looks"),
        pytest.param(
            pod(ended(20, 40, 3, message="no"), SCHEDULED, NOT_READY),
            None,
            "failed",
            FailureCause.EXITED,
            None,
            id="crashed",
        ),
        pytest.param(
            pod(ended(20, 52, 143), SCHEDULED, NOT_READY, deleted=50),
            None,
            "cancelled",
            None,
            None,
            id="ended by its deletion",
        ),
        pytest.param(
            pod(ended(20, 45, 3), SCHEDULED, NOT_READY, deleted=50),
            None,
            "failed",
            FailureCause.EXITED,
            None,
            id="crashed before its deletion",
        ),
        pytest.param(pod(running(20), SCHEDULED, READY), None, "ready", None, None, id="ready"),
        pytest.param(pod(running(20), SCHEDULED, READY, deleted=90), None, "ready", None, None, id="ready, leaves"),
        pytest.param(
            pod(ended(20, 95, 0, "Completed"), SCHEDULED, READY, deleted=90),
            None,
            "ready",
            None,
            None,
            id="ready, left",
        ),
        pytest.param(
            pod(ended(20, 95, 0, "Completed"), SCHEDULED, READY),
            None,
            "ready",
            None,
            "exited",
            id="ready, ended by itself",
        ),
        pytest.param(
            pod(ended(20, 95, 137, "OOMKilled"), SCHEDULED, READY),
            None,
            "ready",
            None,
            "no-memory",
            id="ready, no memory",
        ),
        pytest.param(
            pod(None, SCHEDULED, phase="Failed", reason="OutOfnvidia.com/gpu"),
            None,
            "failed",
            FailureCause.UNSCHEDULABLE,
            None,
            id="refused by its node",
        ),
        pytest.param(
            pod(running(20), SCHEDULED, READY, phase="Failed", reason="Evicted"),
            None,
            "ready",
            None,
            None,
            id="evicted, counted below",
        ),
    ],
)
def test_outcome(
    last_seen: Pod, gone: float | None, outcome: str | None, cause: FailureCause | None, ended_by: str | None
) -> None:
    before = serving() if last_seen.is_true("Ready") else (started(),) if last_seen.engine.runs else (pod(),)
    seen = told(*before, last_seen)
    if gone is not None:
        seen = story.gone(seen, at(gone))
    start = records(seen)[-1]
    assert start.outcome == outcome
    assert (start.failure.cause if start.failure is not None else None) == cause
    if ended_by is not None:
        assert start.ended is not None
        assert (start.ended.cause, start.ended.numbers["how"]) == (FailureCause.DIED_AFTER_READY, ended_by)
    elif last_seen.reason != "Evicted":
        assert start.ended is None


def test_evicted_while_it_served() -> None:
    evicted = pod(running(20), SCHEDULED, READY, phase="Failed", reason="Evicted", message="The node was low on memory")
    (start,) = records(told(*serving(), evicted))
    assert start.ended is not None
    assert start.ended.cause is FailureCause.EVICTED
    assert "low on memory" in start.ended.message


def test_never_scheduled_and_taken_away_has_failed() -> None:
    says = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. p"
    none = pod(None, condition("PodScheduled", "False", 0, "Unschedulable", says), node=None)
    (start,) = records(story.gone(told(none), at(60)))
    assert start.outcome == "failed"
    assert start.failure is not None
    assert start.failure.cause is FailureCause.UNSCHEDULABLE


def test_taken_away_at_the_progress_deadline() -> None:
    exceeded = workload("Deployment", condition("Progressing", "False", 45, "ProgressDeadlineExceeded"), deadline_s=40)
    seen = told(started(), pod(running(20), SCHEDULED, NOT_READY, deleted=75))
    (start,) = records(seen, workloads=[exceeded])
    assert start.failure is not None
    assert start.failure.cause is FailureCause.PROGRESS_DEADLINE
    assert "within its progress deadline of 40 s" in start.failure.message
    (other,) = records(seen, workloads=[workload("Deployment", *(), revision="chat-2")])
    assert other.outcome == "cancelled"


def test_clocks_that_disagree_are_told_and_keep_the_order() -> None:
    """The node's clock is 30 s behind the control plane's: its container runs before its pod is scheduled."""
    seen = told(
        pod(None, condition("PodScheduled", "True", 40), created=35),
        pod(running(10), condition("PodScheduled", "True", 40), created=35),
    )
    (start,) = records(seen)
    assert start.marks[Mark.T4] == start.marks[Mark.T1] == at(40)
    assert start.pod is not None
    assert (start.pod.skew_s, start.pod.teaches) == (30, False)
    (cut,) = records(told(pod(None, SCHEDULED), event("Scheduled", "", 0.9, exact=True), pod(running(0), SCHEDULED)))
    assert cut.pod is not None
    assert cut.pod.skew_s is None


def test_first_seen_ready_it_teaches_nothing() -> None:
    (start,) = records(told(pod(running(20), SCHEDULED, READY)))
    assert (start.outcome, start.ready_s) == ("ready", 70)
    assert start.pod is not None
    assert not start.pod.teaches


def test_an_end_that_was_not_seen_to_be_a_start_is_none() -> None:
    """A controller that has just begun sees that the container ran before; nobody knows whether it had been ready."""
    (start,) = records(told(pod(running(500), SCHEDULED, NOT_READY, restarts=7, last=ended(20, 490, 1))))
    assert (start.id, start.marks[Mark.T0]) == (f"{UID}-7", at(490))


def test_many_restarts_are_kept_bounded() -> None:
    seen = told(started())
    for number in range(1, 200):
        begun = 20 + 10 * number
        again = pod(running(begun), SCHEDULED, NOT_READY, restarts=number, last=ended(begun - 9, begun - 1))
        seen = story.with_pod(seen, again)
    assert len(seen.runs) == story.KEPT_RUNS
    made = records(seen)
    assert [each.id for each in made] == [f"{UID}-{number}" for number in range(193, 200)]
    assert {each.why for each in made} == {"its container had ended (exited)"}, "none without its predecessor"


def test_looking_twice_changes_nothing() -> None:
    seen = told(*serving(), pulled(19), node(-5, -4))
    again = story.with_event(story.with_pod(seen, serving()[1]), pulled(19))
    assert again == seen
    assert story.gone(story.gone(seen, at(99)), at(120)) == story.gone(seen, at(99))


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("0ms", 0.0),
        ("310ms", 0.31),
        ("12.345s", 12.345),
        ("1m2.5s", 62.5),
        ("1h0m3s", 3603.0),
        ("15µs", 15e-6),
        ("", None),
        ("soon", None),
        ("3s.", None),
    ],
)
def test_durations_as_go_writes_them(written: str, seconds: float | None) -> None:
    assert story.seconds(written) == (None if seconds is None else pytest.approx(seconds))


def test_pod_times() -> None:
    leaving = pod(running(20), SCHEDULED, READY, deleted=90)
    (start,) = records(story.gone(told(*serving(), pulled(19, size=77), leaving), at(121)))
    assert start.pod is not None
    assert (start.pod.leaving_at, start.pod.gone_at, start.pod.image_bytes) == (at(90), at(121), 77)
    assert start.pod.gone_at is not None
    assert start.pod.leaving_at is not None
    assert start.pod.gone_at - start.pod.leaving_at == timedelta(seconds=31)


@pytest.mark.parametrize(
    ("said", "took_s", "size_bytes", "present"),
    [
        pytest.param('Successfully pulled image "r/v:1" in 12.345678901s', 12.345678901, None, False, id="1.26"),
        pytest.param(
            'Successfully pulled image "r/v:1" in 3.5s (1m3.5s including waiting)', 63.5, None, False, id="1.28"
        ),
        pytest.param(
            'Successfully pulled image "r/v:1" in 1m2s (1m2.5s including waiting). Image size: 9000000000 bytes.',
            62.5,
            9_000_000_000,
            False,
            id="1.30 and later",
        ),
        pytest.param('Container image "r/v:1" already present on machine', 0, None, True, id="present, to 1.34"),
        pytest.param(
            'Container image "r/v:1" already present on machine and can be accessed by the pod',
            0,
            None,
            True,
            id="1.35",
        ),
    ],
)
def test_words_of_kubelets(said: str, took_s: float, size_bytes: int | None, present: bool) -> None:
    seen = told(pod(None, SCHEDULED), event("Pulled", said, 99))
    assert seen.pull is not None
    assert seen.pull.took_s == pytest.approx(took_s)
    assert (seen.pull.size_bytes, seen.pull.present, seen.pull.at) == (size_bytes, present, at(99))
