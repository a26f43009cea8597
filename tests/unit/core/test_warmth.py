"""All demands of one service become one floor."""

import pytest

from activator_ext.core.model import Bounds, Demand, DemandKind, Floor, Reason, ReasonCode, Warmth
from activator_ext.core.warmth import best_warmth, floor, is_active, strongest_first

from .build import NOW, at, replica

QUEUE, SCHEDULE, HOLD = DemandKind.QUEUE, DemandKind.SCHEDULE, DemandKind.HOLD
WHY = Reason(ReasonCode.SCHEDULE_WINDOW, {"name": "office", "until": "18:00"})


def demand(replicas: int, until: float | None, since: float = -60, kind: DemandKind = SCHEDULE) -> Demand:
    return Demand(kind, replicas, at(since), None if until is None else at(until), WHY)


@pytest.mark.parametrize(
    ("warmths", "expect"),
    [
        pytest.param([], Warmth.COLD, id="none"),
        pytest.param([Warmth.WARM, Warmth.BUSY, Warmth.WARMING], Warmth.BUSY, id="busy"),
        pytest.param([Warmth.WARMING, Warmth.WARM], Warmth.WARM, id="warm"),
        pytest.param([Warmth.PARKED_L1, Warmth.WARMING], Warmth.WARMING, id="warming"),
        pytest.param([Warmth.PARKED_L2, Warmth.PARKED_L1], Warmth.PARKED_L1, id="parked at level 1"),
        pytest.param([Warmth.FAILED, Warmth.PARKED_L2], Warmth.PARKED_L2, id="parked at level 2"),
        pytest.param([Warmth.UNKNOWN, Warmth.FAILED], Warmth.FAILED, id="failed"),
        pytest.param([Warmth.COLD, Warmth.UNKNOWN], Warmth.UNKNOWN, id="unknown"),
        pytest.param([Warmth.COLD], Warmth.COLD, id="cold"),
    ],
)
def test_best_warmth(warmths: list[Warmth], expect: Warmth) -> None:
    assert best_warmth([replica(warmth) for warmth in warmths]) is expect


def test_every_warmth_has_a_place() -> None:
    assert {best_warmth([replica(warmth)]) for warmth in Warmth} == set(Warmth)


@pytest.mark.parametrize(
    ("given", "expect"),
    [
        pytest.param(demand(1, until=60), True, id="running"),
        pytest.param(demand(1, until=None), True, id="open"),
        pytest.param(demand(1, since=0, until=60), True, id="since is inclusive"),
        pytest.param(demand(1, until=0), False, id="until is exclusive"),
        pytest.param(demand(1, since=1, until=60), False, id="announced"),
    ],
)
def test_active(given: Demand, expect: bool) -> None:
    assert is_active(given, NOW) is expect


def test_strongest_first_then_the_announced() -> None:
    two, one_open, one_long, one = demand(2, 60), demand(1, None), demand(1, 600), demand(1, 60)
    soon, later, past = demand(1, 900, since=60), demand(9, 900, since=600), demand(9, until=0)
    given = (later, one, past, one_long, soon, two, one_open)
    assert strongest_first(given, NOW) == (two, one_open, one_long, one, soon, later)


def why(code: ReasonCode, **numbers: float) -> Reason:
    return Reason(code, numbers)


FREE = Bounds(0, 9)


@pytest.mark.parametrize(
    ("demands", "bounds", "previous", "warming", "expect"),
    [
        pytest.param([], FREE, 0, 0, Floor(0, None, why(ReasonCode.NO_DEMAND)), id="nothing"),
        pytest.param([demand(2, 60)], FREE, 0, 0, Floor(2, at(60), WHY, SCHEDULE), id="one demand"),
        pytest.param([demand(2, None)], FREE, 0, 0, Floor(2, None, WHY, SCHEDULE), id="an open one"),
        pytest.param(
            [demand(2, 60, since=1)], FREE, 0, 0, Floor(0, None, why(ReasonCode.NO_DEMAND)), id="announced only"
        ),
        pytest.param(
            [demand(1, None, kind=QUEUE), demand(2, 60, kind=HOLD)],
            FREE,
            0,
            0,
            Floor(2, at(60), WHY, HOLD),
            id="most replicas",
        ),
        pytest.param(
            [demand(1, None, kind=QUEUE), demand(1, 60, kind=HOLD)],
            FREE,
            0,
            0,
            Floor(1, None, WHY, QUEUE),
            id="open outlasts",
        ),
        pytest.param([], FREE, 2, 0, Floor(0, None, why(ReasonCode.NO_DEMAND)), id="falls when nothing is starting"),
        pytest.param([], FREE, 2, 1, Floor(2, None, why(ReasonCode.LOADING_LEASE, warming=1)), id="loading lease"),
        pytest.param(
            [demand(1, 60)],
            FREE,
            2,
            1,
            Floor(2, None, why(ReasonCode.LOADING_LEASE, warming=1)),
            id="the lease over a smaller demand",
        ),
        pytest.param([demand(2, 60)], FREE, 2, 1, Floor(2, at(60), WHY, SCHEDULE), id="no lease where demand suffices"),
        pytest.param([], FREE, 0, 1, Floor(0, None, why(ReasonCode.NO_DEMAND)), id="a lease of a floor of nothing"),
        pytest.param([], Bounds(1, 2), 0, 0, Floor(1, None, why(ReasonCode.BOUNDS_MIN, min=1)), id="min"),
        pytest.param([demand(1, 60)], Bounds(1, 2), 0, 0, Floor(1, None, WHY, SCHEDULE), id="min outlasts the demand"),
        pytest.param(
            [], Bounds(3, 3), 2, 1, Floor(3, None, why(ReasonCode.BOUNDS_MIN, min=3)), id="min over the lease"
        ),
        pytest.param(
            [demand(5, 60)],
            Bounds(0, 2),
            0,
            0,
            Floor(2, at(60), why(ReasonCode.BOUNDS_MAX, wanted=5, max=2), SCHEDULE),
            id="max",
        ),
        pytest.param(
            [demand(5, 60), demand(2, 600)],
            Bounds(0, 2),
            0,
            0,
            Floor(2, at(600), why(ReasonCode.BOUNDS_MAX, wanted=5, max=2), SCHEDULE),
            id="max lasts as long as any demand fills it",
        ),
        pytest.param(
            [demand(5, 60)],
            Bounds(2, 2),
            0,
            0,
            Floor(2, None, why(ReasonCode.BOUNDS_MAX, wanted=5, max=2), SCHEDULE),
            id="max equal to min lasts",
        ),
        pytest.param(
            [],
            Bounds(0, 1),
            2,
            1,
            Floor(1, None, why(ReasonCode.BOUNDS_MAX, wanted=2, max=1)),
            id="max over the lease",
        ),
        pytest.param(
            [demand(1, 60)],
            Bounds(0, 0),
            0,
            0,
            Floor(0, None, why(ReasonCode.BOUNDS_MAX, wanted=1, max=0), SCHEDULE),
            id="max of nothing",
        ),
    ],
)
def test_floor(demands: list[Demand], bounds: Bounds, previous: int, warming: int, expect: Floor) -> None:
    assert floor(NOW, demands, bounds, previous, warming) == expect
