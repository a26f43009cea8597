"""When a service that failed may be tried again: a pure decision over its failures in a row."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from runtime.contract import Failure, FailureCause, StartRecord

FIRST_WAIT_S = 10.0
LONGEST_WAIT_S = 300.0
"""The back-off doubles from the first to the longest wait; a permanent failure waits the longest at once."""
PORT_TRIES = 3
"""So many failures in a row for a taken port are answered by another port at once; more are no chance."""
SOUND_AFTER_S = 60.0
"""An engine that served this long was sound: its death is a first failure, not one more in a row."""
CALM_AFTER = timedelta(seconds=2 * LONGEST_WAIT_S)
"""A failure that long after the one before is a first one again."""
_AFTER_READY = frozenset({FailureCause.DIED_AFTER_READY, FailureCause.FROZEN})


@dataclass(frozen=True, slots=True)
class Row:
    """Failures of one service in a row, and when the last one was; none: 0 and None."""

    failures: int = 0
    last_at: datetime | None = None

    def after(self, failure: Failure, served_s: float | None) -> "Row":
        """The row with one more failure; `served_s`: how long the engine had been ready, None if it never was."""
        sound = served_s is not None and served_s >= SOUND_AFTER_S
        calm = self.last_at is None or failure.at - self.last_at >= CALM_AFTER
        return Row(1 if sound or calm else self.failures + 1, failure.at)


NO_FAILURES = Row()


def wait_s(failure: Failure, in_row: int) -> float:
    """Seconds from a failure, the `in_row`-th in a row, to the next try; 0: at once, and requests may wait for it.

    - An engine that had answered and died for the first time: at once, it may be chance.
    - A taken port: at once, thrice in a row.
    - What would fail again (permanent): the longest wait; an edit of the spec or its files ends it.
    - Else 10, 20, 40, 80, 160, then 300 s.
    """
    if failure.permanent:
        return LONGEST_WAIT_S
    if failure.cause in _AFTER_READY and in_row == 1:
        return 0.0
    if failure.cause is FailureCause.PORT_TAKEN and in_row <= PORT_TRIES:
        return 0.0
    return backoff_s(in_row)


def backoff_s(failures_in_row: int) -> float:
    """How long to wait after the n-th failure in a row: 10, 20, 40, 80, 160, then 300 s; 0 for none."""
    if failures_in_row <= 0:
        return 0.0
    # The exponent is capped before the power: 10 · 2^1000 would overflow a float.
    return min(FIRST_WAIT_S * 2.0 ** min(failures_in_row - 1, 6), LONGEST_WAIT_S)


def no_fork_after(start: StartRecord, failure: Failure, no_fork: str | None) -> str | None:
    """Why the next start of a service must not be a fork, None if it may; `no_fork` is that of the start that failed.

    A fork inherits what its parent did at import, and a library that cannot bear that shows it in the start. So a start
    that failed as a fork is tried once by a spawn: if that fails too, the fork was not to blame.
    """
    if failure.permanent or failure.cause in _AFTER_READY or failure.cause is FailureCause.PORT_TAKEN:
        return no_fork
    return f"the start before it, a fork, failed ({failure.cause.value})" if start.forked else None
