"""Blocking calls aside of the event loop, in threads that nobody must wait for.

`asyncio.to_thread` will not do: a read from an NFS server that went away never returns, and at its end the loop joins
the threads of its executor. Such a read must hold neither a start nor the process.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def aside(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `call` returns or raises. Cancelled, the call goes on unheard in its daemon thread."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def tell(result: T | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)  # type: ignore[arg-type]  # None only if T is

    def run() -> None:
        try:
            result, error = call(*args, **kwargs), None
        except BaseException as raised:  # handed to who waits
            result, error = None, raised
        try:
            loop.call_soon_threadsafe(tell, result, error)
        except RuntimeError:
            return  # the loop closed: nobody waits any more

    threading.Thread(target=run, name=f"aside-{getattr(call, '__name__', 'call')}", daemon=True).start()
    return await answer
