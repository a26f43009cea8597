"""Times and durations as people write them: a table of cases on fixed clocks."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from activator_ext.app.cli.times import TimeError, parse_duration, parse_instant, parse_zone

MADRID = ZoneInfo("Europe/Madrid")
NOW = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)  # a Monday, 09:00 in Madrid
SPRING = datetime(2026, 3, 28, 22, 0, tzinfo=UTC)  # clocks go 02:00 → 03:00 in the night to come
AUTUMN = datetime(2026, 10, 24, 21, 0, tzinfo=UTC)  # clocks go 03:00 → 02:00 in the night to come


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("10m", 600),
        ("1h30m", 5400),
        ("2d", 172800),
        ("1d2h3m4s", 93784),
        (" 1h 30m ", 5400),
        ("0.5s", 0.5),
        ("0h5m", 300),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("90", "has no unit: write 90s, 90m or 90h"),
        ("", "is not a duration"),
        ("soon", "is not a duration"),
        ("0s", "no time at all"),
        ("9999999999999d", "longer than ten years"),
        ("-5m", "is not a duration"),
        ("5m1h", "is not a duration"),
        ("5m5m", "is not a duration"),
        ("1w", "such as 90s, 10m, 1h30m or 2d"),
        ("1.5h", "is not a duration"),
    ],
)
def test_durations_that_are_none(text: str, says: str) -> None:
    with pytest.raises(TimeError, match=says):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "now", "utc"),
    [
        pytest.param("09:30", NOW, "2026-11-30T08:30", id="later today"),
        pytest.param("9:30", NOW, "2026-11-30T08:30", id="without the leading zero"),
        pytest.param("09:00", NOW, "2026-12-01T08:00", id="this very minute is tomorrow's"),
        pytest.param("08:00", NOW, "2026-12-01T07:00", id="past today, so tomorrow"),
        pytest.param("today 18:00", NOW, "2026-11-30T17:00", id="today"),
        pytest.param("tomorrow 09:00", NOW, "2026-12-01T08:00", id="tomorrow"),
        pytest.param("Tomorrow  09:00", NOW, "2026-12-01T08:00", id="tomorrow, loosely written"),
        pytest.param("2026-12-01T09:00", NOW, "2026-12-01T08:00", id="a day without offset is the zone's"),
        pytest.param("2026-12-01 09:00", NOW, "2026-12-01T08:00", id="with a space"),
        pytest.param("2026-12-01T09:00+01:00", NOW, "2026-12-01T08:00", id="with offset"),
        pytest.param("2026-12-01T09:00-05:00", NOW, "2026-12-01T14:00", id="with another offset"),
        pytest.param("2026-12-01T09:00Z", NOW, "2026-12-01T09:00", id="UTC"),
        pytest.param("in 10m", NOW, "2026-11-30T08:10", id="from now"),
        pytest.param("04:00", SPRING, "2026-03-29T02:00", id="after clocks went forward"),
        pytest.param("02:30", AUTUMN, "2026-10-25T00:30", id="comes twice: the first"),
        pytest.param("2026-10-25T02:30+01:00", AUTUMN, "2026-10-25T01:30", id="comes twice: the second, by its offset"),
    ],
)
def test_instants(text: str, now: datetime, utc: str) -> None:
    instant = parse_instant(text, now, MADRID)
    assert instant == datetime.fromisoformat(utc).replace(tzinfo=UTC)
    assert instant.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("text", "now", "says"),
    [
        pytest.param("today 08:00", NOW, "is past: it is 2026-11-30 09:00 CET now", id="today, past"),
        pytest.param("2026-11-29T09:00", NOW, "is past", id="a day past"),
        pytest.param("25:00", NOW, "hours go from 00 to 23", id="hour"),
        pytest.param("09:60", NOW, "minutes from 00 to 59", id="minute"),
        pytest.param("2026-12-01", NOW, "names no time of day", id="day only"),
        pytest.param("monday", NOW, "is not a time: write 09:00", id="word"),
        pytest.param("", NOW, "is not a time", id="nothing"),
        pytest.param("2026-13-01T09:00", NOW, "is not a time", id="month"),
        pytest.param("in 10", NOW, "has no unit", id="from now without unit"),
        pytest.param("02:30", SPRING, "02:30 on 2026-03-29 does not exist in Europe/Madrid.*write 03:30", id="gap"),
    ],
)
def test_instants_that_are_none(text: str, now: datetime, says: str) -> None:
    with pytest.raises(TimeError, match=says):
        parse_instant(text, now, MADRID)


def test_the_same_text_in_another_zone() -> None:
    assert parse_instant("09:30", NOW, ZoneInfo("UTC")) == datetime(2026, 11, 30, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize("name", ["Madrid", "", "../etc/passwd", "Europe/Nowhere", "Europe"])
def test_zones_that_are_none(name: str) -> None:
    with pytest.raises(TimeError, match="is not a time zone: write one such as Europe/Madrid"):
        parse_zone(name)
