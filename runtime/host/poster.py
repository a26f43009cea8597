"""Tells the controller that something changed here; what is lost is read again from the host's view."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

import aiohttp

from runtime.contract import HostEvents, StageEvent

# More stage events than this between two posts are dropped, oldest first: the controller reads them in HostView.
KEPT_EVENTS = 1000


class Poster:
    """Posts `HostEvents` to the controller's unix socket, one post at a time, changes in between folded into one."""

    def __init__(self, host: str, revision: Callable[[], int]) -> None:
        self._host = host
        self._revision = revision
        self._events: deque[StageEvent] = deque(maxlen=KEPT_EVENTS)
        self._dirty = asyncio.Event()
        self.socket: str | None = None

    def changed(self) -> None:
        """Something in the view changed."""
        self._dirty.set()

    def stage(self, event: StageEvent) -> None:
        """A stage of a start is over."""
        self._events.append(event)
        self._dirty.set()

    async def run(self) -> None:
        """Post until cancelled. A controller that does not answer costs its events, nothing else."""
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            batch = HostEvents(host=self._host, revision=self._revision(), stages=tuple(self._events))
            self._events.clear()
            if self.socket is not None:
                with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
                    await _post(self.socket, batch)


async def _post(socket: str, events: HostEvents) -> None:
    timeout = aiohttp.ClientTimeout(total=2.0)
    async with (
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(path=socket), timeout=timeout) as session,
        session.post(
            "http://controller/v1/internal/events",
            data=events.model_dump_json(),
            headers={"content-type": "application/json"},
        ),
    ):
        pass
