"""What a strict, independent parser (h11) makes of the same bytes. The portal may refuse more, never accept more.

Where h11 is known to be more lenient than RFC 9112 asks, that does no harm here: the portal is held to it as a bound.
Where it is stricter than the RFC, `as_h11_wants` says so, each with its reason.
"""

import re
from dataclasses import dataclass
from typing import Any, Literal

import h11

# The head's bounds are the portal's own business, and tested as such.
_HEAD_BYTES = 2**20


class TrailerError(Exception):
    """The message is whole but for trailers that one may drop or refuse."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One whole request."""

    method: str
    target: str
    body: bytes
    keeps: bool
    """Whether its connection goes on. h11 never goes on after HTTP/1.0, which may ask for it (RFC 9112 §9.3)."""


@dataclass(frozen=True, slots=True)
class Requests:
    """The whole requests at the beginning of some bytes. `then`: what follows them."""

    whole: tuple[Asked, ...]
    then: Literal["nothing", "more is due", "an error", "a trailer that may be an error"]


def as_h11_wants(raw: bytes) -> bytes:
    """Empty lines before a request are passed over (RFC 9112 §2.2), and spaces between its first words are one (§3)."""
    raw = raw.lstrip(b"\r\n")
    first, end, rest = raw.partition(b"\r\n")
    return re.sub(rb" +", b" ", first).strip(b" ") + end + rest


def requests(raw: bytes) -> Requests:
    """What a server reads, one request after the other, as if it answered each with a length."""
    found: list[Asked] = []
    while True:
        raw = as_h11_wants(raw)
        if not raw:
            return Requests(tuple(found), "nothing")
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES)
        connection.receive_data(raw)
        try:
            asked = _one(connection)
        except h11.RemoteProtocolError:
            return Requests(tuple(found), "an error")
        except TrailerError:
            return Requests(tuple(found), "a trailer that may be an error")
        if asked is None:
            return Requests(tuple(found), "more is due")
        found.append(asked)
        if not asked.keeps:  # what follows is nobody's
            return Requests(tuple(found), "nothing")
        raw = bytes(connection.trailing_data[0])


def _one(connection: h11.Connection) -> Asked | None:
    method = target = ""
    body, keeps = bytearray(), True
    while True:
        event = _next(connection)
        if event is h11.NEED_DATA or event is h11.PAUSED:
            return None
        if isinstance(event, h11.Request):
            method, target = event.method.decode(), event.target.decode()
            options = [
                each.strip().lower()
                for name, value in event.headers
                if name == b"connection"
                for each in value.split(b",")
            ]
            keeps = b"close" not in options and (event.http_version == b"1.1" or b"keep-alive" in options)
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            return Asked(method, target, bytes(body), keeps)
        else:
            return None


def _written_anew(raw: bytes) -> bytes:
    """Without what the portal may pass over because no client sees it: it writes heads and phrases anew."""
    raw = raw.lstrip(b"\r\n")
    line, end, rest = raw.partition(b"\r\n")
    line = re.sub(rb"(?<=^HTTP/1\.\d \d{3} ).*", b"", line)
    fields, empty, then = (end + rest).partition(b"\r\n\r\n")
    if re.match(rb"HTTP/1\.\d 1", line):  # an interim answer, whatever its fields say: the next one counts
        return _written_anew(then)
    return line + fields + empty + then


def answer(raw: bytes) -> tuple[int, bytes] | None:
    """Status and body of the first final answer to a POST, the connection closed after `raw`; None: it is none."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)
    connection.send(h11.Request(method="POST", target="/", headers=[("Host", "a"), ("Content-Length", "0")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(_written_anew(raw))
    connection.receive_data(b"")
    status, body = 0, bytearray()
    try:
        while True:
            event = _next(connection)
            if isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                return status, bytes(body)
            elif not isinstance(event, h11.InformationalResponse):
                return None
    except h11.RemoteProtocolError:
        return None
    except TrailerError:
        return status, bytes(body)  # the portal drops trailers, whatever they say


def _next(connection: h11.Connection) -> Any:
    """`connection.next_event()`; a trailer that h11 refuses, judging it like a head, is TrailerError."""
    reader = connection._reader
    try:
        return connection.next_event()
    except h11.RemoteProtocolError as error:
        if getattr(reader, "_reading_trailer", False):
            raise TrailerError from error
        raise
