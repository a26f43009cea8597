"""A connection to the API: its head is bounded in size and in the time that it takes to come."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_HEAD_BYTES = 16 * 1024
"""Of a head that is not whole yet; with what one read may bring, 80 kB. A browser's seldom has 8 kB."""

HEAD_S = 10.0
"""Within which a connection must have said what it wants; then it is closed without a word, as it began none."""

MAX_CONNECTIONS = 256
"""More than these at once get 503. A CLI opens one, Prometheus one, a browser six."""


class ApiConnection(H11Protocol):
    """uvicorn's connection, closed where a head is begun (or none) and does not come whole in `HEAD_S`."""

    head_s = HEAD_S

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._late: asyncio.TimerHandle | None = None
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take what came; the wait is over once the head is whole, and begins with the first byte of the next."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._rest()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._rest()
        elif self._late is None:
            self._late = self.loop.call_later(self.head_s, self.transport.close)

    def _rest(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def connection_options() -> dict[str, Any]:
    """What `uvicorn.Config` is given to serve the API by these connections; there are no WebSockets."""
    return {
        "http": ApiConnection,
        "ws": "none",
        "h11_max_incomplete_event_size": MAX_HEAD_BYTES,
        "limit_concurrency": MAX_CONNECTIONS,
    }
