"""Whatever order pods, Events, nodes and reports come in, and however often, the story ends the same."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from activator_ext.adapters.starts.stories import ServiceStarts, Stories
from activator_ext.core.model import ServiceId
from runtime.contract import Mark
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
)

CHAT = ServiceId("team-a", "chat")
NOT_READY = condition("Ready", "False", 0)
UNSCHEDULED = condition("PodScheduled", "False", 0, "Unschedulable", "0/1 nodes are available: 1 Insufficient x/gpu.")
PODS = (
    pod(None, UNSCHEDULED, node=None),
    pod(waiting("ContainerCreating"), SCHEDULED),
    pod(running(20), SCHEDULED, NOT_READY),
    pod(ended(20, 30, 3, message="boom"), SCHEDULED, NOT_READY),
    pod(running(40), SCHEDULED, NOT_READY, restarts=1, last=ended(20, 30, 3, message="boom")),
    pod(running(40), SCHEDULED, condition("Ready", "True", 70), restarts=1, last=ended(20, 30, 3, message="boom")),
)
"""The pod's versions, which one watch brings in this order."""
OTHERS: tuple[Callable[[Stories], None], ...] = (
    lambda kept: kept.event(event("FailedScheduling", "0/1 nodes are available: 1 Insufficient x/gpu.", 1)),
    lambda kept: kept.event(event("Scheduled", "", 9.5, exact=True)),
    lambda kept: kept.event(pulled(19)),
    lambda kept: kept.event(event("Killing", "Container kserve-container failed liveness probe", 29)),
    lambda kept: kept.node(node(3, 9)),
    lambda kept: kept.posted(UID, [posted(40, marks={Mark.T0: 0, Mark.T4: 1, Mark.T9: 25})]),
    lambda kept: kept.answered(UID, at(66)),
)


def played(steps: list[Callable[[Stories], None]]) -> ServiceStarts:
    kept = Stories()
    for step in steps:
        step(kept)
    return kept.of(CHAT, at(100))


def versions() -> list[Callable[[Stories], None]]:
    return [lambda kept, version=version: kept.pod(version) for version in PODS]  # type: ignore[misc]  # bound by default


IN_ORDER = played([*versions(), *OTHERS])


@settings(deadline=None, max_examples=300)
@given(places=st.lists(st.integers(0, len(PODS)), min_size=len(OTHERS), max_size=len(OTHERS)), seed=st.randoms())
def test_any_interleaving_ends_the_same(places: list[int], seed: object) -> None:
    told = list(zip(places, OTHERS, strict=True))
    seed.shuffle(told)  # type: ignore[attr-defined]  # hypothesis's Random
    steps: list[Callable[[Stories], None]] = []
    for number, version in enumerate(versions()):
        steps += [other for place, other in told if place == number]
        steps.append(version)
    steps += [other for place, other in told if place == len(PODS)]
    assert played(steps) == IN_ORDER


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(0, len(OTHERS) - 1), max_size=20))
def test_what_is_told_again_changes_nothing(again: list[int]) -> None:
    repeated = [OTHERS[number] for number in again]
    assert played([*versions(), *OTHERS, *repeated, versions()[-1]]) == IN_ORDER


@settings(deadline=None, max_examples=100)
@given(st.sets(st.integers(0, len(PODS) - 2)))
def test_versions_that_a_watch_never_brought_leave_the_last_start_as_it_is(seen: set[int]) -> None:
    """A watch that was cut brings the newest version only; what happened in between may be unknown, not wrong."""
    ends = played([*(versions()[number] for number in sorted(seen)), versions()[-1], *OTHERS])
    assert ends.replicas == IN_ORDER.replicas
    last, whole = ends.starts[-1], IN_ORDER.starts[-1]
    assert (last.id, last.outcome, last.marks, last.kind) == (whole.id, whole.outcome, whole.marks, whole.kind)
    assert [start.id for start in ends.starts] in ([whole.id], [start.id for start in IN_ORDER.starts])


def test_and_it_ends_as_it_should() -> None:
    assert [(start.outcome, start.failure.cause if start.failure else None) for start in IN_ORDER.starts] == [
        ("failed", "probe-failed"),
        ("ready", None),
    ]
