"""Heads as bytes: the request's for an engine, the answer's for a client. Pure but for a fresh trace id."""

import random
from collections.abc import Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import NamedTuple

from activator_ext.portal.request import HOP_BY_HOP, Request

_ids = random.Random()  # noqa: S311 — ids need to differ, not to be secret; the system seeds it

# The framing is chosen anew for each client.
NOT_HANDED_BACK = HOP_BY_HOP | {b"content-length"}

_PHRASES = {each.value: each.phrase.encode() for each in HTTPStatus}


class AnswerHead(NamedTuple):
    """An engine's status and its end-to-end fields, in pieces to be joined. `length` None: the end will tell."""

    status: int
    lines: list[bytes]
    content_type: bytes
    length: int | None


def to_engine(request: Request, path: bytes, authority: bytes, length: int | None) -> bytes:
    """The head that an engine gets; `length` None: the body follows in chunks.

    A client without a trace gets a fresh one: vLLM joins a request that has none to the trace of its cold start.
    """
    parts = [request.method, b" ", path, b" HTTP/1.1\r\nHost: ", authority, b"\r\nAccept-Encoding: identity\r\n"]
    parts += request.lines
    if b"traceparent" not in request.fields:
        ids = _ids.getrandbits(128), _ids.getrandbits(64)
        parts.append(b"traceparent: 00-%032x-%016x-01\r\n" % ids)
    if length is None:
        parts.append(b"Transfer-Encoding: chunked\r\n\r\n")
    elif length or request.method == b"POST":
        parts.append(b"Content-Length: %d\r\n\r\n" % length)
    else:
        parts.append(b"\r\n")
    return b"".join(parts)


def to_client(status: int, lines: Iterable[bytes], framing: bytes, connection: bytes) -> bytes:
    """The head that a client gets, `lines` in pieces. `framing` and `connection` are whole lines, or empty."""
    return b"".join((b"HTTP/1.1 %d %b\r\n" % (status, reason_of(status)), *lines, framing, connection, b"\r\n"))


def own_lines(headers: dict[str, str]) -> list[bytes]:
    """Fields of an answer of our own, with the date that RFC 9110 §6.6.1 asks of who answers."""
    dated = headers | {"Date": formatdate(usegmt=True)}
    return [f"{name}: {value}\r\n".encode() for name, value in dated.items()]


def reason_of(status: int) -> bytes:
    """The phrase that goes with a status; nobody reads it (RFC 9112 §4), so an engine's own is not kept."""
    return _PHRASES.get(status, b"")
