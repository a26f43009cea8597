"""Windows from cron, what is refused, and the preview: tables of cases."""

import pytest

from activator_ext.core.model import Bounds, Policy, Schedule
from activator_ext.core.schedule import PlannedWindow, Window, preview, validate, windows

from .build import office, utc


def spans(schedule: Schedule, start: str, end: str) -> list[tuple[str, str]]:
    found = windows(schedule, utc(start), utc(end))
    return [(f"{window.ready_by:%m-%d %H:%M}", f"{window.until:%m-%d %H:%M}") for window in found]


@pytest.mark.parametrize(
    ("ready_by", "until", "start", "end", "expect"),
    [
        pytest.param(
            "0 9 * * 1-5",
            "0 18 * * 1-5",
            "2026-03-02 00:00",
            "2026-03-04 00:00",
            [("03-02 09:00", "03-02 18:00"), ("03-03 09:00", "03-03 18:00")],
            id="office hours",
        ),
        pytest.param(
            "0 9 * * 1-5",
            "0 18 * * 1-5",
            "2026-03-02 12:00",
            "2026-03-02 13:00",
            [("03-02 09:00", "03-02 18:00")],
            id="begun before the look",
        ),
        pytest.param(
            "0 9 * * 1-5",
            "0 18 * * 1-5",
            "2026-03-02 18:00",
            "2026-03-03 09:00",
            [],
            id="both ends are exclusive",
        ),
        pytest.param(
            "0 9 * * 1-5",
            "0 18 * * 1-5",
            "2026-03-02 09:00",
            "2026-03-02 09:01",
            [("03-02 09:00", "03-02 18:00")],
            id="the begin is inclusive",
        ),
        pytest.param(
            "0 9 * * 1-5",
            "0 18 * * 1-5",
            "2026-03-06 17:59:59.5",
            "2026-03-10 00:00",
            [("03-06 09:00", "03-06 18:00"), ("03-09 09:00", "03-09 18:00")],
            id="over a weekend, from half a second",
        ),
        pytest.param(
            "0 22 * * *",
            "0 6 * * *",
            "2026-03-03 01:00",
            "2026-03-04 00:00",
            [("03-02 22:00", "03-03 06:00"), ("03-03 22:00", "03-04 06:00")],
            id="over midnight",
        ),
        pytest.param(
            "0 0 * * *",
            "0 1 * * *",
            "2026-03-02 23:00",
            "2026-03-03 02:00",
            [("03-03 00:00", "03-03 01:00")],
            id="from midnight",
        ),
        pytest.param(
            "0 20 * * 5",
            "0 8 * * 1",
            "2026-03-08 12:00",
            "2026-03-09 00:00",
            [("03-06 20:00", "03-09 08:00")],
            id="a long weekend",
        ),
        pytest.param(
            "0 8,9,10 * * *",
            "0 12 * * *",
            "2026-03-02 00:00",
            "2026-03-03 00:00",
            [("03-02 08:00", "03-02 12:00")],
            id="begins inside a window add nothing",
        ),
        pytest.param(
            "0 8,12 * * *",
            "0 12,14 * * *",
            "2026-03-02 00:00",
            "2026-03-03 00:00",
            [("03-02 08:00", "03-02 12:00"), ("03-02 12:00", "03-02 14:00")],
            id="one window right after another",
        ),
        pytest.param(
            "0 9 * * *",
            "0 9 * * *",
            "2026-03-02 10:00",
            "2026-03-03 10:00",
            [("03-02 09:00", "03-03 09:00"), ("03-03 09:00", "03-04 09:00")],
            id="until is strictly later",
        ),
        pytest.param(
            "0 9 29 2 *",
            "0 9 1 3 *",
            "2026-01-01 00:00",
            "2029-01-01 00:00",
            [("02-29 09:00", "03-01 09:00")],
            id="the leap day, once in four years",
        ),
        pytest.param(
            "0 9 28-31 2 *",
            "0 10 * * *",
            "2028-02-27 00:00",
            "2028-03-02 00:00",
            [("02-28 09:00", "02-28 10:00"), ("02-29 09:00", "02-29 10:00")],
            id="the last days of a leap February",
        ),
        pytest.param(
            "0 9 1 1 *",
            "0 18 31 12 *",
            "2026-07-01 00:00",
            "2026-07-02 00:00",
            [("01-01 09:00", "12-31 18:00")],
            id="begun half a year ago",
        ),
        pytest.param("0 9 */3 2 MON#5", "0 18 * * *", "2026-01-01 00:00", "2027-01-01 00:00", [], id="never begins"),
        pytest.param("0 9 * * *", "0 9 */3 2 MON#5", "2026-01-01 00:00", "2027-01-01 00:00", [], id="never ends"),
    ],
)
def test_windows(ready_by: str, until: str, start: str, end: str, expect: list[tuple[str, str]]) -> None:
    assert spans(office(ready_by, until), start, end) == expect


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        pytest.param(Schedule("s", "UTC", "0 1 * * *"), "exactly one of readyBy", id="neither"),
        pytest.param(Schedule("s", "UTC", "0 1 * * *", "0 0 * * *", "0 0 * * *"), "exactly one of", id="both"),
        pytest.param(office(replicas=0), "replicas is 0; write 1 or more", id="no replicas"),
        pytest.param(office("0 0 9 * * *"), "readyBy '0 0 9 . . .' has 6 fields, not five", id="seconds"),
        pytest.param(office(""), "readyBy '' has 0 fields", id="empty"),
        pytest.param(office("@daily"), "has 1 fields", id="a nickname"),
        pytest.param(office(until="0 9 L * *"), "until '0 9 L . .': `L` .last. is not supported", id="last day"),
        pytest.param(office("0 9 * * 5L"), "`L`", id="last Friday"),
        pytest.param(office("0 9 LW * *"), "`L`", id="last weekday"),
        pytest.param(office("0 25 * * *"), "is no cron expression .Bad hour.; write minute, hour", id="hour 25"),
        pytest.param(office("0 9 30 2 *"), "Bad day-of-month", id="30 February"),
        pytest.param(office("0 9 */3 2 MON#5"), "never fires", id="never"),
        pytest.param(office("0 9 * * *".replace("9", "9" * 5000)), "no cron expression", id="a huge number"),
        pytest.param(office(zone="Europe/Madird"), "'Europe/Madird' is no .*; did you mean Europe/Madrid", id="typo"),
        pytest.param(office(zone="???"), "'...' is no time zone; write an IANA name", id="no zone at all"),
        pytest.param(office(zone=""), "'' is no time zone", id="empty zone"),
        pytest.param(office(zone="../etc/hosts"), "is no time zone", id="a path"),
    ],
)
def test_what_cannot_be_used_is_refused(schedule: Schedule, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        validate(schedule)
    assert schedule.name in str(refused.value)


@pytest.mark.parametrize(
    "schedule",
    [
        office(),
        office("0 9 * JUL,APR mon-fri"),
        office("0 9 29 2 *", "0 9 * 2 MON#5", "Europe/Madrid"),
        Schedule("s", "UTC", "0 1 * * *", start="*/5 * * * *"),
    ],
)
def test_what_can_be_used_passes(schedule: Schedule) -> None:
    validate(schedule)


def test_preview_lists_all_schedules_by_the_time_they_are_asked_for() -> None:
    night = Schedule("night", "UTC", "0 5 * * *", start="0 3 * * *", replicas=3)
    policy = Policy(Bounds(0, 2), (night, office(zone="Europe/Madrid")))
    found = preview(policy, lambda replicas: 60.0 * replicas, utc("2026-03-30 00:00"), days=1)
    office_window = PlannedWindow(
        asked_at=utc("2026-03-30 06:59"),
        ready_by=utc("2026-03-30 07:00"),
        until=utc("2026-03-30 16:00"),
        local_ready_by="Mon 2026-03-30 09:00 CEST",
        local_until="Mon 2026-03-30 18:00 CEST",
        replicas=1,
        source="schedule office",
        dst="UTC+01:00 → UTC+02:00 since the window before",
    )
    night_window = PlannedWindow(
        asked_at=utc("2026-03-30 03:00"),
        ready_by=utc("2026-03-30 03:02"),
        until=utc("2026-03-30 05:00"),
        local_ready_by="Mon 2026-03-30 03:02 UTC",
        local_until="Mon 2026-03-30 05:00 UTC",
        replicas=2,
        source="schedule night",
        dst=None,
    )
    assert found == (night_window, office_window)


@pytest.mark.parametrize(
    ("policy", "lead_s", "expect"),
    [
        pytest.param(Policy(Bounds(0, 0), (office(),)), 60, (0, "09:00"), id="bounds.max 0: nothing is started"),
        pytest.param(
            Policy(schedules=(Schedule("s", "UTC", "5 9 * * *", start="0 9 * * *"),)),
            600,
            (1, "09:05"),
            id="started too late for its window",
        ),
    ],
)
def test_preview_at_the_edges(policy: Policy, lead_s: float, expect: tuple[int, str]) -> None:
    (window,) = preview(policy, lambda _: lead_s, utc("2026-03-30 00:00"), days=1)
    assert (window.replicas, f"{window.ready_by:%H:%M}") == expect


def test_windows_carry_their_schedule() -> None:
    (window,) = windows(office(replicas=2), utc("2026-03-02 00:00"), utc("2026-03-03 00:00"))
    assert window == Window(utc("2026-03-02 09:00"), utc("2026-03-02 18:00"), 2, "office")
