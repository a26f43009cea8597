"""A wall clock that is set is noticed by the steady one, and no start is measured with it."""

from datetime import UTC, datetime, timedelta

import pytest

from activator_ext.app.clock_watch import SKEW_S, STEP_S, ClockWatch, in_our_time
from runtime.contract import PortalReport, ServiceLoad

NOW = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)


class Clocks:
    def __init__(self) -> None:
        self.wall, self.steady_s = NOW, 1000.0
        self.watch = ClockWatch(lambda: self.wall, lambda: self.steady_s)

    def go(self, *, wall_s: float, steady_s: float) -> None:
        self.wall += timedelta(seconds=wall_s)
        self.steady_s += steady_s


@pytest.mark.parametrize("step_s", [3600.0, -3600.0, STEP_S + 0.1, -STEP_S - 0.1])
def test_a_step_is_told_once(step_s: float) -> None:
    clocks = Clocks()
    clocks.go(wall_s=100, steady_s=100)
    assert not clocks.watch.moved()
    clocks.go(wall_s=step_s, steady_s=0)
    assert clocks.watch.moved()
    assert clocks.watch.step_s() == pytest.approx(step_s)
    assert not clocks.watch.moved()
    assert clocks.watch.step_s() is None


def test_steps_that_are_not_asked_for_add_up() -> None:
    clocks = Clocks()
    clocks.go(wall_s=3600, steady_s=0)
    clocks.go(wall_s=-3600, steady_s=0)
    assert clocks.watch.step_s() is None


def test_a_machine_that_slept_is_a_step_forth() -> None:
    clocks = Clocks()
    clocks.go(wall_s=8 * 3600, steady_s=5)
    assert clocks.watch.step_s() == pytest.approx(8 * 3600 - 5)


def test_a_slewed_clock_is_none() -> None:
    clocks = Clocks()
    clocks.go(wall_s=1000.5, steady_s=1000)
    assert clocks.watch.step_s() is None


def report(at: datetime) -> PortalReport:
    load = ServiceLoad(service="a/b", waiting=1, oldest_waiting_at=at - timedelta(seconds=3), last_activity_at=at)
    return PortalReport(portal="p", at=at, services=(load, ServiceLoad(service="a/c")))


@pytest.mark.parametrize("skew_s", [3600.0, -3600.0])
def test_a_report_by_another_clock_is_moved_to_ours(skew_s: float) -> None:
    assert in_our_time(report(NOW - timedelta(seconds=skew_s)), NOW) == report(NOW)


def test_a_report_that_was_under_way_is_taken_as_it_is() -> None:
    late = report(NOW - timedelta(seconds=SKEW_S - 1))
    assert in_our_time(late, NOW) is late
