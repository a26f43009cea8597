"""The wall clock is set by others: noticed by the steady clock beside it, and kept out of what is learned.

Announced minutes, holds and schedules are instants of the wall clock, so a step moves them; how long something took is
no matter of the wall clock, and a start during which it was set says nothing about lead times.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from runtime.contract import PortalReport, ServiceLoad

STEP_S = 2.0
"""What is a step: time daemons slew by 0.5 ms a second at most, and our two readings are microseconds apart."""
SKEW_S = 5.0
"""By how much another process's clock may differ before its instants are moved; a report is under way for less."""


class ClockWatch:
    """Compares `now` with `elapsed_s`, which grows steadily and stands while the machine sleeps."""

    def __init__(self, now: Callable[[], datetime], elapsed_s: Callable[[], float]) -> None:
        self._now = now
        self._elapsed_s = elapsed_s
        self._begun_s = self._difference_s()

    def moved(self) -> bool:
        """Whether there is a step that `step_s` has not told yet."""
        return abs(self._difference_s() - self._begun_s) >= STEP_S

    def step_s(self) -> float | None:
        """By how many seconds the clock was set since this last told a step (negative: back); None for none."""
        difference_s = self._difference_s()
        by_s = difference_s - self._begun_s
        if abs(by_s) < STEP_S:
            return None
        self._begun_s = difference_s
        return by_s

    def _difference_s(self) -> float:
        return self._now().timestamp() - self._elapsed_s()


def in_our_time(report: PortalReport, now: datetime) -> PortalReport:
    """The report with its instants on our clock, where the portal's differs by more than `SKEW_S`."""
    skew = now - report.at
    if abs(skew) < timedelta(seconds=SKEW_S):
        return report
    return report.model_copy(update={"at": now, "services": tuple(_moved(load, skew) for load in report.services)})


def _moved(load: ServiceLoad, by: timedelta) -> ServiceLoad:
    instants = {"oldest_waiting_at": load.oldest_waiting_at, "last_activity_at": load.last_activity_at}
    return load.model_copy(update={name: at + by for name, at in instants.items() if at is not None})
