"""Windows against an oracle that walks minute by minute, in zones and days with clock changes."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from activator_ext.core.schedule import windows

from .build import office, utc

MADRID, NEW_YORK, LORD_HOWE, KOLKATA = "Europe/Madrid", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"


@dataclass(frozen=True)
class Cron:
    """A cron expression that the oracle can match without cronsim."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...] | None
    weekdays: tuple[int, ...] | None

    def __str__(self) -> str:
        fields = (self.minutes, self.hours, None, None, self.weekdays)
        return " ".join("*" if field is None else ",".join(map(str, field)) for field in fields)

    def fires(self, wall: datetime) -> bool:
        return (
            wall.minute in self.minutes
            and (self.hours is None or wall.hour in self.hours)
            and (self.weekdays is None or wall.isoweekday() % 7 in self.weekdays)
        )


CHANGES = {
    (MADRID, "2026-03-29"),
    (MADRID, "2026-10-25"),
    (NEW_YORK, "2026-03-08"),
    (NEW_YORK, "2026-11-01"),
    (LORD_HOWE, "2026-04-05"),
    (LORD_HOWE, "2026-10-04"),
    (KOLKATA, "2028-02-29"),
}
BACK, AHEAD = timedelta(days=16), timedelta(days=4)


@cache
def clock(zone: str, day: str) -> list[tuple[datetime, datetime, list[datetime]]]:
    """Minute by minute: the instant, the wall time, and the wall times that come to pass in that minute."""
    tz, first = ZoneInfo(zone), utc(f"{day} 00:00") - BACK
    minutes = []
    shown: datetime | None = None
    for step in range(int((BACK + AHEAD) / timedelta(minutes=1))):
        instant = first + timedelta(minutes=step)
        wall = instant.astimezone(tz).replace(tzinfo=None)
        begin = wall if shown is None else shown + timedelta(minutes=1)
        passed = [begin + timedelta(minutes=k) for k in range(int((wall - begin) / timedelta(minutes=1)) + 1)]
        shown = wall if shown is None else max(shown, wall)
        minutes.append((instant, wall, passed))
    return minutes


def oracle(begins: Cron, untils: Cron, zone: str, day: str) -> Iterator[tuple[datetime, datetime]]:
    began: datetime | None = None
    for instant, _, passed in clock(zone, day):
        if began and any(map(untils.fires, passed)):
            yield began, instant
            began = None
        if not began and any(map(begins.fires, passed)):
            began = instant


def crons() -> st.SearchStrategy[Cron]:
    def some(values: range) -> st.SearchStrategy[tuple[int, ...]]:
        return st.lists(st.sampled_from(values), min_size=1, max_size=3, unique=True).map(tuple)

    hours = st.one_of(st.none(), some(range(5)), some(range(24)))
    return st.builds(Cron, some(range(0, 60, 5)), hours, st.one_of(st.none(), some(range(7))))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(CHANGES)), crons(), crons(), st.integers(-24 * 60, 48 * 60), st.integers(1, 48 * 60))
def test_windows_are_those_of_the_brute_force_oracle(
    change: tuple[str, str], begins: Cron, untils: Cron, offset_min: int, length_min: int
) -> None:
    zone, day = change
    start = utc(f"{day} 00:00") + timedelta(minutes=offset_min)
    end = min(start + timedelta(minutes=length_min), utc(f"{day} 00:00") + AHEAD)
    found = list(windows(office(str(begins), str(untils), zone), start, end))
    limit = utc(f"{day} 00:00") + AHEAD  # the oracle sees no further
    ended = [(window.ready_by, window.until) for window in found if window.until < limit]
    assert ended == [span for span in oracle(begins, untils, zone, day) if span[1] > start and span[0] < end]
    assert all(one.until <= other.ready_by for one, other in pairwise(found))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(CHANGES)), crons(), crons(), st.integers(0, 72 * 60 - 1))
def test_a_later_look_sees_the_same_windows(change: tuple[str, str], begins: Cron, untils: Cron, later: int) -> None:
    zone, day = change
    start, end = utc(f"{day} 00:00") - timedelta(days=1), utc(f"{day} 00:00") + timedelta(days=2)
    look = start + timedelta(minutes=later)
    schedule = office(str(begins), str(untils), zone)
    whole = list(windows(schedule, start, end))
    assert list(windows(schedule, look, end)) == [window for window in whole if window.until > look]
