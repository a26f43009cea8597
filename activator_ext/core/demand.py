"""Demand: why a floor is wanted: what requests need (the queue), and what was planned (schedules and holds).

Requests are served by ski rental, each replica for itself: a replica is kept until it was not needed for B seconds,
B being what one cold start costs in idle seconds. Without knowing the future, that never costs more than twice what
knowing it would have cost.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil
from zoneinfo import ZoneInfo

from activator_ext.core.model import (
    Asked,
    Demand,
    DemandKind,
    Hold,
    Policy,
    QueueView,
    Reason,
    ReasonCode,
    Schedule,
    ServiceObservation,
    ServiceState,
    Warmth,
)
from activator_ext.core.schedule import local_text, windows

LOOK_AHEAD = timedelta(days=8)
"""How far ahead a schedule's next window is announced: a weekly schedule always has one in sight."""

_READY = frozenset({Warmth.WARM, Warmth.BUSY})
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Needs:
    """What requests needed so far: `last_needed` and `awaited` of `ServiceState`."""

    last_needed: tuple[datetime, ...] = ()
    awaited: int = 0


@dataclass(frozen=True, slots=True)
class Planned:
    """A demand known ahead: `ready_by` is when its replicas are to be (or, asked for at once, may be) ready."""

    demand: Demand
    name: str
    ready_by: datetime


def wanted_replicas(queue: QueueView, target: int) -> int:
    """How many replicas the requests need: ⌈(waiting + running) / target⌉, so 1 as soon as there is any."""
    return ceil((queue.waiting + queue.running) / target)


def warming_replicas(service: ServiceObservation) -> int:
    """How many starts are under way."""
    return sum(replica.warmth is Warmth.WARMING for replica in service.replicas)


def live_replicas(service: ServiceObservation) -> int:
    """How many replicas are ready or under way."""
    return len(_ready(service)) + warming_replicas(service)


def needs(now: datetime, service: ServiceObservation, policy: Policy, state: ServiceState | None) -> Needs:
    """What requests needed so far, with what is seen now.

    The idle seconds of a replica that requests awaited begin when it is ready: a client that left one minute into a
    start of 15 still gets B seconds to come back. A replica that no request needed has no entry. Entries whose B
    seconds are over are forgotten, except of awaited replicas that are still starting; so are those of replicas that
    neither live nor are needed now: what failed or died is started again for those who want it, not for who is gone.
    """
    ready = _ready(service)
    starting = warming_replicas(service)
    needed = list(state.last_needed[: policy.bounds.max]) if state else []
    awaited = min(state.awaited, len(needed)) if state else 0
    for i in range(min(awaited, len(ready))):
        needed[i] = max(needed[i], ready[i])
    count, at = _seen(now, service, policy, needed, first_look=state is None)
    count = min(count, policy.bounds.max)
    needed += [_NEVER] * (count - len(needed))
    needed[:count] = [max(earlier, at) for earlier in needed[:count]]
    awaited = max(awaited, count)
    if awaited <= len(ready):
        awaited = 0
    kept = min(awaited, len(ready) + starting)
    while len(needed) > kept and _expiry(needed[-1], policy) <= now:
        needed.pop()
    if service.queue is not None:
        del needed[max(count, len(ready) + starting) :]
    return Needs(tuple(needed), min(awaited, len(needed)))


def queue_demands(now: datetime, queue: QueueView | None, policy: Policy, known: Needs) -> tuple[Demand, ...]:
    """What requests want now, and for how long what they wanted stays.

    A queue that cannot be seen (None) is not an empty one: what it last wanted stays for its B seconds.
    """
    demands = []
    wanted = 0 if queue is None else wanted_replicas(queue, policy.queue.target)
    if queue is not None and wanted:
        reason = Reason(ReasonCode.REQUESTS, {"waiting": queue.waiting, "running": queue.running})
        demands.append(Demand(DemandKind.QUEUE, wanted, min(queue.seen_at, now), None, reason))
    latest = now
    for replicas in range(len(known.last_needed), wanted, -1):
        since = min(known.last_needed[replicas - 1], now)
        until = _expiry(known.last_needed[replicas - 1], policy)
        # Whoever keeps three keeps two: a smaller number matters only where it lasts longer.
        if until > latest:
            latest = until
            reason = _keep_reason(now, queue, since, policy)
            demands.append(Demand(DemandKind.QUEUE, replicas, since, until, reason))
    return tuple(demands)


def schedule_plans(
    now: datetime, policy: Policy, lead_s_of: Callable[[int], float], asked: tuple[Asked, ...]
) -> Iterator[Planned]:
    """Of each schedule the windows already asked for, and the next one if it begins within `LOOK_AHEAD`.

    `lead_s_of(replicas)`: seconds to plan for that many. `asked`: what was asked for before stays asked.
    """
    for schedule in policy.schedules:
        lead_s = lead_s_of(schedule.replicas)
        lead = timedelta(seconds=lead_s)
        for window in windows(schedule, now, now + lead + LOOK_AHEAD):
            ready_by = window.ready_by + lead if schedule.start else window.ready_by
            since = _asked_at(asked, DemandKind.SCHEDULE, schedule.name, ready_by) or ready_by - lead
            reason = _schedule_reason(schedule, now, window.ready_by, window.until, lead_s)
            announced = window.ready_by if schedule.ready_by else None
            demand = Demand(DemandKind.SCHEDULE, window.replicas, since, window.until, reason, announced)
            yield Planned(demand, schedule.name, ready_by)
            if since > now:
                break


def hold_plans(
    now: datetime, holds: tuple[Hold, ...], lead_s_of: Callable[[int], float], asked: tuple[Asked, ...]
) -> Iterator[Planned]:
    """Every hold of one service that has not expired, announced ones included."""
    for hold in holds:
        if hold.until <= now:
            continue
        lead_s = lead_s_of(hold.replicas)
        lead = timedelta(seconds=lead_s)
        ready_by = hold.ready_by or hold.created_at + lead
        since = _asked_at(asked, DemandKind.HOLD, hold.id, ready_by) or max(hold.created_at, ready_by - lead)
        if hold.ready_by is None:
            # Wanted from its making on, also where the clock was set back to before it.
            since = min(since, now)
        reason = _hold_reason(hold, now, lead_s)
        demand = Demand(DemandKind.HOLD, hold.replicas, since, hold.until, reason, hold.ready_by)
        yield Planned(demand, hold.id, ready_by)


def _ready(service: ServiceObservation) -> list[datetime]:
    """Since when the ready replicas are ready, ascending: replica i + 1 is the (i + 1)-th that became ready."""
    return sorted(r.ready_at or r.since for r in service.replicas if r.warmth in _READY)


def _seen(
    now: datetime, service: ServiceObservation, policy: Policy, needed: list[datetime], *, first_look: bool
) -> tuple[int, datetime]:
    """How many replicas requests are newly seen to need, and when."""
    queue = service.queue
    if queue is None:
        # At a first look with the queue unseen, what lives may be in use: it counts as needed now.
        return live_replicas(service) if first_look else 0, now
    wanted = wanted_replicas(queue, policy.queue.target)
    if wanted:
        return wanted, queue.seen_at
    last = queue.last_activity_at
    live = live_replicas(service)
    if last is not None and live and _expiry(last, policy) > now and (not needed or last > needed[0]):
        # Requests that came and went between two looks keep what lives; nobody waits for what does not.
        return 1, last
    return 0, now


def _expiry(last_needed: datetime, policy: Policy) -> datetime:
    return last_needed + timedelta(seconds=policy.cold_start_cost_s)


def _asked_at(asked: tuple[Asked, ...], kind: DemandKind, name: str, ready_by: datetime) -> datetime | None:
    """When this very demand was asked for, if it was: a lead time that changed since does not move it."""
    for earlier in asked:
        if (earlier.kind, earlier.name, earlier.ready_by) == (kind, name, ready_by):
            return earlier.since
    return None


def _keep_reason(now: datetime, queue: QueueView | None, since: datetime, policy: Policy) -> Reason:
    if queue is None:
        return Reason(ReasonCode.QUEUE_UNKNOWN)
    idle_s = (now - since).total_seconds()
    return Reason(ReasonCode.IDLE_KEEP, {"idle_s": idle_s, "keep_s": policy.cold_start_cost_s})


def _schedule_reason(schedule: Schedule, now: datetime, ready_by: datetime, until: datetime, lead_s: float) -> Reason:
    zone = ZoneInfo(schedule.time_zone)
    if schedule.ready_by and now < ready_by:
        when = local_text(ready_by, zone)
        return Reason(ReasonCode.SCHEDULE_READY_BY, {"name": schedule.name, "ready_by": when, "lead_s": lead_s})
    return Reason(ReasonCode.SCHEDULE_WINDOW, {"name": schedule.name, "until": local_text(until, zone)})


def _hold_reason(hold: Hold, now: datetime, lead_s: float) -> Reason:
    if hold.ready_by and now < hold.ready_by:
        when = _utc_text(hold.ready_by)
        return Reason(ReasonCode.HOLD_READY_BY, {"hold": hold.id, "ready_by": when, "lead_s": lead_s})
    return Reason(ReasonCode.HOLD_ACTIVE, {"hold": hold.id, "until": _utc_text(hold.until)})


def _utc_text(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
