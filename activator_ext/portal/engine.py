"""One connection to an engine: a request goes out, its answer comes back in pieces as they arrive."""

import asyncio
from collections.abc import Callable
from typing import Protocol, cast

import httptools

from activator_ext.portal.heads import NOT_HANDED_BACK, AnswerHead
from activator_ext.portal.request import lines_without, tokens

# An answer's head that is larger than this comes from no engine that works.
_HEAD_BYTES = 64 * 2**10

_FOR_THIS_HOP = frozenset((b"keep-alive", b"close"))

_JOINED_BYTES = 64 * 2**10


class Asker(Protocol):
    """Who asked, and hears of the answer."""

    def answered(self, head: AnswerHead | None, data: bytes, *, ended: bool) -> None:
        """A piece of the answer; `head` with the first one, which has a byte of body or is the end."""

    def engine_lost(self) -> None:
        """The connection ended before the answer was whole."""

    def engine_slow(self, slow: bool) -> None:
        """The engine takes no more of the body for now, or takes it again."""


class _Incoming:
    """What has come of one answer. `surplus`: there came more than the answer, which no client may ever see."""

    head: AnswerHead | None = None
    head_bytes = 0
    until_close = False
    told = False
    ended = False
    surplus = False
    keep = False

    def __init__(self) -> None:
        self.fields: list[tuple[bytes, bytes]] = []
        self.pieces: list[bytes] = []

    def close_head(self, status: int) -> None:
        """The head is there; raises ValueError if it cannot be believed."""
        content_type = b""
        lines: list[bytes] = []
        hop: list[tuple[bytes, bytes]] = []
        for name, value in self.fields:
            low = name.lower()
            if low in NOT_HANDED_BACK:
                hop.append((low, value))
                continue
            lines += (name, b": ", value, b"\r\n")
            if low == b"content-type":
                content_type = value
        length, chunked, named = _framing(hop)
        if named:
            lines = lines_without(self.fields, NOT_HANDED_BACK | named)
        if status in (204, 304):
            length, chunked = 0, False
        self.until_close = length is None and not chunked
        self.head = AnswerHead(status, lines, content_type, length)


def _framing(hop: list[tuple[bytes, bytes]]) -> tuple[int | None, bool, set[bytes]]:
    """Length of the body, whether it comes in chunks, and the fields that are for this hop alone."""
    length: int | None = None
    chunked = False
    named: set[bytes] = set()
    for name, value in hop:
        if name == b"content-length":
            length = int(value)
        elif name == b"transfer-encoding":
            if chunked or value.strip(b" \t").lower() != b"chunked":
                raise ValueError("a framing that nobody asked for")
            chunked = True
        elif name == b"connection":
            named |= tokens(value) - _FOR_THIS_HOP
    return length, chunked, named


class EngineConnection:
    """An asyncio.Protocol (see ClientConnection): carries one request at a time.

    After a whole answer it goes back to its pool, if the engine keeps it open.
    """

    def __init__(self, give_back: Callable[["EngineConnection"], None]) -> None:
        self.idle_since_s = 0.0
        self._give_back = give_back
        self._transport: asyncio.Transport | None = None
        self._asker: Asker | None = None
        self._sent_whole = True
        self._paused = False
        self._parser = httptools.HttpResponseParser(self)
        self._answer = _Incoming()

    @property
    def usable(self) -> bool:
        """Whether a request can be sent on it."""
        return self._transport is not None and not self._transport.is_closing()

    def ask(self, asker: Asker, head: bytes, body: bytes, *, whole: bool) -> None:
        """Send a request; `whole` False: more of its body follows by `send`."""
        self._asker = asker
        self._sent_whole = whole
        if self._transport is not None:  # else `connection_lost` is on its way to the asker
            # Together, unless copying costs more than a second write to the socket does.
            if len(body) <= _JOINED_BYTES:
                self._transport.write(head + body)
            else:
                self._transport.write(head)
                self._transport.write(body)

    def send(self, data: bytes, *, last: bool) -> None:
        """Send more of the body."""
        if self._transport is not None and not self._transport.is_closing():
            if data:
                self._transport.write(data)
            self._sent_whole = self._sent_whole or last

    def slow(self, slow: bool) -> None:
        """The client takes no more for now, or takes it again: so do we."""
        if slow != self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = slow
            (self._transport.pause_reading if slow else self._transport.resume_reading)()

    def drop(self) -> None:
        """Give the request up: the engine sees its connection closed, and stops computing for it."""
        self._asker = None
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but its bases

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        if self._asker is None:  # nobody asked: whatever this is, no client may ever see it
            self.drop()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if not self._answer.ended:
                self._fail()
                return
            self._answer.surplus = True
        if self._answer.pieces or self._answer.ended:
            self._hand_on()
        elif self._answer.head_bytes + len(data) > _HEAD_BYTES:  # a head, or trailers, without an end
            self._fail()
        else:
            self._answer.head_bytes += len(data)

    def eof_received(self) -> bool:
        """Called by the loop."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self._transport = None
        if self._asker is None:
            return
        if self._answer.head is not None and self._answer.until_close and exc is None:
            self._answer.ended = self._answer.surplus = True
            self._hand_on()
        else:
            self._fail()

    def pause_writing(self) -> None:
        """Called by the loop."""
        if self._asker is not None:
            self._asker.engine_slow(True)

    def resume_writing(self) -> None:
        """Called by the loop."""
        if self._asker is not None:
            self._asker.engine_slow(False)

    # httptools

    def on_message_begin(self) -> None:
        """Called by the parser."""
        if self._answer.ended:  # a second answer to one question
            self._answer.surplus = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser; also for trailers, which end here."""
        self._answer.fields.append((name, value))

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        status = self._parser.get_status_code()
        if status == 101 or status > 599 or self._parser.get_http_version() not in ("1.0", "1.1"):
            raise ValueError("an upgrade that nobody asked for, or no HTTP/1.1")
        # Below 200 it is an interim answer: the next one counts.
        if status >= 200 and self._answer.head is None:
            self._answer.close_head(status)

    def on_body(self, data: bytes) -> None:
        """Called by the parser."""
        if not self._answer.surplus:
            self._answer.pieces.append(data)

    def on_message_complete(self) -> None:
        """Called by the parser."""
        if self._answer.head is None:
            self._answer = _Incoming()
        elif not self._answer.surplus:
            self._answer.ended = True
            self._answer.keep = self._parser.should_keep_alive()

    # Inside.

    def _hand_on(self) -> None:
        """Tell the asker what came, once there is a byte of body or the end."""
        answer, asker = self._answer, self._asker
        if asker is None:
            return
        answer.head_bytes = 0
        data = answer.pieces[0] if len(answer.pieces) == 1 else b"".join(answer.pieces)
        answer.pieces = []
        first = None if answer.told else answer.head
        answer.told = True
        if answer.ended:
            self._asker = None
            self._answer = _Incoming()
            if answer.keep and self._sent_whole and not answer.surplus and self._transport is not None:
                self.slow(False)
                self._give_back(self)
            elif self._transport is not None:
                self._transport.close()
        asker.answered(first, data, ended=answer.ended)

    def _fail(self) -> None:
        asker, self._asker = self._asker, None
        if self._transport is not None:
            self._transport.abort()
        if asker is not None:
            asker.engine_lost()
