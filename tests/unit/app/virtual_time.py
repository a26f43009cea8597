"""An event loop whose time passes only where everything waits: days of the real loop's sleeps in a blink.

It serves code that waits by timers alone; a socket or another thread would never be waited for.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time()` begins at 0 and jumps to the next timer whenever nothing is left to do."""

    def __init__(self) -> None:
        self._passed_s = 0.0
        super().__init__(_Jump(self))

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._passed_s

    def jump(self, seconds: float) -> None:
        """Let so much time pass."""
        self._passed_s += seconds


class _Jump(selectors.SelectSelector):
    """Looks without waiting, and lets the time pass that it was meant to wait."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "nothing is due and nothing will ever happen"
            self._loop.jump(max(timeout, 0.0))
        return ready


def run_virtually(job: Coroutine[Any, Any, T], loop: VirtualLoop) -> T:
    """The result of `job`, run on `loop`, which is closed."""
    try:
        return loop.run_until_complete(job)
    finally:
        loop.close()


def clock_of(loop: VirtualLoop, begin: datetime) -> datetime:
    """The instant that the loop has come to, if it began at `begin`."""
    return begin + timedelta(seconds=loop.time())
