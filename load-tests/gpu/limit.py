"""A step's own time limit, whatever it waits for."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from start.measured import BenchFailed


@contextmanager
def limited(seconds: float, what: str) -> Iterator[None]:
    """BenchFailed is raised inside the block once it has taken so long; in the main thread only."""

    def over(_number: int, _frame: FrameType | None) -> None:
        raise BenchFailed(f"{what}: not done after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
