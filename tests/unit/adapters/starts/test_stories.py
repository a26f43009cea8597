"""All pods together: what is wanted, what is forgotten, what outlives what."""

from datetime import timedelta

import pytest

from activator_ext.adapters.starts import stories
from activator_ext.adapters.starts.records import Wanted
from activator_ext.adapters.starts.stories import Stories, settled
from activator_ext.core.model import ServiceId, Warmth
from runtime.contract import FailureCause, Mark, StartKind
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
    waiting,
    workload,
)

CHAT = ServiceId("team-a", "chat")
READY = condition("Ready", "True", 70)
NOT_READY = condition("Ready", "False", 0)
STARTED = pod(running(20), SCHEDULED, NOT_READY)
SERVING = pod(running(20), SCHEDULED, READY)
CRASHED = pod(ended(20, 30, 3, message="boom"), SCHEDULED, NOT_READY)


def test_a_pod_was_asked_for_by_the_wish_that_stood_as_it_came() -> None:
    kept = Stories()
    kept.wanted(CHAT, Wanted(written_at=at(-2), why="hold h1"))
    kept.pod(pod(None))
    kept.wanted(CHAT, None)
    kept.wanted(CHAT, Wanted(written_at=at(-1), why="another"))
    kept.pod(STARTED)
    (start,) = kept.of(CHAT, at(30)).starts
    assert (start.marks[Mark.T0], start.why) == (at(-2), "hold h1")


def test_what_is_told_before_the_pod_is_seen_is_not_lost() -> None:
    kept = Stories()
    kept.event(event("Scheduled", "", 0.7, exact=True))
    kept.event(pulled(19))
    kept.posted(UID, [posted(20)])
    kept.answered(UID, at(80.5))
    assert kept.of(CHAT, at(90)).starts == ()
    kept.node(node(3, 9))
    kept.pod(STARTED)
    (start,) = kept.of(CHAT, at(90)).starts
    assert (start.kind, start.outcome) == (StartKind.NEW_NODE, "ready")
    assert (start.marks[Mark.T1], start.marks[Mark.T2]) == (at(0.7), at(19))
    assert start.pod is not None
    assert start.pod.first_success_at == at(80.5)


def test_early_words_are_bounded() -> None:
    kept = Stories()
    for number in range(stories.EARLY + 10):
        kept.answered(f"other-{number}", at(1))
        kept.posted(f"other-{number}", [])
    for _ in range(10):
        kept.posted(UID, [posted(20)])
    kept.answered(UID, at(90))
    assert (len(kept._early), len(kept._early_posts)) == (stories.EARLY, stories.EARLY_POSTS)
    kept.pod(STARTED)
    assert kept.of(CHAT, at(90)).starts[0].outcome == "ready"
    assert (len(kept._early), len(kept._early_posts)) == (stories.EARLY - 1, stories.EARLY_POSTS - 1)


def test_a_pod_that_is_none_of_ours_may_speak_for_days() -> None:
    """Events of every pod of a cluster come by; only those of InferenceServices are ever seen as pods."""
    kept = Stories()
    for number in range(10 * stories.EARLY_EACH):
        kept.event(event("BackOff", f"restarted {number} times", number))
    assert len(kept._early[UID]) == stories.EARLY_EACH
    kept.event(event("Scheduled", "", 0.7, exact=True))
    kept.pod(STARTED)
    assert kept.of(CHAT, at(90)).starts[0].marks[Mark.T1] == at(0.7)


def test_nothing_is_left_of_what_is_forgotten() -> None:
    kept = Stories()
    kept.pod(SERVING)
    kept.pod_gone(UID, at(100))
    kept.forget(at(100) + stories.KEPT_GONE)
    assert not kept._of
    assert not kept._stories
    assert not kept._wanted


def test_a_node_seen_after_its_pod() -> None:
    kept = Stories()
    kept.pod(STARTED)
    assert kept.of(CHAT, at(90)).starts[0].kind is StartKind.CACHED_NODE
    kept.node(node(3, None))
    kept.node(node(3, 9))
    assert kept.of(CHAT, at(90)).starts[0].kind is StartKind.NEW_NODE
    assert [each.name for each in kept.nodes] == ["node-0"]
    kept.node_gone("node-0", at(95))
    assert kept.nodes == ()
    assert [each.warmth for each in kept.of(CHAT, at(96)).replicas] == [Warmth.UNKNOWN]
    kept.node(node(200, 210))
    assert [each.warmth for each in kept.of(CHAT, at(211)).replicas] == [Warmth.WARMING]
    assert kept.of(CHAT, at(90)).starts[0].kind is StartKind.NEW_NODE


def test_a_node_that_falls_silent_takes_its_pods_along_until_it_is_back() -> None:
    kept = Stories()
    kept.node(node(-99, -90))
    kept.pod(SERVING)
    kept.node(node(-99, None))
    seen = kept.of(CHAT, at(100))
    assert [each.warmth for each in seen.replicas] == [Warmth.UNKNOWN]
    assert seen.last_failure is not None
    assert seen.last_failure.cause is FailureCause.NODE_LOST
    kept.node(node(-99, 110))
    back = kept.of(CHAT, at(111))
    assert ([each.warmth for each in back.replicas], back.trouble) == ([Warmth.WARM], None)


def test_a_failure_outlives_its_pod_its_record_and_the_scale_down() -> None:
    kept = Stories()
    kept.workload(workload("Deployment"))
    kept.pod(STARTED)
    kept.pod(CRASHED)
    kept.workload(workload("Deployment", replicas=0))
    kept.pod_gone(UID, at(60))
    seen = kept.of(CHAT, at(61))
    assert (seen.replicas, len(seen.starts)) == ((), 1)
    kept.forget(at(60) + stories.KEPT_GONE)
    seen = kept.of(CHAT, at(6000))
    assert seen.starts == ()
    assert seen.last_failure is not None
    assert (seen.last_failure.cause, seen.last_failure.at) == (FailureCause.EXITED, at(30))
    kept.service_gone(CHAT)
    assert kept.of(CHAT, at(6001)).last_failure is None


def test_a_pod_is_forgotten_only_after_its_time() -> None:
    kept = Stories()
    kept.pod(SERVING)
    kept.pod_gone(UID, at(100))
    kept.forget(at(100) + stories.KEPT_GONE - timedelta(seconds=1))
    assert len(kept.of(CHAT, at(100)).starts) == 1


def test_objects_speak_only_where_no_pod_does() -> None:
    exceeded = condition("Progressing", "False", 45, "ProgressDeadlineExceeded")
    kept = Stories()
    kept.workload(workload("Deployment", exceeded))
    kept.pod(STARTED)
    assert kept.of(CHAT, at(50)).last_failure is None, "it may still come up"
    alone = Stories()
    alone.workload(workload("Deployment", exceeded))
    failure = alone.of(CHAT, at(50)).last_failure
    assert failure is not None
    assert failure.cause is FailureCause.PROGRESS_DEADLINE


def test_what_objects_say_after_a_pods_failure_is_that_failure() -> None:
    kept = Stories()
    kept.pod(STARTED)
    kept.pod(CRASHED)
    kept.pod_gone(UID, at(60))
    kept.of(CHAT, at(61))
    kept.workload(workload("Revision", condition("ContainerHealthy", "False", 632, "ExitCode3", "failed with: boom")))
    failure = kept.of(CHAT, at(640)).last_failure
    assert failure is not None
    assert failure.at == at(30)
    later = condition("ContainerHealthy", "False", 7200, "ExitCode4", "failed with: other")
    kept.workload(workload("Revision", later))
    failure = kept.of(CHAT, at(7300)).last_failure
    assert failure is not None
    assert (failure.at, failure.numbers["exit_code"]) == (at(7200), 4.0)


def test_a_deployment_that_is_gone_wants_nothing() -> None:
    kept = Stories()
    deployment = workload("Deployment", replicas=2)
    kept.workload(deployment)
    assert [each.warmth for each in kept.of(CHAT, at(1)).replicas] == [Warmth.WARMING] * 2
    kept.workload_gone(deployment)
    assert kept.of(CHAT, at(1)).replicas == ()


def test_the_deadline_of_its_own_deployment_bounds_the_wait() -> None:
    kept = Stories()
    kept.workload(workload("Deployment", deadline_s=30))
    kept.pod(pod(None, condition("PodScheduled", "False", 0, "Unschedulable", "none"), node=None))
    assert [each.warmth for each in kept.of(CHAT, at(29)).replicas] == [Warmth.WARMING]
    assert kept.of(CHAT, at(29)).last_failure is None
    late = kept.of(CHAT, at(31))
    assert [each.warmth for each in late.replicas] == [Warmth.FAILED]
    assert late.last_failure is not None


def test_a_revision_that_tells_of_no_room_before_its_pod_is_seen_is_not_believed_for_good() -> None:
    kept = Stories()
    kept.workload(workload("Revision", condition("ResourcesAvailable", "False", 1, "Unschedulable", "0/1 nodes: x")))
    early = kept.of(CHAT, at(1)).last_failure
    assert early is not None
    assert early.cause is FailureCause.UNSCHEDULABLE
    kept.pod(pod(None, condition("PodScheduled", "False", 0, "Unschedulable", "none"), node=None))
    assert kept.of(CHAT, at(2)).last_failure is None, "a node may still be added"


def test_trouble_now_is_the_newest() -> None:
    kept = Stories()
    kept.pod(pod(waiting("CreateContainerConfigError", "no secret"), SCHEDULED, uid="a", name="a"))
    kept.pod(pod(None, condition("PodScheduled", "False", 9, "Unschedulable", "x"), node=None, uid="b", name="b"))
    trouble = kept.of(CHAT, at(10)).trouble
    assert trouble is not None
    assert trouble.cause is FailureCause.UNSCHEDULABLE


@pytest.mark.parametrize(("after_s", "done"), [(0, False), (1.9, False), (2, True)])
def test_a_cause_settles_when_its_events_have_come(after_s: float, done: bool) -> None:
    kept = Stories()
    kept.pod(STARTED)
    assert settled(kept.of(CHAT, at(21)).starts[0], at(21))
    kept.pod(CRASHED)
    (start,) = kept.of(CHAT, at(31)).starts
    assert settled(start, at(30 + after_s)) is done
