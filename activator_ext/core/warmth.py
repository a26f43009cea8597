"""Warmth: all demands of one service become one floor: the strongest demand, the loading lease, the bounds."""

from collections.abc import Iterable
from datetime import UTC, datetime

from activator_ext.core.model import Bounds, Demand, Floor, Reason, ReasonCode, ReplicaView, Warmth

_OPEN = datetime.max.replace(tzinfo=UTC)

_BEST_FIRST = (
    Warmth.BUSY,
    Warmth.WARM,
    Warmth.WARMING,
    Warmth.PARKED_L1,
    Warmth.PARKED_L2,
    Warmth.FAILED,
    Warmth.UNKNOWN,
    Warmth.COLD,
)


def best_warmth(replicas: Iterable[ReplicaView]) -> Warmth:
    """A service's warmth: its best replica's, `cold` without any."""
    return min((replica.warmth for replica in replicas), key=_BEST_FIRST.index, default=Warmth.COLD)


def is_active(demand: Demand, now: datetime) -> bool:
    """Whether a demand counts now: asked for and not yet over. One that is not is announced or past."""
    return demand.since <= now < (demand.until or _OPEN)


def strongest_first(demands: Iterable[Demand], now: datetime) -> tuple[Demand, ...]:
    """Active demands by strength (most replicas, then the latest end, open counting as latest), then the announced."""
    known = tuple(demands)
    active = [demand for demand in known if is_active(demand, now)]
    announced = [demand for demand in known if demand.since > now]
    active.sort(key=lambda demand: (demand.replicas, demand.until or _OPEN), reverse=True)
    announced.sort(key=lambda demand: demand.since)
    return (*active, *announced)


def floor(now: datetime, demands: Iterable[Demand], bounds: Bounds, previous: int, warming: int) -> Floor:
    """The floor now. `previous`: replicas of the floor before; `warming`: replicas whose start is under way.

    A start under way is never stopped for lack of demand: while any replica is warming the floor does not fall
    (loading lease). Bounds hold over everything, the lease included.
    """
    active = [demand for demand in strongest_first(demands, now) if is_active(demand, now)]
    wanted = _wanted(active, bounds)
    if warming and previous > wanted.replicas:
        wanted = Floor(previous, None, Reason(ReasonCode.LOADING_LEASE, {"warming": warming}))
    return _bounded(wanted, bounds)


def _wanted(active: list[Demand], bounds: Bounds) -> Floor:
    """What the demands alone want."""
    if not active:
        return Floor(0, None, Reason(ReasonCode.NO_DEMAND))
    first = active[0]
    # Of 5 until ten and 1 until noon, bounds.max 1 leaves a floor of 1 that lasts until noon, not ten.
    enough = min(first.replicas, bounds.max)
    until = max(demand.until or _OPEN for demand in active if demand.replicas >= enough)
    return Floor(first.replicas, None if until == _OPEN else until, first.reason, first.kind)


def _bounded(wanted: Floor, bounds: Bounds) -> Floor:
    if wanted.replicas > bounds.max:
        reason = Reason(ReasonCode.BOUNDS_MAX, {"wanted": wanted.replicas, "max": bounds.max})
        until = None if bounds.max == bounds.min else wanted.until
        return Floor(bounds.max, until, reason, wanted.demand)
    if wanted.replicas < bounds.min:
        return Floor(bounds.min, None, Reason(ReasonCode.BOUNDS_MIN, {"min": bounds.min}))
    if wanted.replicas == bounds.min:
        # The end of the demand does not end the floor.
        return Floor(wanted.replicas, None, wanted.reason, wanted.demand)
    return wanted
