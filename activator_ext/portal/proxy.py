"""The public HTTP face: the list of models, and everything else to an engine."""

import asyncio
from collections.abc import Iterable
from urllib.parse import unquote

import aiohttp
from aiohttp import web

from activator_ext.portal.door import Door
from activator_ext.portal.exchange import Exchange, refuse
from activator_ext.portal.intake import Target, take_in, target
from activator_ext.portal.refusals import (
    Outcome,
    Refused,
    ambiguous_model,
    invalid,
    no_table,
    stopping,
    unknown_model,
)
from activator_ext.portal.table import AmbiguousName, Table, UnknownName
from runtime.contract import Route

_MODELS = "/v1/models"


class Proxy:
    """Handles each request of the public listener."""

    def __init__(self, door: Door, session: aiohttp.ClientSession) -> None:
        self._door = door
        self._session = session
        self._open = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        self._open += 1
        self._idle.clear()
        try:
            return await self._answer(request)
        finally:
            self._open -= 1
            if not self._open:
                self._idle.set()

    async def idle(self) -> None:
        """Return when no request is under way."""
        await self._idle.wait()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            where = self._where(request)
            if where.path.rstrip("/") == _MODELS and request.method == "GET":
                return web.json_response({"object": "list", "data": models(self._door.table, where.route)})
            if where.path.startswith(_MODELS + "/") and request.method == "GET":
                return web.json_response(self._model(unquote(where.path.removeprefix(_MODELS + "/"))))
            intake = await take_in(request, where, self._door.table, self._door.limits.kept_body_bytes)
        except Refused as refused:
            self._door.metrics.ended(None, refused.refusal.outcome)
            return refuse(refused.refusal)
        except (web.RequestPayloadError, ConnectionError):
            self._door.metrics.ended(None, Outcome.INVALID)
            return refuse(invalid("the body broke off or is not encoded as its headers say", "invalid_body"))
        except asyncio.CancelledError:
            self._door.metrics.ended(None, Outcome.CLIENT_GONE)
            raise
        return await Exchange(self._door, self._session, request, intake).run()

    def _where(self, request: web.BaseRequest) -> Target:
        if self._door.stopping:
            raise Refused(stopping())
        if request.method not in ("GET", "POST"):
            raise Refused(invalid(f"{request.method} is not served here; use GET or POST", "method_not_allowed", 405))
        if self._door.table.version is None:
            raise Refused(no_table())
        return target(request, self._door.table)

    def _model(self, name: str) -> dict[str, object]:
        table = self._door.table
        try:
            return _model(name, table.by_model(name))
        except UnknownName:
            raise Refused(unknown_model(name, table)) from None
        except AmbiguousName as several:
            raise Refused(ambiguous_model(name, several.services)) from None


def models(table: Table, only: Route | None = None) -> list[dict[str, object]]:
    """Each name that means one service, those at zero included; `only`: that service's names."""
    routes: Iterable[Route] = [only] if only else [table.routes[service] for service in sorted(table.routes)]
    return [_model(name, route) for route in routes for name in table.names_of(route)]


def _model(name: str, route: Route) -> dict[str, object]:
    return {
        "id": name,
        "object": "model",
        "created": int(route.created_at.timestamp()),
        "owned_by": "pilotlight",
        "pilotlight": {"service": route.service, "warmth": route.warmth.value},
    }
