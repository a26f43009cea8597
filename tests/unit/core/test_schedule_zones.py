"""Schedules in every zone of the tz database, against the brute-force walk: each kind of clock change, and at random.

A short slice here; the whole of it in `make prove`. A failure names its seed, which alone makes the case again.
"""

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import available_timezones

import pytest

from activator_ext.core.model import Schedule
from activator_ext.core.schedule import validate, windows

from .walk import MINUTE, Cron, Walk, changes, random_cron, spans, utc_minute, walk

DAY = timedelta(days=1)
ZONES = sorted(available_timezones())
AHEAD = 10 * DAY
# Of an expression that names a month or a day of it, the one before may be years back: a leap day, four.
BACK, FAR_BACK = 90 * DAY, 1600 * DAY

ODD_CHANGES = [
    pytest.param("Europe/Madrid", 2026, id="an hour, at two"),
    pytest.param("America/New_York", 2026, id="an hour, west"),
    pytest.param("Australia/Lord_Howe", 2026, id="half an hour"),
    pytest.param("Antarctica/Troll", 2026, id="two hours"),
    pytest.param("Africa/Casablanca", 2026, id="back for a month: the standard time is the summer's"),
    pytest.param("Africa/El_Aaiun", 2087, id="the last change that is foretold of it"),
    pytest.param("Asia/Gaza", 2023, id="four in a year"),
    pytest.param("Pacific/Apia", 2011, id="a day skipped"),
    pytest.param("Pacific/Kwajalein", 1993, id="a day skipped, the other way round the world"),
    pytest.param("Pacific/Kiritimati", 1994, id="a day skipped, the last of a year"),
    pytest.param("Europe/Volgograd", 2020, id="another standard time for good"),
    pytest.param("Europe/Istanbul", 2016, id="summer time kept for good"),
    pytest.param("America/Sao_Paulo", 2018, id="at midnight: the day begins at one"),
    pytest.param("America/Caracas", 2007, id="half an hour back for good"),
    pytest.param("America/Caracas", 2016, id="half an hour ahead for good"),
    pytest.param("Asia/Pyongyang", 2015, id="half an hour back, at midnight"),
    pytest.param("Asia/Pyongyang", 2018, id="half an hour ahead, half an hour before midnight"),
    pytest.param("Asia/Kathmandu", 1985, id="a quarter of an hour"),
    pytest.param("Pacific/Chatham", 2026, id="at a quarter to three"),
    pytest.param("America/Scoresbysund", 2024, id="zone and summer time changed in one night"),
    pytest.param("Antarctica/Casey", 2020, id="a minute past midnight"),
    pytest.param("America/St_Johns", 2006, id="a minute past midnight, with seconds none"),
    pytest.param("Africa/Juba", 2021, id="an hour back for good"),
    pytest.param("Asia/Tehran", 2022, id="the last summer time"),
    pytest.param("Africa/Cairo", 2023, id="summer time begun anew"),
    pytest.param("America/Nuuk", 2023, id="at ten in the evening"),
]


def judge(begins: Cron, untils: Cron, zone: str, start: datetime, end: datetime, walked: Walk) -> None:
    """`windows` over [start, end) are those of the walk, which must reach beyond both."""
    schedule = Schedule("s", zone, str(untils), ready_by=str(begins))
    validate(schedule)
    found = list(windows(schedule, start, end))
    limit = walked.at(len(walked.shown))
    ended = [(window.ready_by, window.until) for window in found if window.until < limit]
    expected = [span for span in spans(walked, begins, untils) if span[1] > start and span[0] < end]
    assert ended == expected, f"{zone}: {begins} to {untils} over [{start}, {end})"
    assert all(one.until <= other.ready_by for one, other in pairwise(found))
    assert all(window.ready_by.utcoffset() == timedelta() == window.until.utcoffset() for window in found)


def judge_change(zone: str, at: datetime, before: int, after: int) -> None:
    """Windows that begin or end amid the hours that a change skips or repeats, beside them, and over them."""
    first = at - 4 * DAY
    walked = walk(zone, first, int(8 * DAY / MINUTE))
    low, high = sorted((at + before * MINUTE, at + after * MINUTE))
    amid, beside = low + (high - low) / 2, high + 17 * MINUTE
    for begin, until in ((amid, beside), (low - 33 * MINUTE, amid), (low, high), (low - MINUTE, high + MINUTE)):
        judge(daily(begin), daily(until), zone, at - DAY, at + 2 * DAY, walked)
        # The clock shows some of these times again in the hour after a change back.
        judge(daily(begin), daily(until), zone, at + (high - low) / 5, at + 2 * DAY, walked)
    every = Cron("*/10 * * * *", (frozenset(range(0, 60, 10)), *whole()[1:]), either=False)
    judge(every, Cron("* * * * *", whole(), either=False), zone, at - DAY / 8, at + DAY / 8, walked)


def daily(instant: datetime) -> Cron:
    fields = (frozenset({instant.minute}), frozenset({instant.hour}), *whole()[2:])
    return Cron(f"{instant.minute} {instant.hour} * * *", fields, either=False)


def whole() -> tuple[frozenset[int], ...]:
    return tuple(frozenset(span) for span in (range(60), range(24), range(1, 32), range(1, 13), range(7)))


@pytest.mark.parametrize(("zone", "year"), ODD_CHANGES)
def test_odd_clock_changes(zone: str, year: int) -> None:
    found = list(changes(zone, datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 2, tzinfo=UTC)))
    assert found, "the tz database has no such change any more: name another year"
    for at, before, after in found:
        judge_change(zone, at, before, after)


@pytest.mark.prove
def test_every_clock_change_of_the_tz_database() -> None:
    """From 1980, when the last zone with odd seconds had gone, until 2037."""
    known: dict[tuple[datetime, int, int], str] = {}
    for zone in ZONES:
        for change in changes(zone, datetime(1980, 1, 1, tzinfo=UTC), datetime(2038, 1, 1, tzinfo=UTC)):
            known.setdefault(change, zone)
    assert len(known) > 1000
    for (at, before, after), zone in known.items():
        judge_change(zone, at, before, after)


def judge_random(seed: int) -> None:
    """One schedule of any zone, in any year of 1990 to 2036; every other one is looked at beside a clock change."""
    rng = random.Random(seed)
    zone = rng.choice(ZONES)
    start = utc_minute(rng, datetime(1990, 1, 1, tzinfo=UTC), datetime(2037, 1, 1, tzinfo=UTC))
    change = next(changes(zone, start, start + 365 * DAY), None) if rng.random() < 0.5 else None
    near = None
    if change is not None:
        start, near = change[0] + rng.randrange(-3000, 180) * MINUTE, change[0] + change[1] * MINUTE
    begins, untils = (
        random_cron(rng, dense=rng.random() < 0.7, near=near if rng.random() < 0.7 else None) for _ in range(2)
    )
    far = any(len(cron.fields[2]) < 31 or len(cron.fields[3]) < 12 or cron.nth for cron in (begins, untils))
    first = (start - (FAR_BACK if far else BACK)).replace(hour=0, minute=0)
    end = start + rng.randrange(1, int(AHEAD / MINUTE)) * MINUTE
    minutes = int((end + 2 * DAY - first) / MINUTE)
    try:
        judge(begins, untils, zone, start, end, walk.__wrapped__(zone, first, minutes))
    except AssertionError as error:
        error.add_note(f"seed {seed}")
        raise


def blocks(seeds: int) -> list[range]:
    """Seeds in a few tests, so that one that fails leaves the others to run."""
    return [range(begin, begin + seeds // 10) for begin in range(0, seeds, seeds // 10)]


@pytest.mark.parametrize("seeds", blocks(60), ids=str)
def test_random_schedules(seeds: range) -> None:
    for seed in seeds:
        judge_random(seed)


@pytest.mark.prove
@pytest.mark.parametrize("seeds", blocks(1000), ids=str)
def test_a_thousand_random_schedules(seeds: range) -> None:
    for seed in seeds:
        judge_random(seed)
