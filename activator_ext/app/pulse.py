"""Has a process stood still? Told by the kernel's scheduler, so that slow is never taken for stopped.

A process that serves has to run when somebody knocks at its socket: on a machine with more work than cores it is
*runnable* until its turn comes (state R), and then it has run. One that is neither runnable nor has run a single time
slice since the knock is stopped (SIGSTOP, state T) or blocked in something that does not return (a lock, a dead disk).
"""

from dataclasses import dataclass
from pathlib import Path

STOPPED_S = 10.0
"""Patience with a process that a signal has stopped: long enough to look at something and go on."""
BLOCKED_S = 60.0
"""Patience with one that is blocked: a disk that stalls comes back within that, or its streams are lost anyway."""


@dataclass(frozen=True, slots=True)
class Look:
    """What the scheduler says of a process: its state letter (proc(5)) and how many time slices it has run so far."""

    state: str
    slices: int


def look(pid: int, proc: Path = Path("/proc")) -> Look | None:
    """The process now; None where there is none, or no Linux to ask."""
    try:
        state = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
        # schedstat: nanoseconds run, nanoseconds waited for a core, time slices run; of the main thread, where our
        # processes have their loop.
        slices = int((proc / str(pid) / "schedstat").read_text().split()[2])
    except (OSError, ValueError, IndexError):
        return None
    return Look(state, slices)


class Pulse:
    """Looks at one process again and again. Between two looks somebody must have knocked at its socket."""

    def __init__(self) -> None:
        self._pid = 0
        self._last: Look | None = None
        self._since_s = 0.0

    def feel(self, pid: int, seen: Look | None, at_s: float) -> str | None:
        """Take a look at `at_s` (monotonic seconds); what is the matter once patience is at its end, else None."""
        same = seen is not None and self._last is not None and pid == self._pid and seen.slices == self._last.slices
        self._pid, self._last = pid, seen
        if seen is None or not same or seen.state == "R":
            self._since_s = at_s
            return None
        still_s = at_s - self._since_s
        stopped = seen.state == "T"
        if still_s < (STOPPED_S if stopped else BLOCKED_S):
            return None
        how = "stopped by a signal" if stopped else f"blocked, state {seen.state}"
        return f"has not run for {still_s:.0f} s ({how})"
