"""The gate inside an engine: a pure ASGI middleware in front of vLLM that lets in whom the door lets in.

It never touches what passes: no body is read, no chunk is looked at, `send` is the server's own. So a stream costs
nothing more per chunk, a client that leaves is seen by the engine as before, and an exception of the engine reaches
the server.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from datetime import datetime
from typing import Any, Final

from runtime.ready.gate_door import (
    CREDENTIAL_HEADER,
    OUR_PATHS,
    READY_PATH,
    SEAL_PATH,
    STATE_PATH,
    WARM_UP_HEADER,
    Door,
    Refusal,
    State,
)
from runtime.ready.gate_routes import Audience, audience_of, route_path

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Sealer = Callable[[Scope, Door], Awaitable[None]]
"""Brings the engine of a connection into a state that an image of it may keep."""

_CREDENTIAL: Final = CREDENTIAL_HEADER.encode()
_WARM_UP: Final = WARM_UP_HEADER.encode()
_JSON: Final = (b"content-type", b"application/json")
_STATES: Final = {state.value: state for state in State}
TRY_AGAIN_LATER: Final = 1013
"""The close code of a WebSocket that was not let in (IANA's registry of close codes)."""


class Gate:
    """ASGI application around `app`. `credential`: see `Door`. `sealer`: None where no image is ever made of it."""

    def __init__(
        self, app: App, *, credential: str | None, clock: Callable[[], datetime], sealer: Sealer | None = None
    ) -> None:
        self._app, self._clock, self._sealer = app, clock, sealer
        self.door = Door(credential, clock())
        self._warm_ups: set[asyncio.Event] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, request or lifespan."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        path = route_path(scope["path"], scope.get("root_path", ""))
        credential, warm_up = _ours_of(scope["headers"])
        if path.startswith(OUR_PATHS):
            await self._answer_for_us(scope, path, credential, send)
            return
        audience = audience_of(path)
        if refusal := self.door.judge(audience, credential, warm_up=warm_up):
            await _refuse(refusal, scope, receive, send)
        elif credential is not None:
            await self._serve_host(scope, receive, send, warm_up=warm_up)
        elif audience is Audience.CLIENTS:
            await self._serve_client(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _serve_client(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.door.in_flight += 1
        self.door.served = True
        for warm_up in self._warm_ups:
            warm_up.set()
        try:
            await self._app(scope, receive, send)
        finally:
            self.door.in_flight -= 1

    async def _serve_host(self, scope: Scope, receive: Receive, send: Send, *, warm_up: bool) -> None:
        # The engine need not know the credential: nothing behind the gate can log it or pass it on.
        scope = {**scope, "headers": [pair for pair in scope["headers"] if pair[0] not in (_CREDENTIAL, _WARM_UP)]}
        if not warm_up:
            await self._app(scope, receive, send)
            return
        gives_way = asyncio.Event()
        self._warm_ups.add(gives_way)
        try:
            await self._app(scope, _until(gives_way, receive), send)
        finally:
            self._warm_ups.discard(gives_way)

    async def _answer_for_us(self, scope: Scope, path: str, credential: bytes | None, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": TRY_AGAIN_LATER})
        elif path == READY_PATH:
            await self._answer_ready(scope["method"], send)
        elif path.startswith(STATE_PATH):
            await self._answer_state(scope["method"], path.removeprefix(STATE_PATH), credential, send)
        elif path == SEAL_PATH and self._sealer is not None:
            await self._answer_seal(self._sealer, scope, credential, send)
        else:
            await _answer(send, 404, b"{}")

    async def _answer_ready(self, method: str, send: Send) -> None:
        if method not in ("GET", "HEAD"):
            await _answer(send, 405, b"{}", (b"allow", b"GET, HEAD"))
            return
        await _answer(send, 200 if self.door.ready else 503, self.door.report, (b"cache-control", b"no-store"))

    async def _answer_state(self, method: str, wanted: str, credential: bytes | None, send: Send) -> None:
        if credential is None or not self.door.knows(credential):
            await _answer(send, 403, b"{}")
        elif method != "POST":
            await _answer(send, 405, b"{}", (b"allow", b"POST"))
        elif wanted not in _STATES:
            await _answer(send, 404, b"{}")
        else:
            moved = self.door.move(_STATES[wanted], self._clock())
            await _answer(send, 200 if moved else 409, self.door.report)

    async def _answer_seal(self, sealer: Sealer, scope: Scope, credential: bytes | None, send: Send) -> None:
        if credential is None or not self.door.knows(credential):
            await _answer(send, 403, b"{}")
        elif scope["method"] != "POST":
            await _answer(send, 405, b"{}", (b"allow", b"POST"))
        elif not self.door.seal(self._clock()):
            await _answer(send, 409, self.door.report)
        else:
            await sealer(scope, self.door)
            # The connection ends with this answer: an image keeps none.
            await _answer(send, 200, self.door.report, (b"connection", b"close"))


def _ours_of(headers: Iterable[tuple[bytes, bytes]]) -> tuple[bytes | None, bool]:
    """The credential as sent, None without one, and whether the request warms a shape. ASGI's names are lower case."""
    credential, warm_up = None, False
    for name, value in headers:
        if name == _CREDENTIAL:
            credential = value
        elif name == _WARM_UP:
            warm_up = True
    return credential, warm_up


def _until(gives_way: asyncio.Event, receive: Receive) -> Receive:
    """`receive`, and a disconnect as soon as a client comes: vLLM then drops the request as for a client that left."""

    async def either() -> Message:
        message, event = asyncio.ensure_future(receive()), asyncio.ensure_future(gives_way.wait())
        try:
            await asyncio.wait((message, event), return_when=asyncio.FIRST_COMPLETED)
            return message.result() if message.done() else {"type": "http.disconnect"}
        finally:
            message.cancel()
            event.cancel()

    return either


async def _refuse(refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": refusal.status, "headers": refusal.headers})
        await send({"type": "http.response.body", "body": refusal.body})
        return
    await receive()  # the request to connect; a server takes no answer before it was asked for
    if "websocket.http.response" in scope.get("extensions", {}):
        await send({"type": "websocket.http.response.start", "status": refusal.status, "headers": refusal.headers})
        await send({"type": "websocket.http.response.body", "body": refusal.body})
    else:
        await send({"type": "websocket.close", "code": TRY_AGAIN_LATER, "reason": refusal.code})


async def _answer(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [_JSON, length, *headers]})
    await send({"type": "http.response.body", "body": body})
