"""Clock changes: what becomes of windows that begin or end in a gap or a fold."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from activator_ext.core.schedule import windows

from .build import office, utc

MADRID, NEW_YORK, LORD_HOWE, KOLKATA = "Europe/Madrid", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"


@pytest.mark.parametrize(
    ("zone", "ready_by", "until", "day", "expect"),
    [
        pytest.param(
            MADRID,
            "0 9 * * *",
            "0 18 * * *",
            "2026-03-28",
            ("03-28 08:00", "03-28 17:00", None),
            id="madrid, before",
        ),
        pytest.param(
            MADRID,
            "0 9 * * *",
            "0 18 * * *",
            "2026-03-29",
            ("03-29 07:00", "03-29 16:00", "UTC+01:00 → UTC+02:00 since the window before"),
            id="madrid, forward",
        ),
        pytest.param(
            MADRID,
            "0 9 * * *",
            "0 18 * * *",
            "2026-10-25",
            ("10-25 08:00", "10-25 17:00", "UTC+02:00 → UTC+01:00 since the window before"),
            id="madrid, back",
        ),
        pytest.param(
            MADRID,
            "30 2 * * *",
            "0 5 * * *",
            "2026-03-29",
            (
                "03-29 01:00",
                "03-29 03:00",
                "begin 02:30 on 2026-03-29 does not exist (clocks go forward); moved to 03:00 CEST; "
                "UTC+01:00 → UTC+02:00 since the window before",
            ),
            id="madrid, begin in the gap",
        ),
        pytest.param(
            MADRID,
            "30 2 * * *",
            "0 5 * * *",
            "2026-10-25",
            (
                "10-25 00:30",
                "10-25 04:00",
                "begin 02:30 on 2026-10-25 comes twice (clocks go back); the first counts; "
                "UTC+02:00 → UTC+01:00 within the window",
            ),
            id="madrid, begin in the fold",
        ),
        pytest.param(
            MADRID,
            "0 1 * * *",
            "15 2 * * *",
            "2026-03-29",
            (
                "03-29 00:00",
                "03-29 01:00",
                "end 02:15 on 2026-03-29 does not exist (clocks go forward); moved to 03:00 CEST; "
                "UTC+01:00 → UTC+02:00 within the window",
            ),
            id="madrid, end in the gap",
        ),
        pytest.param(
            MADRID,
            "0 1 * * *",
            "15 2 * * *",
            "2026-10-25",
            (
                "10-24 23:00",
                "10-25 00:15",
                "end 02:15 on 2026-10-25 comes twice (clocks go back); the first counts",
            ),
            id="madrid, end in the fold",
        ),
        pytest.param(
            MADRID,
            "0 22 * * *",
            "0 6 * * *",
            "2026-03-28",
            ("03-28 21:00", "03-29 04:00", "UTC+01:00 → UTC+02:00 within the window"),
            id="madrid, over the change",
        ),
        pytest.param(
            NEW_YORK,
            "0 9 * * *",
            "0 18 * * *",
            "2026-03-08",
            ("03-08 13:00", "03-08 22:00", "UTC-05:00 → UTC-04:00 since the window before"),
            id="new york, forward",
        ),
        pytest.param(
            NEW_YORK,
            "30 1 * * *",
            "0 4 * * *",
            "2026-11-01",
            (
                "11-01 05:30",
                "11-01 09:00",
                "begin 01:30 on 2026-11-01 comes twice (clocks go back); the first counts; "
                "UTC-04:00 → UTC-05:00 within the window",
            ),
            id="new york, begin in the fold",
        ),
        pytest.param(
            LORD_HOWE,
            "15 2 * * *",
            "0 5 * * *",
            "2026-10-04",
            (
                "10-03 15:30",
                "10-03 18:00",
                "begin 02:15 on 2026-10-04 does not exist (clocks go forward); moved to 02:30 +11; "
                "UTC+10:30 → UTC+11:00 since the window before",
            ),
            id="lord howe, half an hour's gap",
        ),
        pytest.param(
            LORD_HOWE,
            "45 1 * * *",
            "0 5 * * *",
            "2026-04-05",
            (
                "04-04 14:45",
                "04-04 18:30",
                "begin 01:45 on 2026-04-05 comes twice (clocks go back); the first counts; "
                "UTC+11:00 → UTC+10:30 within the window",
            ),
            id="lord howe, half an hour's fold",
        ),
        pytest.param(
            KOLKATA,
            "0 9 * * *",
            "0 18 * * *",
            "2026-03-29",
            ("03-29 03:30", "03-29 12:30", None),
            id="no dst",
        ),
        pytest.param(
            "Pacific/Apia",
            "0 9 30 12 *",
            "0 18 31 12 *",
            "2011-12-31",
            (
                "12-30 10:00",
                "12-31 04:00",
                "begin 09:00 on 2011-12-30 does not exist (clocks go forward); moved to 00:00 +14; "
                "UTC-10:00 → UTC+14:00 since the window before",
            ),
            id="a day that a country skipped",
        ),
    ],
)
def test_clock_changes(zone: str, ready_by: str, until: str, day: str, expect: tuple[str, str, str | None]) -> None:
    midnight = datetime.fromisoformat(f"{day} 00:00").replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    found = [
        (f"{window.ready_by:%m-%d %H:%M}", f"{window.until:%m-%d %H:%M}", window.dst)
        for window in windows(office(ready_by, until, zone), midnight, midnight + timedelta(hours=23))
        if window.ready_by >= midnight
    ]
    assert found == [expect]


def firings(expression: str, day: str, hours: int) -> list[str]:
    """Every firing, seen as windows that end a minute later."""
    start = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(MADRID)).astimezone(UTC)
    found = windows(office(expression, "* * * * *", MADRID), start, start + timedelta(hours=hours))
    return [f"{window.ready_by:%H:%M}" for window in found]


@pytest.mark.parametrize(
    ("expression", "forward", "back"),
    [
        # At 00:00 UTC it is 01:00 CET, from 01:00 UTC on CEST; back: 02:00–02:59 CEST is 00:00–00:59 UTC, and again.
        pytest.param("30 2 * * *", ["01:00"], ["00:30"], id="a fixed time"),
        pytest.param("0,30 2 * * *", ["01:00"], ["00:00", "00:30"], id="two in one gap are one"),
        pytest.param("0 2,3 * * *", ["01:00"], ["00:00", "02:00"], id="the gap's end is the same firing"),
        pytest.param("*/30 2 * * *", ["01:00"], ["00:00", "00:30"], id="* in the minute"),
        pytest.param("30 * * * *", ["00:30", "01:00", "01:30", "02:30"], ["23:30", "00:30", "02:30"], id="* hours"),
        pytest.param("30 */2 * * *", ["01:00", "02:30"], ["00:30"], id="*/2 hours"),
        pytest.param("30 1-3 * * *", ["00:30", "01:00", "01:30"], ["23:30", "00:30", "02:30"], id="a range of hours"),
    ],
)
def test_every_expression_follows_one_policy(expression: str, forward: list[str], back: list[str]) -> None:
    assert firings(expression, "2026-03-29 01:00", hours=3) == forward
    assert firings(expression, "2026-10-25 01:00", hours=4) == back


@pytest.mark.parametrize(
    ("start", "expect"),
    [
        pytest.param("2026-10-25 00:20", ("00:10", "00:45"), id="in the first pass"),
        pytest.param("2026-10-25 00:50", ("23:10", "23:45"), id="past its end in the first pass"),
        pytest.param("2026-10-25 01:20", ("23:10", "23:45"), id="in the second pass, where it shows that time again"),
    ],
)
def test_looking_from_within_the_fold(start: str, expect: tuple[str, str]) -> None:
    schedule = office("10 2 * * *", "45 2 * * *", MADRID)
    first = next(windows(schedule, utc(start), utc("2026-10-28 00:00")))
    day_after = timedelta(hours=2) if expect[0] == "23:10" else timedelta()  # the next day's, an hour later in UTC
    assert (f"{first.ready_by - day_after:%H:%M}", f"{first.until - day_after:%H:%M}") == expect
