"""Read a request as far as routing needs it: which service, whether it wants a stream, and its kept body."""

import json
from dataclasses import dataclass

from aiohttp import web

from activator_ext.portal.paths import forwardable, service_prefix
from activator_ext.portal.refusals import (
    Refusal,
    Refused,
    ambiguous_model,
    invalid,
    no_table,
    not_served,
    unknown_model,
)
from activator_ext.portal.table import AmbiguousName, Table, UnknownName
from runtime.contract import Route


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request points before its body is read. `path` is still encoded; `route` None: the body must say."""

    path: str
    route: Route | None


@dataclass(slots=True)
class Intake:
    """A request ready to be admitted. `whole` False: `kept` is only the beginning, the rest is still on the wire.

    Not frozen for one reason: `kept` is emptied at the first response byte, while the answer may stream for minutes.
    """

    service: str
    path: str
    streaming: bool
    kept: bytes
    whole: bool


def target(request: web.BaseRequest, table: Table) -> Target:
    """The path without a service prefix, and the service that path or Host names; raises Refused."""
    raw_path = request.rel_url.raw_path
    if prefix := service_prefix(raw_path):
        service, path = prefix
        if service not in table.routes:
            raise Refused(unknown_model(service, table))
        return Target(path, table.routes[service])
    if not forwardable(raw_path):
        raise Refused(not_served(request.path))
    return Target(raw_path, table.by_host(request.headers.get("Host", "")))


async def take_in(request: web.BaseRequest, where: Target, table: Table, kept_body_bytes: int) -> Intake:
    """Read the body, all of it if it is at most `kept_body_bytes`; raises Refused.

    The table is the one of this moment: a model's name is looked up once, before the first wait.
    """
    kept, whole = await _read(request, kept_body_bytes)
    accepts_stream = "text/event-stream" in request.headers.get("Accept", "")
    if not whole:
        if where.route is None:
            raise Refused(_too_large(kept_body_bytes))
        await _invite(request)
        return Intake(where.route.service, where.path, accepts_stream, kept, whole)
    fields = {} if where.route and not _is_json(request, kept) else _fields(request, kept)
    route = where.route or _by_model(fields, table)
    return Intake(route.service, where.path, accepts_stream or fields.get("stream") is True, kept, whole)


async def _read(request: web.BaseRequest, limit: int) -> tuple[bytes, bool]:
    if request.content_length is not None and request.content_length > limit:
        return b"", False
    await _invite(request)
    chunks: list[bytes] = []
    size = 0
    while size <= limit:
        chunk = await request.content.readany()
        if not chunk:
            return b"".join(chunks), True
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks), False


async def _invite(request: web.BaseRequest) -> None:
    """Tell a client that asks first (curl does from 1 MiB on) to send its body; a refused one need not send it."""
    if request.headers.get("Expect", "").lower() == "100-continue" and not request.content.total_bytes:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # nothing of the answer itself is sent yet


def _is_json(request: web.BaseRequest, kept: bytes) -> bool:
    return bool(kept) and request.content_type.endswith("json")


def _fields(request: web.BaseRequest, kept: bytes) -> dict[str, object]:
    if not kept:
        return {}
    try:
        fields = json.loads(kept)
    except (ValueError, RecursionError):
        if request.content_type.startswith("multipart/"):
            hint = "the model of a form is not read: send it to /NAMESPACE/NAME/v1/… or by Host header"
            raise Refused(invalid(hint, "form_without_route")) from None
        raise Refused(invalid("the body is not valid JSON", "invalid_json")) from None
    if not isinstance(fields, dict):
        raise Refused(invalid("the body must be a JSON object", "invalid_json"))
    return fields


def _by_model(fields: dict[str, object], table: Table) -> Route:
    name = fields.get("model")
    if not isinstance(name, str) or not name:
        message = "the body names no `model`; add one, or use the path /NAMESPACE/NAME/v1/…"
        raise Refused(invalid(message, "model_missing"))
    try:
        return table.by_model(name)
    except UnknownName:
        raise Refused(no_table() if table.version is None else unknown_model(name, table)) from None
    except AmbiguousName as several:
        raise Refused(ambiguous_model(name, several.services)) from None


def _too_large(limit: int) -> Refusal:
    message = f"a body over {limit} bytes is not read to find its model: send it to /NAMESPACE/NAME/v1/… or by Host"
    return invalid(message, "body_too_large", 413)
