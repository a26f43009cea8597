"""The public HTTP face: the listener's connections and how many requests are under way."""

import asyncio
import logging
import socket
from typing import cast

from activator_ext.portal.client import ClientConnection
from activator_ext.portal.door import Door
from activator_ext.portal.engines import Engines
from activator_ext.portal.exchange import Exchange
from activator_ext.portal.request import Request

log = logging.getLogger(__name__)

# How often connections are looked at for a client that takes too long.
_LOOK_S = 0.25


class PublicFace:
    """Serves one listener; what its connections share."""

    def __init__(self, door: Door, engines: Engines) -> None:
        self.limits = door.limits
        self.elapsed_s = door.clock.elapsed_s
        self._door = door
        self._engines = engines
        self._connections: set[ClientConnection] = set()
        self._open = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._server: asyncio.Server | None = None

    async def begin(self, listener: socket.socket) -> None:
        """Serve."""
        self._server = await asyncio.get_running_loop().create_server(
            lambda: cast("asyncio.Protocol", ClientConnection(self)), sock=listener, backlog=1024
        )

    async def look(self) -> None:
        """Look after connections that take too long, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            now_s = self.elapsed_s()
            for connection in list(self._connections):
                try:
                    connection.look(now_s)
                except Exception:  # one connection's fault must not end the others
                    log.exception("a connection could not be looked after, and is closed")
                    connection.abort()
            self._engines.prune()

    def accept_no_more(self) -> None:
        """From now on only requests that are under way are served."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.close_idle()

    async def idle(self) -> None:
        """Return when no request is under way and every answer is with its client."""
        await self._idle.wait()
        while any(connection.unsent for connection in self._connections):  # noqa: ASYNC110 — kernel buffers set no event
            await asyncio.sleep(0.02)

    def cut(self) -> None:
        """Close every connection at once."""
        for connection in list(self._connections):
            connection.abort()

    # For the connections.

    def exchange(self, client: ClientConnection, request: Request) -> Exchange:
        """Begin an exchange."""
        self._open += 1
        self._idle.clear()
        return Exchange(self._door, self._engines, client, request)

    def ended(self) -> None:
        """An exchange has ended."""
        self._open -= 1
        if not self._open:
            self._idle.set()

    def joined(self, client: ClientConnection) -> None:
        """A connection is open."""
        self._connections.add(client)

    def left(self, client: ClientConnection) -> None:
        """It is closed."""
        self._connections.discard(client)
