"""Times and durations as people write them on a command line. Pure: `now` and the zone are passed in."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

_UNITS: Mapping[str, int] = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:(?P<d>\d+)d)?(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m)?(?:(?P<s>\d+(?:\.\d+)?)s)?")
_CLOCK = re.compile(r"(?:(?P<day>today|tomorrow)\s+)?(?P<hour>\d{1,2}):(?P<minute>\d{2})")
_IN = re.compile(r"in\s+(?P<duration>\S+)")


LONGEST_S = 3650 * 86400.0
"""No duration that a person means is longer; a calendar ends in the year 9999."""


class TimeError(ValueError):
    """Text that names no usable time; the message says how to write one."""


def parse_duration(text: str) -> float:
    """`90s`, `10m`, `1h30m`, `2d` in seconds, greater than 0. Raises TimeError."""
    wanted = "write a duration such as 90s, 10m, 1h30m or 2d"
    if text.strip().isdigit():
        raise TimeError(f"{text!r} has no unit: write {text.strip()}s, {text.strip()}m or {text.strip()}h")
    match = _DURATION.fullmatch(text.strip().replace(" ", ""))
    if match is None or not any(match.groupdict().values()):
        raise TimeError(f"{text!r} is not a duration: {wanted}")
    total = sum(float(match[unit] or 0) * length for unit, length in _UNITS.items())
    if total <= 0:
        raise TimeError(f"{text!r} is no time at all: {wanted}")
    if total > LONGEST_S:
        raise TimeError(f"{text!r} is longer than ten years: {wanted}")
    return total


def parse_instant(text: str, now: datetime, zone: ZoneInfo) -> datetime:
    """An instant after `now`, in UTC. Raises TimeError.

    `09:00` is the next 09:00 in `zone`, `tomorrow 09:00` tomorrow's, `2026-12-01T09:00` that of the day,
    `2026-12-01T09:00+01:00` an instant whatever the zone, `in 10m` ten minutes from now. A local time that a clock
    change brings twice is its first; one that it skips is an error.
    """
    words = text.strip()
    if relative := _IN.fullmatch(words):
        return now.astimezone(UTC) + timedelta(seconds=parse_duration(relative["duration"]))
    clock = _CLOCK.fullmatch(words.lower())
    instant = _absolute(words, zone) if clock is None else _on_the_clock(clock, text, now, zone)
    if instant <= now:
        raise TimeError(f"{text!r} is past: it is {_shown(now, zone)} now")
    return instant


def parse_zone(name: str) -> ZoneInfo:
    """An IANA time zone. Raises TimeError."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise TimeError(f"{name!r} is not a time zone: write one such as Europe/Madrid or UTC") from None


def _on_the_clock(clock: re.Match[str], text: str, now: datetime, zone: ZoneInfo) -> datetime:
    try:
        at = time(int(clock["hour"]), int(clock["minute"]))
    except ValueError:
        raise TimeError(f"{text!r} is not on the clock: hours go from 00 to 23, minutes from 00 to 59") from None
    today = now.astimezone(zone).date()
    if clock["day"] != "tomorrow":
        instant = _in_zone(datetime.combine(today, at), zone)
        if instant > now or clock["day"] == "today":
            return instant
    return _in_zone(datetime.combine(today + timedelta(days=1), at), zone)


def _absolute(text: str, zone: ZoneInfo) -> datetime:
    wanted = "write 09:00, 'tomorrow 09:00', 2026-12-01T09:00 or 2026-12-01T09:00+01:00"
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise TimeError(f"{text!r} is not a time: {wanted}") from None
    if ":" not in text:
        raise TimeError(f"{text!r} names no time of day: {wanted}")
    return _in_zone(instant, zone) if instant.tzinfo is None else instant.astimezone(UTC)


def _in_zone(wall: datetime, zone: ZoneInfo) -> datetime:
    instant = wall.replace(tzinfo=zone).astimezone(UTC)
    back = instant.astimezone(zone)
    if back.replace(tzinfo=None) != wall:
        # 02:30 in Madrid on 2026-03-29 reads as 01:30 UTC, which the clock there shows as 03:30.
        raise TimeError(
            f"{wall:%H:%M on %Y-%m-%d} does not exist in {zone.key}: clocks go forward then; write {back:%H:%M}"
        )
    return instant


def _shown(instant: datetime, zone: ZoneInfo) -> str:
    return f"{instant.astimezone(zone):%Y-%m-%d %H:%M %Z}"
