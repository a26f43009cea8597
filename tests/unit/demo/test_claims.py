"""How the demo judges: a claim fails as soon as the measurement does not bear it out."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from demo.claims import Prewarm, engines_seen, immediate, nothing_runs, prewarm_claims
from demo.watch import Sample

NINE = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NINE + timedelta(seconds=seconds)


def looks(begin_s: float, end_s: float, engine_processes: int = 0) -> list[Sample]:
    return [Sample(at(begin_s + step / 2), engine_processes, 0) for step in range(int(2 * (end_s - begin_s)))]


# Announced 70 s ahead, planned with 50 s, started in 26 s: ready 24 s before nine.
GOOD = Prewarm(
    source="schedule",
    announced_at=at(-70),
    ready_by=NINE,
    asked_at=at(-50),
    ready_at=at(-24),
    lead_s=50,
    why="schedule office: ready by 09:00; a start takes 50 s (P95)",
    answer_s=0.4,
    samples=[*looks(-70, -50), *looks(-50, 5, engine_processes=3)],
)


def failing(run: Prewarm) -> list[str]:
    return [claim.text.split(": ")[1] for claim in prewarm_claims(run) if not claim.holds]


def test_a_good_prewarm_passes_and_shows_its_figures() -> None:
    claims = prewarm_claims(GOOD)

    assert failing(GOOD) == []
    assert [claim.measured for claim in claims] == [
        "0 engine processes in 40 looks",
        "50.0 s ahead, lead time 50.0 s",
        "schedule office",
        "ready at 08:59:36 after 26.0 s",
        "24.0 s idle before its time",
        "0.40 s",
    ]


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (replace(GOOD, ready_at=at(1)), ["ready by 09:00:00"]),
        (replace(GOOD, ready_at=NINE), []),
        (
            replace(GOOD, asked_at=at(-110), ready_at=at(-61), lead_s=110),
            ["no engine before it is due", "not needlessly early"],
        ),
        (replace(GOOD, asked_at=at(-56)), ["asked for its lead time ahead, no sooner"]),
        (replace(GOOD, asked_at=at(-44)), ["no engine before it is due", "asked for its lead time ahead, no sooner"]),
        (replace(GOOD, why="1 waiting, 0 running"), ["started by it, not by a request"]),
        (replace(GOOD, answer_s=12), ["the first request is answered at once"]),
        (replace(GOOD, samples=looks(-70, -50, 1)), ["no engine before it is due"]),
        (replace(GOOD, samples=looks(-54, -50)), ["no engine before it is due"]),
    ],
    ids=[
        "late",
        "on-the-dot",
        "early",
        "asked-too-soon",
        "asked-too-late",
        "by-a-request",
        "slow",
        "engine-seen",
        "few-looks",
    ],
)
def test_what_makes_a_prewarm_fail(run: Prewarm, expected: list[str]) -> None:
    assert failing(run) == expected


def test_looks_are_counted_from_the_beginning_up_to_the_end() -> None:
    samples = [Sample(at(0), 1, 0), Sample(at(1), 2, 0), Sample(at(2), 9, 0)]

    assert engines_seen(samples, at(0), at(2)) == (2, 2)
    assert engines_seen(samples, at(3), at(4)) == (0, 0)


def test_nothing_runs_needs_enough_looks() -> None:
    assert nothing_runs("zero", looks(0, 5), at(0), at(5)).holds
    assert not nothing_runs("zero", looks(0, 4), at(0), at(5)).holds
    assert not nothing_runs("zero", [*looks(0, 5), Sample(at(3), 1, 0)], at(0), at(5)).holds


@pytest.mark.parametrize(("seconds", "holds"), [(5.0, True), (5.01, False)])
def test_immediate(seconds: float, holds: bool) -> None:
    assert immediate("at once", seconds).holds is holds
