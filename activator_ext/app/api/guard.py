"""Who may speak to the API: the right Host header against DNS rebinding, then the bearer token.

A page of another site gets nothing: it cannot know the token, and no answer allows it to read (no CORS header).
"""

import hmac

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from activator_ext.app.api.errors import error_response

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")
"""Names a browser on this machine may have used for a loopback address."""

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/docs", "/openapi.json"})
"""Answered without a token: they tell nothing of the services."""

_HOW_TO_ASK = (
    "send `Authorization: Bearer TOKEN`; TOKEN is the content of the file `token` in the state directory of "
    "`pilotlight up` (--state or PILOTLIGHT_STATE), which the command line reads by itself"
)


class Guard:
    """ASGI middleware that refuses before any route is looked up, so a route added later is guarded too.

    `hosts` are names without port, lower case; a page of another site that resolves its own name to loopback sends
    that name here and is refused.
    """

    def __init__(self, app: ASGIApp, *, token: str, hosts: tuple[str, ...]) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it with 403 (Host) or 401 (token)."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        host = _single_header(scope, b"host").decode("latin-1")
        send = _hardened(send)
        if _without_port(host) not in self._hosts:
            names = ", ".join(sorted(self._hosts))
            message = f"the Host header {host!r} does not name this API, which answers to {names}"
            await error_response(403, "host-not-allowed", message)(scope, receive, send)
        elif scope["path"] not in OPEN_PATHS and not self._knows_token(scope):
            headers = {"WWW-Authenticate": "Bearer"}
            await error_response(401, "no-token", _HOW_TO_ASK, headers)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _knows_token(self, scope: Scope) -> bool:
        scheme, _, given = _single_header(scope, b"authorization").partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._token)


def _hardened(send: Send) -> Send:
    """Answers say that no page of another site may embed, frame or reinterpret them, and no cache keep them."""

    async def hardened(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *_HEADERS]
        await send(message)

    return hardened


_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)


def _single_header(scope: Scope, name: bytes) -> bytes:
    """The header's value; empty when it is missing or sent twice, which no honest client does."""
    values = [value for key, value in scope["headers"] if key == name]
    return values[0] if len(values) == 1 else b""


def _without_port(host: str) -> str:
    """`localhost:8081` → `localhost`, `[::1]:8081` → `[::1]`."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()
