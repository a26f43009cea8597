"""How long a transfer may take: a deadline over all, and a least pace."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from runtime.cache.stores.base import StoreCause, StoreFault

FIX = "the start goes on without it; look at that store and the way to it, or raise the bound"


@dataclass(frozen=True, slots=True)
class Patience:
    """The bounds of one transfer.

    `total_s` > 0: all of it. `window_s` > 0 and `least_bytes` ≥ 1: in each window at least so many bytes must come.
    The defaults: a bundle of 1 GiB comes in 120 s from anything that moves 9 MB/s, which is slower than compiling
    on the spot; 64 KiB in 10 s is a link that stands.
    """

    total_s: float = 120.0
    window_s: float = 10.0
    least_bytes: int = 64 * 1024

    def __post_init__(self) -> None:
        if self.total_s <= 0 or self.window_s <= 0 or self.least_bytes < 1:
            raise ValueError(f"the bounds of a transfer must be > 0: {self}")


class Pace:
    """One transfer measured against its Patience. Instants are seconds of a steady clock."""

    def __init__(self, patience: Patience, begun_s: float) -> None:
        self._patience = patience
        self._end_s = begun_s + patience.total_s
        self._window_end_s = begun_s + patience.window_s
        self._in_window = 0

    def until_s(self) -> float:
        """The instant at which it counts as stalled, if no byte more comes."""
        return min(self._end_s, self._window_end_s)

    def moved(self, now_s: float, size_bytes: int) -> None:
        """`size_bytes` more have come by `now_s`. A window begins anew with the byte that fills it."""
        self._in_window += size_bytes
        if self._in_window >= self._patience.least_bytes:
            self._in_window = 0
            self._window_end_s = now_s + self._patience.window_s

    def complaint(self, now_s: float, done_bytes: int, all_bytes: int) -> str:
        """What to say when `until_s` has passed."""
        came = f"{done_bytes} of {all_bytes} bytes came"
        if now_s >= self._end_s:
            return f"{came} in {self._patience.total_s:g} s, which is all there was"
        return f"{came}, then fewer than {self._patience.least_bytes} in {self._patience.window_s:g} s"


@asynccontextmanager
async def bounded(seconds: float, place: str, what: str) -> AsyncIterator[None]:
    """The body within `seconds`; STALLED, saying `what` was waited for, if it takes longer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise StoreFault(StoreCause.STALLED, place, f"no end of {what} in {seconds:g} s", FIX) from None
