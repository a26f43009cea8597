"""The answer on its way to a client: its head, its framing, heartbeats before it, and whether the connection stays."""

import json
from collections.abc import Iterable
from typing import Protocol

from activator_ext.portal import sse
from activator_ext.portal.heads import AnswerHead, own_lines, to_client
from activator_ext.portal.refusals import Outcome, Refusal
from activator_ext.portal.request import Request

_EVENTS = b"text/event-stream"


class Client(Protocol):
    """The client's end of the connection."""

    def write(self, data: bytes) -> None:
        """Send to the client."""

    def read(self, on: bool) -> None:
        """Read on, or let the rest of the request wait in the network."""

    def break_off(self) -> None:
        """Close at once, so that the client sees that its answer is not whole."""

    def done(self, *, keep: bool) -> None:
        """The exchange is over; `keep` False: so is the connection, what is unread of the request stays so."""


class Reply:
    """What one client gets for one request. Of unknown length it goes in chunks, to HTTP/1.0 until the end."""

    beaten = False
    _chunked = False
    _head_unsent = b""  # it goes out with the first piece of body: one write is cheaper than two

    def __init__(self, client: Client, request: Request) -> None:
        self._client = client
        self._request = request
        self.keeps = request.keep_alive

    def beat(self, service: str, text: str) -> None:
        """Tell a waiting client that its request lives; the first one begins the answer."""
        if not self.beaten:
            self.beaten = True
            lines = [
                b"Content-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n",
                b"x-pilotlight-service: %b\r\n" % service.encode(),
            ]
            self._head_unsent = self._head(200, lines, None)
        self.write(sse.comment(text))

    def begin(self, head: AnswerHead) -> bool:
        """Begin with the engine's head; False: heartbeats have spent the status.

        Then events go on as they are, and any other answer must become one event (`one_event`).
        """
        if self.beaten:
            return head.status == 200 and head.content_type.startswith(_EVENTS)
        self._head_unsent = self._head(head.status, head.lines, head.length)
        return True

    def write(self, data: bytes, *, last: bool = False) -> None:
        """A piece of the answer's body; `last`: with it, the body is whole."""
        if self._chunked:
            if data:
                data = b"%x\r\n%b\r\n" % (len(data), data)
            if last:
                data += b"0\r\n\r\n"
        if self._head_unsent:
            data, self._head_unsent = self._head_unsent + data, b""
        if data:
            self._client.write(data)

    def one_event(self, status: int, body: bytes) -> None:
        """A whole answer as the one event after heartbeats."""
        self.write(sse.data(body if status == 200 else _as_error(status, body)), last=True)

    def refuse(self, refusal: Refusal) -> None:
        """A refusal as an answer of its own, or as the last event after heartbeats."""
        if self.beaten:
            self.write(sse.data(refusal.body()), last=True)
            return
        if not self._request.whole or refusal.outcome is Outcome.STOPPING:
            self.keeps = False
        self.own(refusal.status, refusal.headers(), refusal.body())

    def own(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """A whole answer of our own."""
        head = self._head(status, own_lines(headers), len(body))
        self._client.write(head if self._request.method == b"HEAD" else head + body)

    def _head(self, status: int, lines: Iterable[bytes], length: int | None) -> bytes:
        self._chunked = length is None and self._request.http11
        if length is None and not self._request.http11:
            self.keeps = False
        framing = b"Transfer-Encoding: chunked\r\n"
        if not self._chunked:
            framing = b"" if length is None or status in (204, 304) else b"Content-Length: %d\r\n" % length
        kept = b"" if self._request.http11 else b"Connection: keep-alive\r\n"
        return to_client(status, lines, framing, kept if self.keeps else b"Connection: close\r\n")


def _as_error(status: int, body: bytes) -> bytes:
    """An engine's error body as one line, in the shape of an error whatever it was."""
    try:
        said = json.loads(body)
    except ValueError:
        said = body[:2000].decode(errors="replace")
    if not (isinstance(said, dict) and "error" in said):
        message = said if isinstance(said, str) else json.dumps(said)
        said = {"error": {"message": message, "type": "upstream_error", "code": status}}
    return json.dumps(said).encode()
