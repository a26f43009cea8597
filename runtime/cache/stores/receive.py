"""The receiving half of every store: chunks in, one proven file out, within the bounds."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

from runtime.aside import aside
from runtime.cache.stores.base import BundleRef, Progress, StoreCause, StoreFault
from runtime.cache.stores.files import Arriving, fault_of
from runtime.cache.stores.leftovers import sweep
from runtime.cache.stores.patience import FIX, Pace, Patience

OpenAt = Callable[[int], AsyncGenerator[bytes, None]]
"""The bundle's bytes from an offset on. Raises StoreFault; UNREACHABLE means that going on from there may work."""

MOST_BREAKS = 4
"""A transfer that breaks is taken up again where it stood, so often; each time must have brought something."""


async def receive(
    open_at: OpenAt,
    ref: BundleRef,
    into: Path,
    *,
    place: str,
    patience: Patience,
    progress: Progress | None = None,
) -> None:
    """Write what `open_at` gives to `into`, if it is exactly the bundle `ref`.

    Raises StoreFault; then `into` is as it was.
    """
    try:
        await aside(sweep, into.parent, datetime.now(UTC))
        arriving = await aside(Arriving, into)
    except OSError as error:
        raise fault_of(error, str(into)) from error
    try:
        await _transfer(open_at, ref, arriving, place, patience, progress)
        _prove(arriving, ref, place)
        await aside(arriving.keep)
    except OSError as error:
        raise fault_of(error, str(into)) from error
    finally:
        arriving.drop()


async def _transfer(
    open_at: OpenAt, ref: BundleRef, arriving: Arriving, place: str, patience: Patience, progress: Progress | None
) -> None:
    pace = Pace(patience, asyncio.get_running_loop().time())
    for attempt in range(MOST_BREAKS + 1):
        begun_at_bytes = arriving.size_bytes
        try:
            async with aclosing(open_at(begun_at_bytes)) as chunks:
                await _take(chunks, ref, arriving, pace, place, progress)
        except StoreFault as fault:
            stuck = attempt == MOST_BREAKS or arriving.size_bytes == begun_at_bytes
            if stuck or fault.cause is not StoreCause.UNREACHABLE:
                raise
            continue
        if arriving.size_bytes >= ref.size_bytes:
            return
        if arriving.size_bytes == begun_at_bytes:  # asked for the rest, it said that there is none
            break
    said = f"{ref.name} ends at {arriving.size_bytes} of {ref.size_bytes} bytes"
    raise StoreFault(StoreCause.CORRUPT, place, said, _damaged(ref))


async def _take(
    chunks: AsyncGenerator[bytes, None],
    ref: BundleRef,
    arriving: Arriving,
    pace: Pace,
    place: str,
    progress: Progress | None,
) -> None:
    loop = asyncio.get_running_loop()
    while True:
        try:
            async with asyncio.timeout_at(pace.until_s()):
                chunk = await anext(chunks, None)
        except TimeoutError:
            said = pace.complaint(loop.time(), arriving.size_bytes, ref.size_bytes)
            raise StoreFault(StoreCause.STALLED, place, said, FIX) from None
        if chunk is None:
            return
        if arriving.size_bytes + len(chunk) > ref.size_bytes:
            said = f"{ref.name} is longer than the {ref.size_bytes} bytes that its record says"
            raise StoreFault(StoreCause.CORRUPT, place, said, _damaged(ref))
        await aside(arriving.add, chunk)
        pace.moved(loop.time(), len(chunk))
        if progress is not None:
            progress(arriving.size_bytes, ref.size_bytes)


def _prove(arriving: Arriving, ref: BundleRef, place: str) -> None:
    if arriving.digest != ref.digest:
        said = f"{ref.name} has the sha256 {arriving.digest}"
        raise StoreFault(StoreCause.CORRUPT, place, said, _damaged(ref))


def _damaged(ref: BundleRef) -> str:
    return f"it was not used; delete {ref.digest[:12]} there, and publish it again"
