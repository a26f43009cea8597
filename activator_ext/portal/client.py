"""One connection of a client: its requests, one after the other, and the answers in the same order."""

import asyncio
import socket
from collections import deque
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import httptools

from activator_ext.portal.exchange import Exchange
from activator_ext.portal.refusals import Refusal, invalid
from activator_ext.portal.request import Request

if TYPE_CHECKING:
    from activator_ext.portal.public import PublicFace

# After a last answer, what the client still sends is read away for so long: closing with unread bytes resets the
# connection, and the client would lose the answer with it (RFC 9112 §9.6).
_LINGER_S = 2.0
# A client may send further requests before it has its answer; more than this wait in the network.
_AHEAD = 4
# TCP_CLOSE and TCP_CLOSE_WAIT of linux/tcp_states.h.
_LEFT = (7, 8)
# Between two requests.
_NONE = Request()


class ClientConnection:
    """An asyncio.Protocol: parses what comes and gives each request its exchange when its turn is there.

    Without that base, for a compiled class can have none that is not.
    """

    def __init__(self, house: "PublicFace") -> None:
        self._house = house
        self._limits = house.limits
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._reading = _NONE  # whose end has not come
        self._queue: deque[Request] = deque()  # the first has its exchange, if there is one
        self._exchange: Exchange | None = None
        self._head: list[tuple[bytes, bytes]] = []
        self._head_bytes = 0  # of a head, or of trailers, in the reads before this one
        self._fed_bytes = 0
        self._paused = False
        self._closing = False  # the last answer is written: what still comes is read away
        self._slow = False
        self._unsent_bytes = 0
        self._deadline_s = 0.0

    # The exchange calls.

    def write(self, data: bytes) -> None:
        """Send to the client."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def read(self, on: bool) -> None:
        """Read on, or let the rest wait in the network."""
        if self._transport is not None and on == self._paused and not self._transport.is_closing():
            self._paused = not on
            (self._transport.resume_reading if on else self._transport.pause_reading)()
            self._expect_more()

    def break_off(self) -> None:
        """Close, so that the client sees that its answer is not whole; what was written still goes out."""
        self._closing = True
        if self._transport is not None:
            self._transport.close()

    def done(self, *, keep: bool) -> None:
        """The exchange is over; the next request's turn."""
        self._exchange = None
        whole = self._queue.popleft().whole
        self._house.ended()
        if self._closing or self._transport is None:
            return
        if not keep:
            self._close(linger=not whole)
            return
        if self._paused and len(self._queue) <= _AHEAD:
            self.read(True)
        if self._queue:
            # Not from here: many requests that came at once would stack up calls.
            asyncio.get_running_loop().call_soon(self._turn)
        else:
            self._deadline_s = self._house.elapsed_s() + self._limits.keep_alive_s

    # The house calls.

    @property
    def unsent(self) -> bool:
        """Whether a part of an answer still waits for the client to take it."""
        return self._transport is not None and self._transport.get_write_buffer_size() > 0

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        if self._transport is not None:
            self._transport.abort()

    def close_idle(self) -> None:
        """Close unless a request is under way."""
        if self._transport is not None and not self._queue:
            self._transport.close()

    def look(self, now_s: float) -> None:
        """Called now and then: whether the client takes too long."""
        if self._transport is None:
            return
        if self._paused and self._has_left():
            self._transport.abort()
        if not self._is_awaited(now_s) or now_s < self._deadline_s:
            return
        if self._closing or self._slow or (self._reading is _NONE and not self._queue):
            (self._transport.abort if self._slow or self._transport.is_closing() else self._transport.close)()
        else:
            self._refuse(invalid("the request took too long to arrive", "request_timeout", 408))

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but its bases
        self._deadline_s = self._house.elapsed_s() + self._limits.keep_alive_s
        self._house.joined(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self._transport = None
        self._closing = True
        self._house.left(self)
        if self._exchange is not None:
            self._exchange.client_left()

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        if self._closing:
            return
        if self._reading is _NONE and not self._queue:
            self._deadline_s = self._house.elapsed_s() + self._limits.head_s
            if len(data) > self._limits.head_bytes and data.find(b"\r\n\r\n", 0, self._limits.head_bytes) < 0:
                self._refuse(self._head_too_large())
                return
        self._fed_bytes = len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError as error:
            self._refuse_unreadable(error)
        if self._reading is not _NONE and (self._head or not self._reading.method):
            self._bound_head(self._fed_bytes)
        else:
            self._head_bytes = 0
        if len(self._queue) > _AHEAD:
            self.read(False)

    def eof_received(self) -> bool:
        """Called by the loop. A client that sends no more has left, as nginx and Go's server see it too."""
        return False

    def pause_writing(self) -> None:
        """Called by the loop."""
        self._slow, self._unsent_bytes = True, -1
        if self._exchange is not None:
            self._exchange.client_slow(True)

    def resume_writing(self) -> None:
        """Called by the loop."""
        self._slow = False
        self._expect_more()
        if self._exchange is not None:
            self._exchange.client_slow(False)
        else:
            self._turn()

    # httptools

    def on_message_begin(self) -> None:
        """Called by the parser."""
        self._reading = Request()
        self._head = []  # trailers of the message before

    def on_url(self, part: bytes) -> None:
        """Called by the parser, with the target or a part of it."""
        request = self._reading
        request.target += part
        if len(request.target) > self._limits.target_bytes:
            what = f"the request's target is over {self._limits.target_bytes} bytes"
            self._stop(invalid(what, "target_too_long", 414))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser; also for trailers, which end here."""
        self._head.append((name, value))

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        if self._closing:
            return
        request, parser = self._reading, self._parser
        request.head, self._head = self._head, []
        method, version = parser.get_method(), parser.get_http_version()
        refusal = request.close_head(method, version, keep_alive=parser.should_keep_alive())
        if len(request.head) > self._limits.fields or self._is_large(request):
            refusal = self._head_too_large()
        if refusal is not None:
            self._stop(refusal)
        self._queue.append(request)
        self._expect_more()
        if len(self._queue) == 1:
            self._turn()

    def on_body(self, data: bytes) -> None:
        """Called by the parser."""
        if self._closing:
            return
        request = self._reading
        request.chunks.append(data)
        request.size += len(data)
        if request.size == request.length:
            return  # `on_message_complete` is next
        self._expect_more()
        if self._exchange is not None and self._queue[0] is request:
            self._exchange.body_grew()
        elif request.size > self._limits.kept_body_bytes:
            self._stop(invalid("the body is too large to be sent ahead of an answer", "body_too_large", 413))

    def on_message_complete(self) -> None:
        """Called by the parser."""
        if self._closing or self._parser.should_upgrade():
            return  # in the second case the body, if there is one, is still to come
        request, self._reading = self._reading, _NONE
        request.whole = True
        if self._exchange is not None and self._queue[0] is request:
            self._exchange.body_arrived()

    # Inside.

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if not self._closing:
                self._without_upgrade()
                if rest := data[upgrade.args[0] :]:
                    self._feed(rest)

    def _without_upgrade(self) -> None:
        """Go on in HTTP/1.1, as a server may (RFC 9110 §7.8): a parser that knows the framing, no upgrade, reads on."""
        length = self._reading.length
        framing = b"Transfer-Encoding: chunked" if length < 0 else b"Content-Length: %d" % length

        def whole() -> None:
            self._parser = httptools.HttpRequestParser(self)
            self.on_message_complete()

        self._parser = httptools.HttpRequestParser(SimpleNamespace(on_body=self.on_body, on_message_complete=whole))
        self._parser.feed_data(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%b\r\n\r\n" % framing)

    def _turn(self) -> None:
        """The first request of the queue gets its exchange, once the client takes what it has been answered before."""
        if self._exchange is not None or not self._queue or self._closing or self._slow:
            return
        request = self._queue[0]
        exchange = self._exchange = self._house.exchange(self, request)
        exchange.head_arrived()
        if request.whole and self._has(exchange):
            exchange.body_arrived()

    def _has(self, exchange: Exchange) -> bool:
        """Whether it is still under way. A call, since compiled code relies on what mypy knows of an attribute."""
        return self._exchange is exchange

    def _has_left(self) -> bool:
        """Whether the client has closed its side: the kernel knows it also while nothing is read (tcp(7), TCP_INFO)."""
        if self._transport is None:
            return True
        connection = self._transport.get_extra_info("socket")
        return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in _LEFT

    def _is_awaited(self, now_s: float) -> bool:
        """Whether the next step is the client's."""
        if self._slow and self._transport is not None:
            unsent_bytes = self._transport.get_write_buffer_size()
            if unsent_bytes != self._unsent_bytes:  # it took something
                self._unsent_bytes, self._deadline_s = unsent_bytes, now_s + self._limits.stalled_s
            return True
        return self._closing or not (self._paused or (self._reading is _NONE and self._queue))

    def _expect_more(self) -> None:
        self._deadline_s = self._house.elapsed_s() + self._limits.body_idle_s

    def _bound_head(self, more_bytes: int) -> None:
        """A head, or trailers, that do not end."""
        self._head_bytes += more_bytes
        if self._head_bytes > self._limits.head_bytes:
            self._refuse(self._head_too_large())

    def _is_large(self, request: Request) -> bool:
        """Whether the head is over its bound, its pieces added up where they may be."""
        if self._head_bytes + self._fed_bytes <= self._limits.head_bytes:
            return False
        fields = sum(len(name) + len(value) + 4 for name, value in request.head)  # ": " and the line's end
        return (
            len(request.method) + len(request.target) + fields + 13 > self._limits.head_bytes
        )  # " HTTP/1.1", its ends

    def _head_too_large(self) -> Refusal:
        what = f"the request's head is over {self._limits.head_bytes} bytes or {self._limits.fields} fields"
        return invalid(what, "head_too_large", 431)

    def _stop(self, refusal: Refusal) -> None:
        """Read no further; the parser hands this on as an error of its own."""
        self._reading.bad = refusal
        raise ValueError(refusal.code)

    def _refuse_unreadable(self, error: httptools.HttpParserError) -> None:
        if self._closing or (self._reading is _NONE and self._queue and not self._queue[-1].keep_alive):
            return  # what comes after a last request is nobody's
        bad = self._reading.bad
        self._refuse(bad or invalid(f"this is not HTTP/1.1: {error}", "bad_request"))

    def _refuse(self, refusal: Refusal) -> None:
        """Answer what cannot be read on, in its turn; it is the last."""
        request = self._reading if self._reading is not _NONE else Request()
        self._reading = _NONE
        request.bad, request.keep_alive = refusal, False
        if request not in self._queue:
            self._queue.append(request)
        if self._exchange is not None and self._queue[0] is request:
            self._exchange.refuse(refusal)
        else:
            self._turn()
        if not self._closing:  # answers before this one are still to come
            self.read(False)

    def _close(self, *, linger: bool) -> None:
        self._closing = True
        if self._transport is None:
            return
        if linger and self._transport.can_write_eof():
            self._transport.write_eof()
            self.read(True)
            self._deadline_s = self._house.elapsed_s() + _LINGER_S
        else:
            self._transport.close()
