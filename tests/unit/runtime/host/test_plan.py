"""What a host starts and stops to come to its order."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.host.plan import Held, Phase, Start, Step, Stop, plan
from runtime.host.retry import backoff_s

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
STARTING, READY, DRAINING = Phase.STARTING, Phase.READY, Phase.DRAINING

CASES: list[tuple[str, int, list[Held], datetime | None, tuple[Step, ...]]] = [
    ("nothing wanted, nothing there", 0, [], None, ()),
    ("first replica", 1, [], None, (Start(0),)),
    ("two at once", 2, [], None, (Start(0), Start(1))),
    ("as wanted", 1, [Held(0, "new", READY)], None, ()),
    ("one under way is enough", 1, [Held(0, "new", STARTING)], None, ()),
    ("second beside a ready one", 2, [Held(0, "new", READY)], None, (Start(1),)),
    ("a gap is filled", 2, [Held(1, "new", READY)], None, (Start(0),)),
    ("to zero", 0, [Held(0, "new", READY)], None, (Stop(0),)),
    ("of two ready, the higher ordinal goes", 1, [Held(0, "new", READY), Held(1, "new", READY)], None, (Stop(1),)),
    (
        "a start under way goes before a ready one",
        1,
        [Held(0, "new", STARTING), Held(1, "new", READY)],
        None,
        (Stop(0),),
    ),
    ("a draining one holds its ordinal", 1, [Held(0, "new", DRAINING)], None, (Start(1),)),
    ("a draining one is not stopped twice", 0, [Held(0, "new", DRAINING)], None, ()),
    ("back-off runs", 1, [], NOW + timedelta(seconds=5), ()),
    ("back-off is over", 1, [], NOW, (Start(0),)),
    ("a stop does not wait for a back-off", 0, [Held(0, "new", READY)], NOW + timedelta(seconds=5), (Stop(0),)),
    ("new spec starts beside the old", 1, [Held(0, "old", READY)], None, (Start(1),)),
    ("the old serves until the new is ready", 1, [Held(0, "old", READY), Held(1, "new", STARTING)], None, ()),
    ("then it goes", 1, [Held(0, "old", READY), Held(1, "new", READY)], None, (Stop(0),)),
    (
        "no more old ones than are missing",
        2,
        [Held(0, "old", READY), Held(1, "old", READY), Held(2, "old", READY), Held(3, "new", READY)],
        None,
        (Stop(1), Stop(2), Start(4)),
    ),
    ("an old start under way is cancelled", 1, [Held(0, "old", STARTING)], None, (Stop(0), Start(1))),
    ("old ones go when none is wanted", 0, [Held(0, "old", READY)], None, (Stop(0),)),
]


@pytest.mark.parametrize(
    ("wanted", "replicas", "retry_at", "expect"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_plan(wanted: int, replicas: list[Held], retry_at: datetime | None, expect: tuple[Step, ...]) -> None:
    assert plan(wanted=wanted, digest="new", replicas=replicas, now=NOW, retry_at=retry_at) == expect


held = st.builds(Held, st.integers(0, 9), st.sampled_from(["new", "old"]), st.sampled_from(Phase))


@given(st.integers(0, 6), st.lists(held, max_size=8, unique_by=lambda h: h.ordinal))
def test_plan_comes_to_its_order(wanted: int, replicas: list[Held]) -> None:
    """After the steps there are exactly `wanted` of the new spec; no ordinal is used twice; nothing drains twice."""
    steps = plan(wanted=wanted, digest="new", replicas=replicas, now=NOW, retry_at=None)
    started = [s.ordinal for s in steps if isinstance(s, Start)]
    stopped = [s.ordinal for s in steps if isinstance(s, Stop)]
    by_ordinal = {r.ordinal: r for r in replicas}
    assert len(set(started)) == len(started)
    assert not set(started) & set(by_ordinal)
    assert len(set(stopped)) == len(stopped)
    assert all(by_ordinal[n].phase is not DRAINING for n in stopped)
    kept = [r for r in replicas if r.digest == "new" and r.phase is not DRAINING and r.ordinal not in stopped]
    assert len(kept) + len(started) == wanted


@given(st.lists(held, max_size=8, unique_by=lambda h: h.ordinal), st.integers(0, 6))
def test_something_ready_serves_on_until_the_new_is_ready(replicas: list[Held], wanted: int) -> None:
    ready = [r for r in replicas if r.phase is READY]
    stopped = {
        s.ordinal
        for s in plan(wanted=wanted, digest="new", replicas=replicas, now=NOW, retry_at=None)
        if isinstance(s, Stop)
    }
    if wanted > 0 and ready:
        assert any(r.ordinal not in stopped for r in ready)


@pytest.mark.parametrize(
    ("failures", "expect"), [(0, 0.0), (1, 10.0), (2, 20.0), (3, 40.0), (5, 160.0), (6, 300.0), (10**6, 300.0)]
)
def test_backoff(failures: int, expect: float) -> None:
    assert backoff_s(failures) == expect
