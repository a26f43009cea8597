"""Windows from cron: when a schedule wants its replicas, in UTC, clock changes included.

DST policy, the same for every expression:

- a local time that the clock skips (the gap) fires once, at the gap's end: `30 2 * * *` in Madrid fires at 03:00 CEST
  on 2026-03-29; several times in one gap, and the gap's end itself, are one firing;
- a local time that comes twice (the fold) fires once, at its first occurrence: 02:30 CEST on 2026-10-25.

cronsim, given a zone, follows Debian's cron, which does this only where neither minute nor hour begins with `*`: it
skips `*/30 2 * * *` in the gap and fires it twice in the fold. So cronsim walks the bare wall clock here, where all
expressions are alike, and this module places each wall time on the real line of time.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from activator_ext.core.model import Policy, Schedule

_TICK = timedelta(microseconds=1)
_SECOND = timedelta(seconds=1)
_EXAMPLE = "write minute, hour, day of month, month, day of week, such as '0 9 * * 1-5'"


@dataclass(frozen=True, slots=True)
class Window:
    """One stretch [ready_by, until) in which `replicas` are wanted warm.

    Of a schedule with `start`, `ready_by` is that start: when the replicas are asked for. `dst` says what a clock
    change did to the window, None if nothing.
    """

    ready_by: datetime
    until: datetime
    replicas: int
    schedule: str
    dst: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedWindow:
    """A window as a preview shows it: asked for at `asked_at`, warm over [ready_by, until), local times as text."""

    asked_at: datetime
    ready_by: datetime
    until: datetime
    local_ready_by: str
    local_until: str
    replicas: int
    source: str
    dst: str | None


class _Firing(NamedTuple):
    """One firing: the wall time that the expression names, when it happens, and what a clock change did to it."""

    wall: datetime
    at: datetime
    change: str | None


def validate(schedule: Schedule) -> None:
    """Raises ValueError, naming the expression or zone and the fix, unless every field of the schedule can be used."""
    where = f"schedule {schedule.name!r}"
    if (schedule.ready_by is None) == (schedule.start is None):
        raise ValueError(f"{where}: set exactly one of readyBy (warm by then) and start (asked for then)")
    if schedule.replicas < 1:
        raise ValueError(f"{where}: replicas is {schedule.replicas}; write 1 or more")
    _check_zone(where, schedule.time_zone)
    for field, expression in (("readyBy", schedule.ready_by), ("start", schedule.start), ("until", schedule.until)):
        if expression is not None:
            _check_cron(f"{where}: {field} {expression!r}", expression)


def windows(schedule: Schedule, start: datetime, end: datetime) -> Iterator[Window]:
    """The windows of a valid schedule that intersect [start, end), oldest first, those begun before `start` included.

    A window ends at the first firing of `until` strictly after it began. A begin inside a running window adds
    nothing; one at the very end of a window begins the next. Windows of one schedule never overlap.
    """
    zone = ZoneInfo(schedule.time_zone)
    begins, untils = _begins(schedule), schedule.until
    # No window runs over a firing of `until`: the last one at or before `start` is as far back as need be looked.
    ended = _last(untils, zone, start)
    before: datetime | None = None
    while (
        ended is not None
        and (begin := _first(begins, zone, ended.at - _TICK)) is not None
        and begin.at < end
        and (until := _first(untils, zone, begin.at)) is not None
    ):
        note = _dst_note(zone, before or _window_before(schedule, zone, begin.at), begin, until)
        yield Window(begin.at, until.at, schedule.replicas, schedule.name, note)
        before, ended = begin.at, until


def preview(policy: Policy, lead_s_of: Callable[[int], float], now: datetime, days: float) -> tuple[PlannedWindow, ...]:
    """The planned warmth of [now, now + days), by the time at which it is asked for.

    A window that begins after the end and is asked for before it is among them. `lead_s_of(replicas)`: seconds from
    asking for that many replicas to having them. Overlapping schedules are listed each for itself; replicas are clipped
    to bounds.max.
    """
    planned = []
    end = now + timedelta(days=days)
    for schedule in policy.schedules:
        zone = ZoneInfo(schedule.time_zone)
        replicas = min(schedule.replicas, policy.bounds.max)
        lead = timedelta(seconds=lead_s_of(replicas)) if replicas else timedelta()
        for window in windows(schedule, now, end if schedule.start else end + lead):
            asked_at = window.ready_by if schedule.start else window.ready_by - lead
            ready_by = min(asked_at + lead, window.until)
            planned.append(
                PlannedWindow(
                    asked_at=asked_at,
                    ready_by=ready_by,
                    until=window.until,
                    local_ready_by=local_text(ready_by, zone),
                    local_until=local_text(window.until, zone),
                    replicas=replicas,
                    source=f"schedule {schedule.name}",
                    dst=window.dst,
                )
            )
    return tuple(sorted(planned, key=lambda window: (window.asked_at, window.ready_by, window.source)))


def local_text(instant: datetime, zone: ZoneInfo) -> str:
    """An instant on a zone's clock, to the minute: `Mon 2026-03-30 09:00 CEST`."""
    return f"{instant.astimezone(zone):%a %Y-%m-%d %H:%M %Z}"


def _begins(schedule: Schedule) -> str:
    return schedule.ready_by or schedule.start or ""


def _check_zone(where: str, name: str) -> None:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        close = get_close_matches(name, sorted(available_timezones()), n=3)
        fix = f"did you mean {' or '.join(close)}?" if close else "write an IANA name such as Europe/Madrid"
        raise ValueError(f"{where}: timeZone {name!r} is no time zone; {fix}") from error


def _check_cron(where: str, expression: str) -> None:
    fields = expression.upper().split()
    if len(fields) != 5:
        raise ValueError(f"{where} has {len(fields)} fields, not five; {_EXAMPLE}")
    if "L" in fields[2] + fields[4]:
        raise ValueError(f"{where}: `L` (last) is not supported; name the days, such as 28 or 5#4")
    try:
        # Any year does to see whether it ever fires; cronsim looks 50 years ahead.
        fires = next(CronSim(expression, datetime(2000, 1, 1)), None)  # noqa: DTZ001 — a bare wall clock is meant
    except (CronSimError, ValueError) as error:
        raise ValueError(f"{where} is no cron expression ({error}); {_EXAMPLE}") from error
    if fires is None:
        raise ValueError(f"{where} never fires; name a day that comes")


def _first(expression: str, zone: ZoneInfo, after: datetime) -> _Firing | None:
    """The first firing strictly later than `after`, which is itself a firing or the tick before one.

    So `after` is never amid the fold's second pass, where the clock shows times that fired in the first.
    """
    wall = next(CronSim(expression, after.astimezone(zone).replace(tzinfo=None)), None)
    return None if wall is None else _place(wall, zone)


def _last(expression: str, zone: ZoneInfo, until: datetime) -> _Firing | None:
    """The last firing at or before `until`."""
    wall = until.astimezone(zone).replace(tzinfo=None, microsecond=0)
    # In the fold's second pass, times ahead on the clock fired already: begin at the fold's end. 0 elsewhere.
    repeated = max(until - wall.replace(tzinfo=zone, fold=0).astimezone(UTC), timedelta())
    for earlier in CronSim(expression, wall + repeated + _SECOND, reverse=True):
        firing = _place(earlier, zone)
        if firing.at <= until:
            return firing
    return None


def _place(wall: datetime, zone: ZoneInfo) -> _Firing:
    """The instant of a wall time, by the DST policy above."""
    one, other = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if one == other:
        return _Firing(wall, one, None)
    text = f"{wall:%H:%M} on {wall:%Y-%m-%d}"
    if one < other:
        return _Firing(wall, one, f"{text} comes twice (clocks go back); the first counts")
    # In the gap PEP 495 reads the wall time with the offset of before (later) and of after (earlier): the gap's end is
    # in between, where the clock jumps over the wall time.
    steps = range(int((one - other).total_seconds()) + 1)
    jump = bisect_left(
        steps, True, key=lambda step: (other + step * _SECOND).astimezone(zone).replace(tzinfo=None) > wall
    )
    at = other + jump * _SECOND
    return _Firing(wall, at, f"{text} does not exist (clocks go forward); moved to {at.astimezone(zone):%H:%M %Z}")


def _window_before(schedule: Schedule, zone: ZoneInfo, begin: datetime) -> datetime | None:
    """When the window before the one that begins at `begin` began."""
    inside = _last(_begins(schedule), zone, begin - _SECOND)
    ended = inside and _last(schedule.until, zone, inside.at)
    began = ended and _first(_begins(schedule), zone, ended.at - _TICK)
    return began.at if began else None


def _dst_note(zone: ZoneInfo, before: datetime | None, begin: _Firing, until: _Firing) -> str | None:
    """What clock changes did to a window; `before`: the begin of the window before it."""
    offset = _offset(begin.at, zone)
    notes = [
        begin.change and f"begin {begin.change}",
        until.change and f"end {until.change}",
        before and _offset(before, zone) != offset and f"{_offset(before, zone)} → {offset} since the window before",
        _offset(until.at, zone) != offset and f"{offset} → {_offset(until.at, zone)} within the window",
    ]
    return "; ".join(note for note in notes if note) or None


def _offset(instant: datetime, zone: ZoneInfo) -> str:
    return "UTC" + instant.astimezone(zone).isoformat(timespec="minutes")[16:]
