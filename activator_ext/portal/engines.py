"""The connections to all engines: idle ones are used again while they are fresh."""

import asyncio
from collections.abc import Callable
from typing import cast
from urllib.parse import urlsplit

from activator_ext.portal.engine import EngineConnection

# vLLM closes an idle connection after 5 s (VLLM_HTTP_TIMEOUT_KEEP_ALIVE): a request must not meet one being closed.
_FRESH_S = 2.0


class Unreachable(Exception):
    """The engine takes no connection."""


class Engines:
    """Opens, lends and takes back connections. `elapsed_s` is a steady clock."""

    def __init__(self, connect_s: float, elapsed_s: Callable[[], float]) -> None:
        self._connect_s = connect_s
        self._elapsed_s = elapsed_s
        self._idle: dict[str, list[EngineConnection]] = {}

    def idle(self, url: str) -> EngineConnection | None:
        """A fresh idle connection to the engine at `url`, the one used last; None: connect."""
        connections = self._idle.get(url)
        oldest_s = self._elapsed_s() - _FRESH_S
        while connections:
            connection = connections.pop()
            if connection.usable and connection.idle_since_s >= oldest_s:
                return connection
            connection.drop()
        return None

    async def connect(self, url: str) -> EngineConnection:
        """A new connection; raises Unreachable."""
        where = urlsplit(url)

        def give_back(connection: EngineConnection) -> None:
            connection.idle_since_s = self._elapsed_s()
            self._idle.setdefault(url, []).append(connection)

        try:
            async with asyncio.timeout(self._connect_s):
                connection = EngineConnection(give_back)
                await asyncio.get_running_loop().create_connection(
                    lambda: cast("asyncio.Protocol", connection), where.hostname or "", where.port or 80
                )
        except (OSError, ValueError) as error:  # TimeoutError is an OSError
            raise Unreachable(url) from error
        return connection

    def prune(self) -> None:
        """Close what has been idle for too long; called now and then."""
        oldest_s = self._elapsed_s() - _FRESH_S
        for url, connections in list(self._idle.items()):
            kept = [each for each in connections if each.usable and each.idle_since_s >= oldest_s]
            for connection in connections:
                if connection not in kept:
                    connection.drop()
            if kept:
                self._idle[url] = kept
            else:
                del self._idle[url]

    def close(self) -> None:
        """Close every idle connection."""
        for connections in self._idle.values():
            for connection in connections:
                connection.drop()
        self._idle.clear()
