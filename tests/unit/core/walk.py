"""A brute-force oracle for schedules: every minute of a span is walked and its wall time looked at.

It shares nothing with what it judges: neither cronsim nor `activator_ext.core.schedule`. A minute in which the wall
clock shows new times (one as a rule, none in a fold's second pass, many after a gap) fires what any of them matches.
"""

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_NAMES: tuple[Mapping[int, str], ...] = (
    {},
    {},
    {},
    {index: datetime(2001, index, 1, tzinfo=UTC).strftime("%b").upper() for index in range(1, 13)},
    {index: datetime(2001, 4, 1 + index, tzinfo=UTC).strftime("%a").upper() for index in range(7)},  # from a Sunday
)


@dataclass(frozen=True)
class Cron:
    """An expression and what it means: the values that each field matches.

    `either`: a day counts that matches the day of the month *or* of the week, as Vixie's cron has it where neither
    field begins with `*`; else it must match both. `nth`: weekdays that count only as the n-th of their month.
    """

    text: str
    fields: tuple[frozenset[int], ...]
    either: bool
    nth: frozenset[tuple[int, int]] = frozenset()

    def __str__(self) -> str:
        return self.text


def random_cron(rng: random.Random, *, dense: bool, near: datetime | None = None) -> Cron:
    """An expression in any of the notations; `dense`: it fires at least every few days; `near` this wall time."""
    minute = _field(rng, 0, rng.choice(["one", "list", "step"]))
    hour = _field(rng, 1, rng.choice(["one", "one", "list", "range", "star", "step"]))
    if near is not None:
        chosen = frozenset((near.hour + rng.randint(-1, 1)) % 24 for _ in range(rng.randint(1, 2)))
        hour = ",".join(map(str, chosen)), chosen
    day, month, weekday = ("*", _every(2)), ("*", _every(3)), ("*", _every(4))
    nth: frozenset[tuple[int, int]] = frozenset()
    shape = rng.choice(["daily", "week"] if dense else ["daily", "week", "month", "month", "both", "year", "nth"])
    if shape in ("week", "both"):
        weekday = _field(rng, 4, rng.choice(["one", "list", "range", "step"]))
    if shape in ("month", "both", "year"):
        day = _field(rng, 2, rng.choice(["one", "list", "range", "step"]))
    if shape == "year":
        month = _field(rng, 3, rng.choice(["list", "range"]))
    if shape == "nth":
        of_week, count = rng.randrange(7), rng.randint(1, 5)
        weekday, nth = (f"{of_week}#{count}", frozenset()), frozenset({(of_week, count)})
    parts = (minute, hour, day, month, weekday)
    either = not day[0].startswith("*") and not weekday[0].startswith("*")
    return Cron(" ".join(text for text, _ in parts), tuple(values for _, values in parts), either, nth)


def _every(field: int) -> frozenset[int]:
    low, high = _RANGES[field]
    return frozenset(range(low, high + 1))


def _field(rng: random.Random, field: int, shape: str) -> tuple[str, frozenset[int]]:
    low, high = _RANGES[field]
    name = _NAMES[field].get if rng.random() < 0.5 else (lambda _: None)
    if shape == "star":
        return "*", _every(field)
    if shape == "step":
        step = rng.randint(2, max(2, (high - low) // 2))
        return f"*/{step}", frozenset(range(low, high + 1, step))
    if shape == "range":
        begin = rng.randint(low, high - 1)
        end = rng.randint(begin + 1, high)
        step = rng.choice([1, 1, 2])
        text = f"{name(begin) or begin}-{name(end) or end}" + (f"/{step}" if step > 1 else "")
        return text, frozenset(range(begin, end + 1, step))
    chosen = rng.sample(range(low, high + 1), 1 if shape == "one" else rng.randint(2, 4))
    return ",".join(str(name(value) or value) for value in chosen), frozenset(chosen)


@dataclass(frozen=True)
class Walk:
    """Every minute from `first` on: `shown[i]` is the latest wall minute that was shown up to then.

    Wall minutes are counted from `wall_first`; `fires[k]` of a field array tells of wall minute k.
    """

    first: datetime
    shown: npt.NDArray[np.int64]
    wall: npt.NDArray[np.datetime64]

    def fired(self, cron: Cron) -> npt.NDArray[np.int64]:
        """The minutes, counted from `first`, in which `cron` fires."""
        before = np.concatenate([[0], np.cumsum(_matches(cron, self.wall))])
        counts = before[self.shown + 1]
        return np.flatnonzero(np.diff(counts)) + 1

    def at(self, minute: int) -> datetime:
        """The instant of a minute."""
        return self.first + int(minute) * MINUTE


@cache
def walk(zone: str, first: datetime, minutes: int) -> Walk:
    """Walk `minutes` minutes of a zone's wall clock from a whole UTC minute on."""
    tz = ZoneInfo(zone)
    hours = minutes // 60 + 2
    offsets = [_offset(tz, first + hour * HOUR) for hour in range(hours)]
    each: list[int] = []
    for hour in range(hours - 1):
        # Minute by minute only where the hour's ends differ: no zone changes twice within an hour and back.
        if offsets[hour] == offsets[hour + 1]:
            each += [offsets[hour]] * 60
        else:
            each += [_offset(tz, first + hour * HOUR + minute * MINUTE) for minute in range(60)]
    offset = np.array(each[:minutes], dtype=np.int64)
    shown = np.maximum.accumulate(np.arange(minutes, dtype=np.int64) + offset)
    base = int(shown[0])
    begin = np.datetime64(first.replace(tzinfo=None), "m") + np.timedelta64(base, "m")
    wall = begin + np.arange(int(shown[-1]) - base + 1).astype("timedelta64[m]")
    return Walk(first, shown - base, wall)


def _offset(zone: ZoneInfo, instant: datetime) -> int:
    found = instant.astimezone(zone).utcoffset()
    assert found is not None
    return int(found.total_seconds() // 60)


def _matches(cron: Cron, wall: npt.NDArray[np.datetime64]) -> npt.NDArray[np.bool_]:
    days, months = wall.astype("datetime64[D]"), wall.astype("datetime64[M]")
    of_day = (wall - days).astype(np.int64)
    day = (days - months).astype(np.int64) + 1
    weekday = (days.astype(np.int64) + 4) % 7  # 1970-01-01 was a Thursday
    month = months.astype(np.int64) % 12 + 1
    on_day, on_weekday = _in(day, cron.fields[2]), _in(weekday, cron.fields[4])
    for of_week, count in cron.nth:
        on_weekday = on_weekday | ((weekday == of_week) & ((day - 1) // 7 + 1 == count))
    on = on_day | on_weekday if cron.either else on_day & on_weekday
    return on & _in(of_day % 60, cron.fields[0]) & _in(of_day // 60, cron.fields[1]) & _in(month, cron.fields[3])


def _in(values: npt.NDArray[np.int64], wanted: Iterable[int]) -> npt.NDArray[np.bool_]:
    table = np.zeros(64, dtype=np.bool_)
    table[list(wanted)] = True
    found: npt.NDArray[np.bool_] = table[values]
    return found


def spans(walked: Walk, begins: Cron, untils: Cron) -> Iterator[tuple[datetime, datetime]]:
    """The windows by the rule: from a begin outside of any to the first `until` after it."""
    ends = walked.fired(untils)
    reached = -1
    for begin in walked.fired(begins):
        if begin < reached:
            continue
        place = int(np.searchsorted(ends, begin, side="right"))
        if place == len(ends):
            return
        reached = int(ends[place])
        yield walked.at(begin), walked.at(reached)


def changes(zone: str, begin: datetime, end: datetime) -> Iterator[tuple[datetime, int, int]]:
    """Every change of a zone's offset in [begin, end): the first instant of the new one, both offsets in minutes."""
    tz = ZoneInfo(zone)
    at, before = begin, _offset(tz, begin)
    while at < end:
        ahead = at + 24 * HOUR
        if _offset(tz, ahead) == before and _offset(tz, at + 12 * HOUR) == before:
            at = ahead
            continue
        while _offset(tz, at + HOUR) == before:
            at += HOUR
        while _offset(tz, at) == before:
            at += MINUTE
        after = _offset(tz, at)
        yield at, before, after
        before = after


def utc_minute(rng: random.Random, begin: datetime, end: datetime) -> datetime:
    """A random whole minute of [begin, end), in UTC."""
    return begin.astimezone(UTC) + rng.randrange(int((end - begin) / MINUTE)) * MINUTE
