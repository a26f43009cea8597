"""What a request to the API may be: how long its target, how large and slow its body, each parameter once."""

import asyncio
from collections.abc import Iterator
from urllib.parse import parse_qsl

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from activator_ext.app.api.errors import error_response

MAX_TARGET_BYTES = 4096
"""Path and query as sent. The longest honest one, a preview of a service with names of 253 bytes, has 700."""

MAX_BODY_BYTES = 64 * 1024
"""The largest honest body, a hold with a reason of 256 characters all escaped, has 4 kB."""

BODY_S = 10.0
"""Within which a body must have come whole."""


class Limits:
    """ASGI middleware that refuses with 414, 413 or 408 what is too long, too large or too slow.

    A body is read whole before any route sees it: it is small, and a route is never left amid one.
    """

    def __init__(self, app: ASGIApp, *, body_s: float = BODY_S) -> None:
        self._app = app
        self._body_s = body_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its body in hand, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        target_bytes = len(scope["raw_path"]) + len(scope["query_string"])
        if target_bytes > MAX_TARGET_BYTES:
            message = f"path and query have {target_bytes} bytes, more than {MAX_TARGET_BYTES}: ask for less at once"
            await error_response(414, "target-too-long", message)(scope, receive, send)
            return
        if (name := _repeated(scope["query_string"])) is not None:
            message = f"query.{name} is given more than once: give it once, for only one could be meant"
            await error_response(422, "invalid-field", message)(scope, receive, send)
            return
        try:
            body = await self._body(scope, receive)
        except _TooLarge:
            message = f"the body has more than {MAX_BODY_BYTES} bytes: no request of this API needs so many"
            await error_response(413, "body-too-large", message, _CLOSE)(scope, receive, send)
        except TimeoutError:
            message = f"the body did not come within {self._body_s:g} s: send it at once"
            await error_response(408, "body-too-slow", message, _CLOSE)(scope, receive, send)
        else:
            if body is not None:
                await self._app(scope, _replay(body, receive), send)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """The whole body; None where the client left before its end."""
        if any(size > MAX_BODY_BYTES for size in _announced(scope)):
            raise _TooLarge
        body = b""
        async with asyncio.timeout(self._body_s):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                body += bytes(message.get("body", b""))
                if len(body) > MAX_BODY_BYTES:
                    raise _TooLarge
                if not message.get("more_body", False):
                    return body


class _TooLarge(Exception):
    pass


# What is left of such a body is not read, so no other request can follow it.
_CLOSE = {"Connection": "close"}


def _repeated(query: bytes) -> str | None:
    """The first name that comes twice in a query, None if none does: a server and a proxy could each read another."""
    seen = set()
    for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name in seen:
            return name
        seen.add(name)
    return None


def _announced(scope: Scope) -> Iterator[int]:
    return (int(value) for name, value in scope["headers"] if name == b"content-length" and value.isdigit())


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body once, and then what the connection itself tells."""
    told = False

    async def replayed() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed
