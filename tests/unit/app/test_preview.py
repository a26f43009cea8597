"""The plan of one service as a view: lead time, windows, and hours counted once where windows overlap."""

from datetime import UTC, datetime, timedelta

import pytest

from activator_ext.app.preview import preview_view
from activator_ext.core.leadtime import LeadTimes
from activator_ext.core.model import Bounds, Policy, Schedule, ServiceId, StartKind

NOW = datetime(2026, 11, 30, 0, 0, tzinfo=UTC)
CHAT = ServiceId("team-a", "chat")


def schedule(name: str, begin: int, end: int, replicas: int = 1) -> Schedule:
    return Schedule(name, "UTC", until=f"0 {end} * * *", start=f"0 {begin} * * *", replicas=replicas)


@pytest.mark.parametrize(
    ("schedules", "bounds_max", "hours"),
    [
        pytest.param((), 2, 0, id="no schedule"),
        pytest.param((schedule("a", 9, 12),), 2, 3, id="one"),
        pytest.param((schedule("a", 9, 12), schedule("b", 11, 14)), 2, 5, id="overlap"),
        pytest.param((schedule("a", 9, 14), schedule("b", 10, 12)), 2, 5, id="one within another"),
        pytest.param((schedule("a", 9, 12), schedule("b", 13, 14)), 2, 4, id="apart"),
        pytest.param((schedule("a", 9, 12),), 0, 0, id="bounds allow none"),
    ],
)
def test_hours_warm(schedules: tuple[Schedule, ...], bounds_max: int, hours: float) -> None:
    policy = Policy(bounds=Bounds(0, bounds_max), schedules=schedules)
    view = preview_view(CHAT, policy, LeadTimes((), 60.0), StartKind.COLD_NODE, NOW, 1)
    assert view.warm_hours == hours


@pytest.mark.parametrize(
    ("begin_hour", "days", "hours"),
    [
        pytest.param(10, 1, 5, id="begun before, and an hour of the next day"),
        pytest.param(8, 0.125, 2, id="ends after"),
        pytest.param(10, 0.125, 3, id="begun before and ends after"),
        pytest.param(15, 0.5, 0, id="beside it"),
    ],
)
def test_hours_are_those_of_the_span_that_was_asked_about(begin_hour: int, days: float, hours: float) -> None:
    policy = Policy(schedules=(schedule("a", 9, 14),))
    begin = NOW + timedelta(hours=begin_hour)
    assert preview_view(CHAT, policy, LeadTimes((), 60.0), StartKind.COLD_NODE, begin, days).warm_hours == hours


def test_the_view_carries_the_plan() -> None:
    office = Schedule("office", "Europe/Madrid", until="0 18 * * *", ready_by="0 9 * * *", replicas=1)
    view = preview_view(CHAT, Policy(schedules=(office,)), LeadTimes((), 60.0), StartKind.COLD_NODE, NOW, 1)
    (window,) = view.windows
    assert (view.service, view.from_, view.to, view.lead_time_s) == ("team-a/chat", NOW, NOW + timedelta(days=1), 60)
    assert window.ready_by == datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
    assert window.asked_at == window.ready_by - timedelta(seconds=60)
    assert window.local_ready_by == "Mon 2026-11-30 09:00 CET"
    assert window.source == "schedule office"
