"""Run a command's work so that Ctrl-C and SIGTERM end it in order: what it began is ended, its drafts are gone."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

from runtime.cache.cli.failures import Interrupted

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """What `work` returns or raises. Raises Interrupted once it has ended because of a signal.

    Further signals change nothing: to end engines takes a second or two, and must not stop halfway.
    """
    return asyncio.run(_watched(work))


async def _watched(work: Coroutine[Any, Any, T]) -> T:
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    came: list[int] = []

    def stop(number: int) -> None:
        if not came:
            came.append(number)
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        if not came:
            raise
        raise Interrupted(came[0]) from None
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
