"""The simulated machine: `up`, portal, host and engines as processes, the product's own code inside each.

What is the product's: Controller, Facade, History (in memory), RouteFeed, core.decide; the whole portal from the bytes
of a client to the bytes of an engine; Supervisor, Replica, plan, EngineStart, readiness and golden prompt. What is not:
the sockets, the HTTP servers of `up` and host, engine processes, and the small keepers that begin a dead process again.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TypeVar

from activator_ext.adapters.history import History
from activator_ext.adapters.hosts import HostUnreachable
from activator_ext.adapters.local.manifests import LocalService
from activator_ext.app.controller import Controller
from activator_ext.app.facade import Facade
from activator_ext.app.metrics import Metrics
from activator_ext.app.routes import RouteFeed
from activator_ext.core.model import ServiceId
from activator_ext.portal.clock import Clock
from activator_ext.portal.door import Door
from activator_ext.portal.engines import Engines as EngineConnections
from activator_ext.portal.limits import Limits, Pace
from activator_ext.portal.public import PublicFace
from activator_ext.portal.reporter import Reporter
from activator_ext.portal.sources import Link
from activator_ext.portal.sources import RouteFeed as RouteReader
from activator_ext.portal.waker import Waker
from runtime.contract import HostEvents, HostView, Lease, PortalReport, ServiceOrder
from runtime.engine.launch import Launcher
from runtime.host.poster import Poster
from runtime.host.supervisor import Supervisor
from tests.races.engines import Engine, Engines
from tests.races.virtual_loop import Process, VirtualLoop
from tests.races.wire import Refusal, Sockets, Unreachable

T = TypeVar("T")

BEGIN = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
LEASE_S = 60.0
ORPHAN_S = 60.0
CONTROLLER, HOST, PORTAL = "controller.sock", "host.sock", "portal.sock"


class HostClient:
    """`adapters.hosts.Host` over the wire."""

    socket = HOST

    def __init__(self, machine: "Machine") -> None:
        self._machine = machine

    async def view(self) -> HostView:
        return await self._call(lambda host: host.supervisor.view())

    async def renew(self, lease: Lease) -> HostView:
        return await self._call(lambda host: host.renew(lease))

    async def order(self, order: ServiceOrder) -> None:
        self._machine.on_order(order)
        await self._call(lambda host: host.take(order))

    async def forget(self, service: str) -> None:
        await self._call(lambda host: host.supervisor.forget(service))

    async def _call(self, handler: "Callable[[HostBox], T]") -> T:
        host = self._machine.host
        try:
            async with asyncio.timeout(20.0):
                return await self._machine.wire.call(host.process, lambda: handler(host))
        except (Unreachable, Refusal, TimeoutError) as error:
            raise HostUnreachable(f"no host answers: {type(error).__name__}") from error


class HostBox:
    """The host process: the real Supervisor under a lease."""

    def __init__(self, machine: "Machine", number: int) -> None:
        self.process = Process("host", number)
        self._machine = machine
        self._renewed_s = machine.loop.now_s
        self._lease_s = LEASE_S
        self._poster = Poster(f"host-{number}", lambda: self.supervisor.view().revision)
        self.process.context().run(self._make, number)
        machine.loop.begin(self.process, self._poster.run())
        machine.loop.begin(self.process, self._watch_lease())
        self.process.on_death.append(lambda: machine.engines.kill_of(self.process))
        machine.sockets.listen(HOST, self.process, self._wake)

    def _make(self, number: int) -> None:
        self.supervisor = Supervisor(
            host=f"host-{number}",
            version="0",
            root=Path("engines"),
            spans=None,
            clock=self._machine.clock,
            on_change=self._poster.changed,
            on_stage=self._poster.stage,
            launcher=Launcher(),
        )

    def renew(self, lease: Lease) -> HostView:
        """As `runtime.host.__main__` does."""
        self._renewed_s, self._lease_s = self._machine.loop.now_s, lease.seconds
        self._poster.socket = lease.events_socket or self._poster.socket
        return self.supervisor.view()

    def take(self, order: ServiceOrder) -> None:
        """As `runtime.host.server` does."""
        if self.supervisor.stopping:
            raise Refusal
        self.supervisor.order(order)

    def _wake(self, _method: str, path: str, _body: bytes) -> bytes:
        service = path.removeprefix("/v1/services/").removesuffix("/wake")
        if not self.supervisor.wake(service):
            raise Refusal
        return self.supervisor.view().model_dump_json().encode()

    async def _watch_lease(self) -> None:
        loop = self._machine.loop
        while (left_s := self._renewed_s + self._lease_s - loop.now_s) > 0:  # noqa: ASYNC110 — virtual time
            await asyncio.sleep(left_s)
        await self.supervisor.stop(60.0)
        self.process.kill()


class PortalBox:
    """The portal process: all of it but its listener."""

    def __init__(self, machine: "Machine", number: int) -> None:
        self.process = Process("portal", number)
        self._machine = machine
        self._ended = False
        self.process.context().run(self._make, number)

    def _make(self, number: int) -> None:
        machine, pace, controller = self._machine, Pace(), Path(CONTROLLER)
        self.door = Door(Limits(), Clock(machine.clock, lambda: machine.loop.now_s))
        self.link = Link()
        self._reporter = Reporter(self.door, self.link, controller, pace, f"portal-{number}")
        self._waker = Waker(self.door, self.link, pace)
        self.door.loads.on_edge = self._edge
        reader = RouteReader(self.door, self.link, controller, pace)
        self._engines = EngineConnections(self.door.limits.connect_s, lambda: machine.loop.now_s)
        self.public = PublicFace(self.door, self._engines)
        jobs = (reader.run(), self._reporter.run(), self._waker.run(), self._watch_orphaned(), self._prune())
        for work in jobs:
            machine.loop.begin(self.process, work)

    def _edge(self, service: str) -> None:
        self._reporter.edge(service)
        self._waker.kick()

    async def _prune(self) -> None:
        while True:
            await asyncio.sleep(5.0)
            self._engines.prune()

    async def _watch_orphaned(self) -> None:
        await self.link.orphaned(ORPHAN_S)
        self.door.stop_waiting()
        await asyncio.sleep(30.0)
        self.process.kill()


class UpBox:
    """The `up` process: the real Controller and Facade."""

    def __init__(self, machine: "Machine", number: int) -> None:
        self.process = Process("up", number)
        self._machine = machine
        self.said: list[str] = []
        self.process.context().run(self._make)

    def _make(self) -> None:
        machine = self._machine
        metrics, feed = Metrics("0"), RouteFeed()
        self.controller = Controller(
            host=HostClient(machine),
            history=machine.history,
            metrics=metrics,
            feed=feed,
            clock=machine.clock,
            lease=Lease(seconds=LEASE_S, events_socket=CONTROLLER),
            report=self.said.append,
        )
        self.controller.take_services(machine.files)
        self.facade = Facade(
            controller=self.controller,
            history=machine.history,
            metrics=metrics,
            clock=machine.clock,
            portal_metrics=_no_metrics,
        )
        machine.sockets.listen(CONTROLLER, self.process, self._take, feed.subscribe)
        for work in (self.controller.run(), self.controller.keep_lease()):
            machine.loop.begin(self.process, work)
        for work in (self._keep_host(), self._keep_portal()):
            machine.loop.begin(self.process, work)

    def _take(self, _method: str, path: str, body: bytes) -> bytes:
        if path == "/v1/internal/portal":
            self.controller.portal_reported(PortalReport.model_validate_json(body))
        else:
            self.controller.host_changed(HostEvents.model_validate_json(body))
        return b""

    async def _keep_host(self) -> None:
        machine = self._machine
        while True:
            await machine.death_of(machine.host.process)
            await asyncio.sleep(machine.random.uniform(0.2, 2.0))
            machine.begin_host()
            self.controller.wake()

    async def _keep_portal(self) -> None:
        machine = self._machine
        while True:
            await machine.death_of(machine.portal.process)
            await asyncio.sleep(machine.random.uniform(0.2, 2.0))
            machine.begin_portal()


def _set(dead: "asyncio.Future[None]") -> None:
    if not dead.done():
        dead.set_result(None)


def _ignore(_: ServiceOrder) -> None:
    return None


async def _no_metrics() -> None:
    return None


class Machine:
    """Everything together. `files`: the services that the user's files name now."""

    def __init__(
        self, loop: VirtualLoop, random: Random, engines: Engines, sockets: Sockets,
        files: Mapping[ServiceId, LocalService],
    ) -> None:  # fmt: skip
        self.loop, self.random, self.engines = loop, random, engines
        self.sockets, self.wire = sockets, sockets.wire
        self.files = dict(files)
        self.history = History(Path(":memory:"), self.clock)
        self.on_order: Callable[[ServiceOrder], None] = _ignore
        self._number = 0
        self.ups_begun_s: list[float] = []
        self.begin_host()
        self.begin_up()
        self.begin_portal()

    def clock(self) -> datetime:
        """The wall clock."""
        return BEGIN + timedelta(seconds=self.loop.now_s)

    def begin_host(self) -> None:
        """Begin a host; the one before is dead."""
        self._number += 1
        self.host = HostBox(self, self._number)

    def begin_portal(self) -> None:
        """Begin a portal; the one before is dead."""
        self._number += 1
        self.portal = PortalBox(self, self._number)

    def begin_up(self) -> None:
        """Begin `up`; the one before is dead."""
        self._number += 1
        self.ups_begun_s.append(self.loop.now_s)
        self.up = UpBox(self, self._number)

    async def death_of(self, process: Process) -> None:
        """Return when it is dead."""
        if process.alive:
            dead: asyncio.Future[None] = self.loop.create_future()
            process.on_death.append(lambda: _set(dead))
            await dead

    def engines_of(self, host: Process) -> list[Engine]:
        """Living engines of a host."""
        return [engine for engine in self.engines.all if engine.alive and engine.host is host]

    def edit(self, files: Mapping[ServiceId, LocalService]) -> None:
        """The user saves the files; an `up` that lives reads them a moment later."""
        self.files = dict(files)
        up = self.up
        if up.process.alive:
            self.loop.call_later(
                self.random.uniform(0.05, 0.4),
                lambda: up.controller.take_services(self.files),
                context=up.process.context(),
            )
