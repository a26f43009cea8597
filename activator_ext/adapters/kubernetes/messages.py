"""What lists and watches send, decoded no further than is needed: an object stays bytes until it is projected."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec

from activator_ext.adapters.kubernetes.faults import Refused, Unreachable

# Ten times what etcd holds of one object, as JSON with its managed fields.
MOST_LINE_BYTES = 16 * 1024 * 1024


class ListMeta(msgspec.Struct):
    """`continue_` "": this was the last page."""

    resource_version: str = msgspec.field(name="resourceVersion", default="")
    continue_: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct):
    """One page of a list."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class Change(msgspec.Struct):
    """One event of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""

    type: str
    object: msgspec.Raw


_PAGE = msgspec.json.Decoder(Page)
_CHANGE = msgspec.json.Decoder(Change)
_OBJECT = msgspec.json.Decoder(dict[str, Any])


def page(place: str, body: bytes) -> Page:
    """A page of a list; Unreachable if it is none."""
    try:
        return _PAGE.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Unreachable(f"{place}: what came is no list ({error}): {body[:80]!r}") from error


def change(place: str, line: bytes) -> Change:
    """An event of a watch; Unreachable if it is none, Refused if it is an ERROR."""
    try:
        told = _CHANGE.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Unreachable(f"{place}: what came is no event ({error}): {line[:80]!r}") from error
    if told.type == "ERROR":
        status = value(place, told.object)
        code = status.get("code")
        raise Refused.of(place, code if isinstance(code, int) else 500, bytes(told.object))
    return told


def value(place: str, raw: msgspec.Raw) -> dict[str, Any]:
    """One object; Unreachable if it is none or has no metadata."""
    try:
        found = _OBJECT.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Unreachable(f"{place}: what came is no object ({error})") from error
    if found.get("kind") != "Status" and not isinstance(found.get("metadata"), dict):
        raise Unreachable(f"{place}: an object without metadata")
    return found


async def lines(place: str, content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """The lines of a stream; Unreachable for one without end, and for a last one that was cut."""
    pieces: list[bytes] = []
    size = 0
    async for piece in content.iter_any():
        *whole, rest = piece.split(b"\n")
        for line in whole:
            pieces.append(line)
            joined = b"".join(pieces)
            pieces, size = [], 0
            if joined.strip():
                yield joined
        pieces.append(rest)
        size += len(rest)
        if size > MOST_LINE_BYTES:
            raise Unreachable(f"{place}: an event of more than {MOST_LINE_BYTES} bytes")
    if b"".join(pieces).strip():
        raise Unreachable(f"{place}: the stream was cut within an event")
