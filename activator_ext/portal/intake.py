"""What a request asks for: which service, which path at its engine, whether it wants a stream. Pure."""

import zlib
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from activator_ext.portal.fields import read
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
from activator_ext.portal.request import Request
from activator_ext.portal.table import AmbiguousName, Table, UnknownName
from runtime.contract import Route

_ENCODINGS = ("gzip", "x-gzip", "deflate")
_KNOWN = (*_ENCODINGS, "", "identity")


class Target(NamedTuple):
    """Where a request points before its body is read. `path` is still encoded, query included in `path_query`.

    `route` None: the body must say.
    """

    path: str
    path_query: bytes
    route: Route | None


class Intake(NamedTuple):
    """A request ready to be admitted."""

    service: str
    path_query: bytes
    streaming: bool


def target(request: Request, table: Table) -> Target:
    """The path without a service prefix, and the service that path or Host names; raises Refused."""
    if request.method not in (b"GET", b"POST"):
        method = request.method.decode("ascii")
        raise Refused(invalid(f"{method} is not served here; use GET or POST", "method_not_allowed", 405))
    if request.upgrade == b"websocket":
        raise Refused(invalid("WebSockets are not served here; ask with HTTP", "upgrade_refused", 501))
    if request.fields.get(b"sec-fetch-site") == b"cross-site":
        # Only browsers say so: a page of another site, which could not read the answer but would cost a start.
        raise Refused(invalid("a page of another site may not ask here", "cross_site", 403))
    if table.version is None:
        raise Refused(no_table())
    where = _plain(request.target)
    if where is None:
        return _prefixed(request.target, table)
    route = table.by_host(request.fields.get(b"host", b""))
    return where if route is None else where._replace(route=route)


@lru_cache(maxsize=1024)
def _plain(target: bytes) -> Target | None:
    """A path that goes to an engine as it is; None: it may have a service before it."""
    raw_path = target.partition(b"?")[0].decode("ascii")
    return Target(raw_path, target, None) if forwardable(raw_path) else None


def _prefixed(target: bytes, table: Table) -> Target:
    raw, mark, query = target.partition(b"?")
    raw_path = raw.decode("ascii")
    if prefix := service_prefix(raw_path):
        service, path = prefix
        if service not in table.routes:
            raise Refused(unknown_model(service, table))
        return Target(path, path.encode() + mark + query, table.routes[service])
    raise Refused(not_served(unquote(raw_path)))


def may_come(request: Request, where: Target, limit: int) -> None:
    """Whether the body need be sent at all; raises Refused."""
    if where.route is not None:
        return
    if request.length > limit:
        raise Refused(_too_large(limit))
    if b"content-encoding" in request.fields:
        encoding = request.text(b"content-encoding").lower()
        if encoding not in _KNOWN:
            hint = f"a body in {encoding!r} is not read to find its model: use gzip, or the path /NAMESPACE/NAME/v1/…"
            raise Refused(invalid(hint, "encoding_unsupported", 415))


def by_head(request: Request, where: Target, limit: int) -> Intake:
    """A request whose body of over `limit` bytes is not looked into; raises Refused if only that could route it."""
    if where.route is None:
        raise Refused(_too_large(limit))
    if encoding := request.fields.get(b"content-encoding"):
        request.lines.append(b"Content-Encoding: %b\r\n" % encoding)
    return _of(request, where, where.route)


def by_body(request: Request, body: bytes, where: Target, table: Table) -> Intake:
    """A request whose body is there, whole and plain; raises Refused.

    The table is the one of this moment: a model's name is looked up once, before the first wait.
    """
    route = where.route
    if route is not None and not (body and request.text(b"content-type").partition(";")[0].strip().endswith("json")):
        return _of(request, where, route)
    try:
        fields = read(body)
    except ValueError as error:
        raise Refused(_no_fields(request, str(error))) from None
    if route is None:
        route = _by_model(fields.model, table)
    return Intake(route.service, where.path_query, fields.stream is True or _accepts_stream(request))


def decoded(request: Request, limit: int) -> bytes:
    """The whole body, plain from here on if its encoding is one that we know; raises Refused."""
    body = request.body()
    if b"content-encoding" not in request.fields:
        return body
    encoding = request.text(b"content-encoding").lower()
    if encoding in _ENCODINGS:
        body = _unpacked(body, encoding, limit)
        request.chunks = [body]
    elif encoding not in ("", "identity"):
        request.lines.append(b"Content-Encoding: %b\r\n" % request.fields[b"content-encoding"])
    return body


def _unpacked(body: bytes, encoding: str, limit: int) -> bytes:
    # 47: zlib and gzip are told apart by their headers (zlib.decompressobj in the standard library's manual).
    unpacker = zlib.decompressobj(47)
    try:
        unpacked = unpacker.decompress(body, limit + 1)
    except zlib.error:
        raise Refused(invalid(f"the body is not the {encoding} that its header says", "invalid_body")) from None
    if len(unpacked) > limit:
        raise Refused(_too_large(limit))
    if not unpacker.eof or unpacker.unused_data:
        raise Refused(invalid(f"the {encoding} of the body breaks off or has an end too many", "invalid_body"))
    return unpacked


def _too_large(limit: int) -> Refusal:
    message = f"a body over {limit} bytes is not read to find its model: send it to /NAMESPACE/NAME/v1/… or by Host"
    return invalid(message, "body_too_large", 413)


def _of(request: Request, where: Target, route: Route) -> Intake:
    return Intake(route.service, where.path_query, _accepts_stream(request))


def _accepts_stream(request: Request) -> bool:
    return b"text/event-stream" in request.fields.get(b"accept", b"")


def _no_fields(request: Request, why: str) -> Refusal:
    if request.text(b"content-type").startswith("multipart/"):
        hint = "the model of a form is not read: send it to /NAMESPACE/NAME/v1/… or by Host header"
        return invalid(hint, "form_without_route")
    return invalid(why, "invalid_json")


def _by_model(name: object, table: Table) -> Route:
    if not isinstance(name, str) or not name:
        message = "the body names no `model`; add one, or use the path /NAMESPACE/NAME/v1/…"
        raise Refused(invalid(message, "model_missing"))
    try:
        return table.by_model(name)
    except UnknownName:
        raise Refused(no_table() if table.version is None else unknown_model(name, table)) from None
    except AmbiguousName as several:
        raise Refused(ambiguous_model(name, several.services)) from None
