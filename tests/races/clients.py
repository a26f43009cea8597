"""A client of the portal: sends one request as bytes over the real `ClientConnection`, reads how it ended."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field

from activator_ext.portal.client import ClientConnection
from activator_ext.portal.public import PublicFace
from tests.races.engines import Engine
from tests.races.net import client_transport


@dataclass
class Request:
    """One request and its story. `outcome` None: not over."""

    number: int
    service: str
    arrived_s: float
    leaves_s: float | None
    streams: bool
    outcome: str | None = None
    ended_s: float | None = None
    status: int | None = None
    answered_by: int | None = None
    said: str = ""
    asked: list[Engine] = field(default_factory=list)

    def message(self) -> bytes:
        """As it goes over the wire."""
        body = json.dumps({"model": self.service, "number": self.number, "stream": self.streams}).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: portal\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body


class Client:
    """Carries one request; `over` is called once when it has ended, whatever the way."""

    def __init__(self, public: PublicFace, request: Request, now_s: Callable[[], float]) -> None:
        self._request, self._now_s = request, now_s
        self._got = b""
        self._over = asyncio.Event()
        self._connection = ClientConnection(public)
        self._connection.connection_made(client_transport(self._sent, self._closed))

    async def run(self) -> None:
        """Send, and wait for the end or for as long as the client's patience."""
        self._connection.data_received(self._request.message())
        try:
            async with asyncio.timeout(self._request.leaves_s):
                await self._over.wait()
        except TimeoutError:
            self._end("client_gone")
        self._connection.connection_lost(None)

    def _sent(self, data: bytes) -> None:
        self._got += data
        if self._request.outcome is not None and self._request.outcome != "client_gone":
            self._request.said += f" a second outcome: {data[:80]!r}"
        outcome = read_outcome(self._got, self._request)
        if outcome is not None:
            self._end(outcome)

    def _closed(self) -> None:
        if self._request.outcome is None:
            self._end("torn")

    def _end(self, outcome: str) -> None:
        if self._request.outcome is None:
            self._request.outcome, self._request.ended_s = outcome, self._now_s()
        self._over.set()


def read_outcome(got: bytes, request: Request) -> str | None:
    """What an answer says once it is whole; None until then. Notes status and engine in `request`."""
    head, blank, body = got.partition(b"\r\n\r\n")
    if not blank:
        return None
    request.status = int(head.split(b" ", 2)[1])
    if b"Transfer-Encoding: chunked" in head:
        if not body.endswith(b"0\r\n\r\n"):
            return None
        events = [line for line in body.splitlines() if line.startswith(b"data: ")]
        body = events[-1].removeprefix(b"data: ") if events else b""
    else:
        length = int(head.partition(b"Content-Length: ")[2].split(b"\r\n", 1)[0])
        if len(body) < length:
            return None
    try:
        told = json.loads(body)
    except ValueError:
        return f"status_{request.status} {body[:60]!r}"
    if "engine" in told:
        request.answered_by = told["engine"]
        return "answered"
    request.said = str(told["error"]["message"])
    return str(told["error"]["code"])
