"""A controller, engines and a host that tests script, and a portal of this process between them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from activator_ext.portal.clock import Clock
from activator_ext.portal.limits import Limits, Pace
from activator_ext.portal.server import Options, Portal
from runtime.contract import (
    Endpoint,
    Failure,
    FailureCause,
    PortalReport,
    Route,
    RouteDelta,
    RouteTable,
    ServiceLoad,
    Stage,
    Waiting,
    Warmth,
)

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
CLOCK = Clock(now=lambda: NOW)
SOON_S = 10.0  # far more than anything here needs: a test that reaches it has failed
PACE = Pace(
    debounce_s=0.0,
    unhurried_s=0.0,
    active_every_s=3600,
    full_every_s=3600,
    reconnect_s=0.001,
    wake_every_s=0.005,
    post_s=5.0,
)


def route(service: str = "team-a/chat", *urls: str, **fields: Any) -> Route:
    """A route with one endpoint for each URL; without any it is at zero."""
    return Route(
        **{
            "service": service,
            "names": (service, service.partition("/")[2]),
            "warmth": Warmth.WARM if urls else Warmth.COLD,
            "endpoints": tuple(Endpoint(replica=f"{service}/{n}", url=url) for n, url in enumerate(urls)),
            "created_at": NOW,
            **fields,
        }
    )


def failure(message: str = "the model directory is missing") -> Failure:
    return Failure(cause=FailureCause.MODEL_MISSING, message=message, at=NOW)


async def until(condition: Callable[[], bool]) -> None:
    """Return once the condition holds; the tasks of this process make it hold."""
    async with asyncio.timeout(SOON_S):
        while not condition():  # noqa: ASYNC110 — the condition is plain state of several parts; none sets an event
            await asyncio.sleep(0.001)


@dataclass
class FakeController:
    """Serves routes and takes reports on a unix socket."""

    path: Path
    version: int = 1
    routes: dict[str, Route] = field(default_factory=dict)
    reports: list[PortalReport] = field(default_factory=list)
    streams: list[web.StreamResponse] = field(default_factory=list)
    snapshots: int = 0
    _runner: web.AppRunner | None = None

    async def start(self, *routes: Route, version: int = 1) -> None:
        self.routes = {each.service: each for each in routes}
        self.version = version
        app = web.Application()
        app.router.add_get("/v1/routes", self._on_routes)
        app.router.add_post("/v1/internal/portal", self._on_report)
        self._runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True)
        await self._runner.setup()
        self.path.unlink(missing_ok=True)
        await web.UnixSite(self._runner, str(self.path)).start()

    async def stop(self) -> None:
        if self._runner:
            await self._runner.cleanup()
        self._runner = None
        self.streams.clear()

    async def push(self, *changed: Route, removed: tuple[str, ...] = (), skip: int = 0) -> None:
        """One delta; `skip` leaves out versions."""
        self.version += 1 + skip
        self.routes |= {each.service: each for each in changed}
        for service in removed:
            del self.routes[service]
        delta = RouteDelta(version=self.version, changed=changed, removed=removed)
        for stream in self.streams:
            await stream.write(f"event: delta\ndata: {delta.model_dump_json()}\n\n".encode())

    def loads(self, service: str = "team-a/chat") -> list[ServiceLoad]:
        """What was reported of one service, the oldest first."""
        return [load for report in self.reports for load in report.services if load.service == service]

    async def _on_routes(self, request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        table = RouteTable(version=self.version, routes=tuple(self.routes.values()))
        await stream.write(f": hello\n\nevent: snapshot\ndata: {table.model_dump_json()}\n\n".encode())
        self.snapshots += 1
        self.streams.append(stream)
        try:
            await asyncio.Event().wait()
        finally:
            if stream in self.streams:
                self.streams.remove(stream)
        return stream

    async def _on_report(self, request: web.Request) -> web.Response:
        self.reports.append(PortalReport.model_validate_json(await request.read()))
        return web.Response(status=204)


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class FakeEngine:
    """One engine on loopback. `handler` answers; what came is kept in `bodies` and `headers`."""

    handler: Handler | None = None
    url: str = ""
    paths: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    cancelled: int = 0

    async def on_request(self, request: web.Request) -> web.StreamResponse:
        self.paths.append(request.raw_path)
        self.headers.append(dict(request.headers))
        self.bodies.append(await request.read())
        try:
            if self.handler:
                return await self.handler(request)
            return web.json_response({"said": "hello"})
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


@contextlib.asynccontextmanager
async def engine(handler: Handler | None = None) -> AsyncIterator[FakeEngine]:
    """A running engine."""
    fake = FakeEngine(handler)
    app = web.Application(client_max_size=64 * 2**20)
    app.router.add_route("*", "/{tail:.*}", fake.on_request)
    runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    fake.url = f"http://{host}:{port}"
    try:
        yield fake
    finally:
        await runner.cleanup()


def breaks_off(after: bytes | None = None) -> Handler:
    """An engine that dies: before its headers, or after one piece of body."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if after is not None:
            await response.prepare(request)
            await response.write(after)
            # Both ends are in this process: let the piece arrive before the break.
            await asyncio.sleep(0.01)
        assert request.transport is not None
        request.transport.close()
        return response

    return handler


@dataclass
class House:
    """A portal with its controller, and a client for both listeners."""

    portal: Portal
    controller: FakeController
    client: aiohttp.ClientSession
    admin: aiohttp.ClientSession
    task: asyncio.Task[None]

    @property
    def url(self) -> str:
        return f"http://{self.portal.listen}"

    def post(self, path: str = "/v1/chat/completions", **body: Any) -> Any:
        """Ask for chat unless `body` names another model."""
        return self.client.post(self.url + path, json={"model": "chat", **body})

    def ask(self, accept: str = "*/*", **body: Any) -> "asyncio.Task[aiohttp.ClientResponse]":
        """The same in the background; the task ends with the answer's head."""

        async def go() -> aiohttp.ClientResponse:
            url, headers = self.url + "/v1/chat/completions", {"Accept": accept}
            return await self.client.post(url, json={"model": "chat", **body}, headers=headers)

        return asyncio.create_task(go())

    async def waiting(self, count: int, service: str = "team-a/chat") -> None:
        """Return once so many wait."""
        await until(lambda: self.portal.door.loads.room.waiting(service) == count)

    async def running(self, count: int, service: str = "team-a/chat") -> None:
        """Return once so many run."""
        await until(lambda: self.portal.door.loads.running(service) == count)

    async def metric(self, line: str) -> bool:
        """Whether the metrics hold a line that begins so."""
        async with self.admin.get("http://portal/metrics") as response:
            return any(each.startswith(line) for each in (await response.text()).splitlines())


@contextlib.asynccontextmanager
async def house(
    folder: Path,
    *routes: Route,
    limits: Limits | None = None,
    pace: Pace = PACE,
    clock: Clock = CLOCK,
    drain_s: float = 0.0,
    orphan_s: float = 3600,
) -> AsyncIterator[House]:
    """A portal that knows `routes`, listening on any free port."""
    controller = FakeController(folder / "c.sock")
    await controller.start(*routes)
    options = Options("127.0.0.1", 0, controller.path, folder / "p.sock", drain_s, orphan_s)
    portal = Portal(options, limits or Limits(), pace, clock)
    task = asyncio.create_task(portal.run())
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SOON_S)) as client,
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(options.admin))) as admin,
    ):
        try:
            await until(lambda: task.done() or (portal.serving.is_set() and portal.link.connected))
            await until(lambda: bool(controller.reports))
            yield House(portal, controller, client, admin, task)
        finally:
            portal.stop()
            async with asyncio.timeout(SOON_S):
                await task
            await controller.stop()


AT_STAGE = {"stage": Stage.COMPILE, "warmth": Warmth.WARMING}
NO_WAIT = Waiting(timeout_s=0.0)
