"""Blocking work in a thread that is over when its caller is: a cancelled start stops it, and waits for its end.

Left to itself it would go on in a directory that the next start of the same replica already uses.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(call: Callable[[threading.Event], T]) -> T:
    """What `call` returns or raises. Cancelled, the event that `call` got is set, and its end waited for."""
    stop = threading.Event()
    work = asyncio.ensure_future(asyncio.to_thread(call, stop))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait({work})
        if not work.cancelled():
            work.exception()  # heard, so that asyncio does not complain of it
        raise
