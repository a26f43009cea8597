"""`pilotlight up`: local mode, wired. Controller here, one portal and one host beside it, engines under the host."""

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from activator_ext.adapters.history import History, HistoryError
from activator_ext.adapters.hosts import HostClient, HostUnreachable
from activator_ext.adapters.local.manifests import Loaded, load
from activator_ext.adapters.portals import PortalClient
from activator_ext.app.api import build_api
from activator_ext.app.child import Child, ChildFailed
from activator_ext.app.clock_watch import ClockWatch
from activator_ext.app.controller import Controller
from activator_ext.app.facade import Facade
from activator_ext.app.files import Files, platform_of
from activator_ext.app.host_options import HostOptions, host_argv
from activator_ext.app.internal import build_internal
from activator_ext.app.logs import bound
from activator_ext.app.machine import LoopFaults, MachineUnfit, raise_file_limit
from activator_ext.app.metrics import Metrics
from activator_ext.app.routes import RouteFeed
from activator_ext.app.servers import AddressTaken, Server, address_of, bind_tcp, bind_unix, loopback
from activator_ext.app.state_dir import StateDir, StateDirBusy
from activator_ext.app.streams import tell
from activator_ext.core.visible import visible_lines
from runtime.contract import Lease

VERSION = version("pilotlight")
# Running answers may take this long to finish after Ctrl-C or SIGTERM; a second signal does not wait.
DRAIN_S = 60.0
# How often the host and the portal are looked at; one that ends is noticed at once.
LOOK_S = 5.0


def now() -> datetime:
    """The wall clock, aware, UTC."""
    return datetime.now(UTC)


def up(
    files: list[Path],
    *,
    state: Path,
    listen: str,
    api_listen: str,
    volumes: dict[str, Path],
    platform: str,
    host_options: HostOptions,
    engine_command: str | None = None,
) -> int:
    """Serve the files until Ctrl-C or SIGTERM. 0: stopped in order; 1: something was wrong with files or machine."""
    chosen = platform_of(platform)
    loaded = load(files, volumes, chosen)
    if not loaded.ok:
        for finding in loaded.findings:
            say(str(finding))
        say("nothing was started: mend the errors above (`pilotlight check FILES…` shows them again)")
        return 1
    directory = StateDir(state)
    try:
        files_allowed = raise_file_limit()
        directory.acquire()
    except (MachineUnfit, StateDirBusy) as error:
        say(f"error: {error}")
        return 1
    try:
        made = _Up(directory, files, listen, api_listen, volumes, chosen, host_options, engine_command)
        return asyncio.run(made.run(loaded, LoopFaults(say, files_allowed)))
    except (AddressTaken, ChildFailed, HistoryError, StateDirBusy) as error:
        say(f"error: {error}")
        return 1
    finally:
        directory.release()


def say(text: str) -> None:
    """One line to whoever watches this process."""
    tell(f"{datetime.now().astimezone():%H:%M:%S} {visible_lines(text)}")


class _Up:
    """One run of `up`: begins everything in order, waits for a signal, ends everything in the opposite order."""

    def __init__(
        self,
        directory: StateDir,
        files: list[Path],
        listen: str,
        api_listen: str,
        volumes: dict[str, Path],
        platform: Literal["cpu", "cuda"],
        host_options: HostOptions,
        engine_command: str | None,
    ) -> None:
        self._directory = directory
        host, port = loopback(listen, "--listen")
        self._listen = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if port and (host, port) == loopback(api_listen, "--api-listen"):
            raise AddressTaken(f"--listen and --api-listen are both {self._listen}: give each a port of its own")
        self._portal_child = Child(
            "portal",
            _portal_argv(directory, self._listen),
            log=directory.logs / "portal.log",
            socket=directory.portal_socket,
        )
        if not self._portal_child.listens():
            # Asked before anything is begun or adopted: an engine that an `up` left is not ended for a taken port.
            bind_tcp(self._listen, "--listen").close()
        self._stopped = asyncio.Event()
        self._hurried = asyncio.Event()
        self._api_socket = bind_tcp(api_listen, "--api-listen")
        self._history = History(directory.database, now)
        self._host = HostClient(str(directory.host_socket))
        self._portal = PortalClient(str(directory.portal_socket))
        self._feed = RouteFeed()
        metrics = Metrics(VERSION)
        self._clock_watch = ClockWatch(now, time.monotonic)
        self._controller = Controller(
            host=self._host,
            history=self._history,
            metrics=metrics,
            feed=self._feed,
            clock=now,
            lease=Lease(events_socket=str(directory.controller_socket)),
            report=say,
            clock_step_s=self._clock_watch.step_s,
        )
        self._files = Files(
            files,
            volumes,
            platform,
            changed=self._controller.take_services,
            report=lambda text: self._controller.say(None, "files", text),
        )
        facade = Facade(
            controller=self._controller,
            history=self._history,
            metrics=metrics,
            clock=now,
            portal_metrics=self._portal.metrics,
        )
        self._servers = [
            Server(build_internal(self._feed, self._controller), bind_unix(directory.controller_socket)),
            Server(build_api(facade, directory.token(), VERSION), self._api_socket),
        ]
        self._host_child = Child(
            "host",
            host_argv(directory, host_options, engine_command),
            log=directory.logs / "host.log",
            socket=directory.host_socket,
        )

    async def run(self, loaded: Loaded, faults: LoopFaults) -> int:
        """Begin with what was read of the files, serve, end."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(faults)
        # A shell starts background jobs with SIGINT ignored, and `kill -INT` must end them all the same; of a SIGHUP
        # that is ignored, nohup meant it.
        numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        for number in numbers:
            loop.add_signal_handler(number, self._signalled)
        if self._history.notice is not None:
            say(self._history.notice)
        self._files.take(loaded)
        tasks: list[asyncio.Task[None]] = []
        try:
            for server in self._servers:
                await server.begin()
            await self._begin_children()
            tasks = [asyncio.create_task(job) for job in self._jobs()]
            await self._tell()
            stop = asyncio.create_task(self._stopped.wait())
            done, _ = await asyncio.wait([stop, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stop}:
                task.result()  # a job only ends by an error, which is shown as it is
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._end()
        say("stopped; nothing runs any more")
        return 0

    def _jobs(self) -> list[Coroutine[Any, Any, None]]:
        return [
            self._controller.run(),
            self._controller.keep_lease(),
            self._watch_clock(),
            self._files.watch(),
            self._keep(self._host_child),
            self._keep(self._portal_child),
        ]

    async def _watch_clock(self) -> None:
        """A step moves every announced minute, so the sleep until the next one is over."""
        while True:
            await asyncio.sleep(LOOK_S)
            if self._clock_watch.moved():
                self._controller.wake()

    async def _begin_children(self) -> None:
        """Adopt what an `up` that died has left, if it is of this version and address; else begin anew."""
        for child in (self._host_child, self._portal_child):
            if child.stopped():
                say(f"the {child.name} of an earlier `up` is stopped by a signal: it is ended and begun anew")
                await child.kill()
        health = await self._portal.health()
        if health is not None and (health.version != VERSION or health.listen != self._listen):
            await self._portal.stop()
            await self._portal_child.wait_gone(DRAIN_S)
        with contextlib.suppress(HostUnreachable):
            view = await self._host.view()
            otherwise = self._host_child.begun_otherwise()
            if otherwise and not view.stopping:
                say("the host of an earlier `up` was begun with other options: it is ended and begun anew")
            if view.version != VERSION or view.stopping or otherwise:
                if not view.stopping:
                    await self._host.stop(DRAIN_S)
                await self._host_child.wait_gone(DRAIN_S)
        for child, answers in ((self._host_child, self._host_answers), (self._portal_child, self._portal_answers)):
            await child.ensure()
            if child.adopted and not await answers():
                say(f"the {child.name} of an earlier `up` does not answer: it is ended and begun anew")
                await child.kill()
                await child.ensure()
            if child.adopted:
                say(f"the {child.name} of an earlier `up` still lives and goes on serving")

    async def _host_answers(self) -> bool:
        with contextlib.suppress(HostUnreachable):
            return bool(await self._host.view())
        return False

    async def _portal_answers(self) -> bool:
        return await self._portal.health() is not None

    async def _keep(self, child: Child) -> None:
        """Replace the child whenever it ends, or does not run any more."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await child.ended()
            with contextlib.suppress(OSError):  # a disk that fails tells of itself elsewhere
                bound(self._directory.logs / f"{child.name}.log")
            try:
                what = child.standstill()
                if what is not None:
                    await child.kill()
                if await child.ensure():
                    text = f"the {child.name} {what or 'had ended'} and was begun again"
                    self._controller.say(None, child.name, text)
                    self._controller.wake()
            except ChildFailed as error:
                say(f"error: {error}")
                await asyncio.sleep(LOOK_S)

    async def _tell(self) -> None:
        """Publish where we listen and greet."""
        health = await self._portal.health()
        portal_url = f"http://{health.listen if health is not None else self._listen}"
        url = address_of(self._api_socket)
        self._directory.publish(url=url, portal_url=portal_url)
        services = ", ".join(str(service) for service in sorted(self._controller.world.services)) or "no service yet"
        say(f"requests {portal_url}/v1 · API {url}/docs · state {self._directory.root}")
        say(f"serving {services}; Ctrl-C stops")

    def _signalled(self) -> None:
        if self._stopped.is_set():
            self._hurried.set()
        else:
            say(f"stopping: running answers have {DRAIN_S:.0f} s to finish; once more to stop at once")
        self._stopped.set()

    async def _end(self) -> None:
        """Portal first (it lets running answers finish), then host and engines, then our own servers."""
        await self._drain(self._portal_child, self._portal.stop)
        await self._drain(self._host_child, self._stop_host)
        self._feed.close()
        for server in self._servers:
            await server.end()
        await self._host.close()
        await self._portal.close()
        self._history.close()
        self._directory.controller_socket.unlink(missing_ok=True)

    async def _drain(self, child: Child, stop: Callable[[], Awaitable[bool]]) -> None:
        if not await stop():
            await child.kill()
            return
        gone = asyncio.create_task(child.wait_gone(DRAIN_S + 10.0))
        hurried = asyncio.create_task(self._hurried.wait())
        await asyncio.wait({gone, hurried}, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if not gone.done() or not gone.result():
            gone.cancel()
            # The kernel ends the engines with their host (parent-death signal).
            await child.kill()

    async def _stop_host(self) -> bool:
        with contextlib.suppress(HostUnreachable):
            # The portal has let running answers finish; what still runs in an engine has no client any more.
            await self._host.stop(5.0)
            return True
        return False


def _portal_argv(directory: StateDir, listen: str) -> list[str]:
    argv = [sys.executable, "-m", "activator_ext.portal", "--listen", listen]
    argv += ["--controller", str(directory.controller_socket), "--admin", str(directory.portal_socket)]
    return [*argv, "--drain-s", str(DRAIN_S)]
