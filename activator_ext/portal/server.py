"""The portal as a whole: listeners, the controller's stream, the reports; its begin and its orderly end."""

import asyncio
import contextlib
import logging
import os
import secrets
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from aiohttp import web

from activator_ext.portal import exchange
from activator_ext.portal.admin import admin_app, bind_loopback, bind_unix
from activator_ext.portal.clock import Clock
from activator_ext.portal.door import Door
from activator_ext.portal.engines import Engines
from activator_ext.portal.limits import Limits, Pace
from activator_ext.portal.public import PublicFace
from activator_ext.portal.reporter import Reporter
from activator_ext.portal.sources import Link, RouteFeed
from activator_ext.portal.waker import Waker

log = logging.getLogger(__name__)

# A started answer whose handler has ended still has its last bytes to hand over.
_FLUSH_S = 0.5


@dataclass(frozen=True, slots=True)
class Options:
    """The command line.

    `drain_s`: how long running requests may go on after a stop. `orphan_s`: how long the portal serves its last table
    without a controller before it stops by itself.
    """

    host: str
    port: int
    controller: Path
    admin: Path
    drain_s: float = 60.0
    orphan_s: float = 60.0
    limits: Limits = field(default_factory=Limits)


class Portal:
    """One portal. `run` serves until it is stopped or orphaned; `listen` is where, once it serves."""

    def __init__(
        self, options: Options, limits: Limits | None = None, pace: Pace | None = None, clock: Clock | None = None
    ) -> None:
        pace = pace or Pace()
        self.id = f"portal-{secrets.token_hex(4)}"
        self.listen = ""
        self.door = Door(limits or options.limits, clock or Clock())
        self.link = Link()
        self.serving = asyncio.Event()
        self._options = options
        self._stop = asyncio.Event()
        self._cut = asyncio.Event()
        self._feed = RouteFeed(self.door, self.link, options.controller, pace)
        self._reporter = Reporter(self.door, self.link, options.controller, pace, self.id)
        self._waker = Waker(self.door, self.link, pace)
        self.door.loads.on_edge = self._on_edge

    def stop(self) -> None:
        """Drain, then let `run` return; asked a second time, running requests are cut off at once."""
        if self._stop.is_set():
            self._cut.set()
        self._stop.set()

    def health(self) -> dict[str, object]:
        """What `/healthz` says."""
        return {
            "portal": self.id,
            "pid": os.getpid(),
            "listen": self.listen,
            "version": _version(),
            "compiled": not (exchange.__file__ or "").endswith(".py"),
            "table_version": self.door.table.version,
            "controller_connected": self.link.connected,
            "stopping": self.door.stopping,
        }

    async def run(self) -> None:
        """Serve, then drain; raises AddressTaken, and whatever ended one of its tasks unexpectedly."""
        # Bound before the admin socket is there: whoever sees that one can rely on `listen`.
        listener = bind_loopback(self._options.host, self._options.port)
        host, port, *_ = listener.getsockname()
        self.listen = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        with listener:
            await self._run(listener)
        log.info("%s ended", self.id)

    async def _run(self, listener: socket.socket) -> None:
        engines = Engines(self.door.limits.connect_s, self.door.clock.elapsed_s)
        public = PublicFace(self.door, engines)
        try:
            async with self._admin(), self._tasks(public) as tasks:
                await public.begin(listener)
                self.serving.set()
                log.info("%s listens on %s", self.id, self.listen)
                ended = await self._until_stop(tasks)
                public.accept_no_more()
                await self._drain(public)
                for task in ended:
                    task.result()
        finally:
            public.cut()
            engines.close()

    async def _until_stop(self, tasks: list[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
        """Until a stop is asked for or the controller is gone for too long; else the tasks that failed."""
        asked = asyncio.create_task(_wait(self._stop))
        orphaned = asyncio.create_task(self.link.orphaned(self._options.orphan_s))
        try:
            done, _ = await asyncio.wait({asked, orphaned, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
            orphaned.cancel()
        if orphaned in done:
            log.warning("no controller for %g s: draining", self._options.orphan_s)
        return done - {asked, orphaned}

    async def _drain(self, public: PublicFace) -> None:
        self.door.stop_waiting()
        cut, idle = asyncio.create_task(_wait(self._cut)), asyncio.create_task(public.idle())
        done, pending = await asyncio.wait(
            {cut, idle}, timeout=self._options.drain_s, return_when=asyncio.FIRST_COMPLETED
        )
        for task in pending:
            task.cancel()
        if idle not in done:
            log.warning("requests still running are cut off")

    @contextlib.asynccontextmanager
    async def _admin(self) -> AsyncIterator[None]:
        listener = bind_unix(self._options.admin)
        app = admin_app(self.health, lambda: self.door.metrics.render(self.door.loads, self.door.table), self.stop)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=_FLUSH_S)
        try:
            await runner.setup()
            await web.SockSite(runner, listener).start()
            yield
        finally:
            await runner.cleanup()
            listener.close()
            self._options.admin.unlink(missing_ok=True)

    @contextlib.asynccontextmanager
    async def _tasks(self, public: PublicFace) -> AsyncIterator[list[asyncio.Task[None]]]:
        """The conversations with controller and hosts, and the look at slow clients; they go on while it drains."""
        tasks = [asyncio.create_task(each.run()) for each in (self._feed, self._reporter, self._waker)]
        tasks.append(asyncio.create_task(public.look()))
        try:
            yield tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def _on_edge(self, service: str) -> None:
        self._reporter.edge(service)
        self._waker.kick()


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


def _version() -> str:
    try:
        return version("pilotlight")
    except PackageNotFoundError:
        return "unknown"
