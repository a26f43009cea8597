"""`python -m runtime.host`: one host process, alive as long as its lease is renewed."""

import argparse
import asyncio
import contextlib
import os
import secrets
import shlex
import signal
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

from aiohttp import web

from runtime.cache.faults import BundleFault
from runtime.cache.shelf import Shelf
from runtime.cache.stores.base import BadStoreUrl
from runtime.cache.trust import TrustPolicy
from runtime.contract import Lease, StageEvent
from runtime.engine.fork.pool import ForkPool
from runtime.engine.launch import Launcher
from runtime.engine.snapshot.criu import NoCriuError, find_criu
from runtime.engine.snapshot.hosted import Snapshots
from runtime.engine.snapshot.images import IMAGES, Images
from runtime.engine.spans import SpanReceiver
from runtime.host.poster import Poster
from runtime.host.server import AdminApi
from runtime.host.supervisor import Supervisor
from runtime.weights.winners import WINNERS


def _now() -> datetime:
    return datetime.now(UTC)


class Host:
    """Binds supervisor, admin API, span receiver, poster and lease into one process."""

    def __init__(self, *, socket: Path, root: Path, lease_s: float, launcher: Launcher) -> None:
        self._socket = socket
        self._launcher = launcher
        self._ended = asyncio.Event()
        self._drain_s = 60.0
        self._lease_changed = asyncio.Event()
        self._spans = SpanReceiver()
        # New in each host process, so that ids of starts (host-generation) are never used twice.
        name = f"{os.uname().nodename.split('.')[0][:24]}-{secrets.token_hex(3)}"
        self._poster = Poster(name, lambda: self._supervisor.view().revision)
        self._supervisor = Supervisor(
            host=name,
            version=version("pilotlight"),
            root=root,
            spans=self._spans,
            clock=_now,
            on_change=self._poster.changed,
            on_stage=self._stage,
            launcher=launcher,
        )
        self._renew(Lease(seconds=lease_s))

    async def run(self) -> None:
        """Serve until the lease ends, a stop is asked for or a signal comes; then drain everything."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            loop.add_signal_handler(number, self._stop, 60.0)
        await self._spans.start()
        runner = web.AppRunner(AdminApi(self._supervisor, renew=self._renew, stop=self._stop).app(), access_log=None)
        await runner.setup()
        await _listen(runner, self._socket)
        background = [asyncio.create_task(self._poster.run()), asyncio.create_task(self._watch_lease())]
        _print(f"host listens on {self._socket.name}")
        try:
            await self._ended.wait()
            await self._supervisor.stop(self._drain_s)
            if self._launcher.forks is not None:
                await self._launcher.forks.close()
            if self._launcher.shelf is not None:
                await self._launcher.shelf.close()
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await runner.cleanup()
            await self._spans.close()
            self._socket.unlink(missing_ok=True)

    def _renew(self, lease: Lease) -> None:
        self._supervisor.lease_until = _now() + timedelta(seconds=lease.seconds)
        self._poster.socket = lease.events_socket or self._poster.socket
        self._lease_s = lease.seconds
        self._lease_changed.set()

    async def _watch_lease(self) -> None:
        """Timed by the loop's monotonic clock: a wall clock that is set back or forth neither ends nor extends it."""
        while True:
            self._lease_changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._lease_s):
                    await self._lease_changed.wait()
                continue
            _print("no controller renewed the lease: draining and stopping")
            self._stop(60.0)
            return

    def _stop(self, drain_s: float) -> None:
        self._drain_s = drain_s
        self._ended.set()

    def _stage(self, event: StageEvent) -> None:
        _print(event.model_dump_json(exclude_none=True))
        self._poster.stage(event)


def _print(line: str) -> None:
    """A line to the log, lost on a full disk: no start may fail because it cannot be told of."""
    with contextlib.suppress(OSError):
        os.write(1, f"{line}\n".encode())


async def _listen(runner: web.AppRunner, socket: Path) -> None:
    """Listen on the unix socket, mode 0600 from its first moment."""
    socket.unlink(missing_ok=True)
    mask = os.umask(0o177)
    try:
        await web.UnixSite(runner, str(socket)).start()
    finally:
        os.umask(mask)


def main() -> None:
    """Read the command line and run one host."""
    parser = argparse.ArgumentParser(prog="python -m runtime.host", description=__doc__)
    parser.add_argument("--socket", type=Path, required=True, help="unix socket of the admin API")
    parser.add_argument("--root", type=Path, required=True, help="directory for caches and logs of the engines")
    parser.add_argument("--lease-s", type=float, default=60.0, help="first lease; a controller renews it")
    parser.add_argument("--engine-command", help="argv prefix in place of the real engine (tests)")
    parser.add_argument("--no-fork", dest="fork", action="store_false", help="spawn each engine, which imports anew")
    parser.add_argument("--store", metavar="URL", action="append", default=[], help="take bundles from there, too")
    parser.add_argument("--publish-to", metavar="URL", help="put bundles of what was compiled there, too")
    parser.add_argument("--trust", metavar="FILE", type=Path, help="whose bundles are taken; else this host's own only")
    parser.add_argument("--snapshot", action="store_true", help="take engines from images of them (CRIU, as root)")
    args = parser.parse_args()
    try:
        launcher = _launcher(args)
    except (
        BadStoreUrl,
        BundleFault,
        NoCriuError,
        OSError,
    ) as error:  # what was given is wrong: that is no reason for a traceback
        parser.exit(2, f"error: {error}\n")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(Host(socket=args.socket, root=args.root, lease_s=args.lease_s, launcher=launcher).run())


def _launcher(args: argparse.Namespace) -> Launcher:
    command = tuple(shlex.split(args.engine_command)) if args.engine_command else None
    snapshots = Snapshots(Images(args.root / IMAGES), find_criu(os.environ), _now) if args.snapshot else None
    if snapshots is not None:
        snapshots.sweep()
    if command is not None:  # what stands in for vLLM imports and compiles nothing
        return Launcher(command, snapshots=snapshots)
    shelf = Shelf(
        args.root / ".shelf",
        clock=_now,
        version=version("pilotlight"),
        stores=args.store,
        publish_to=args.publish_to,
        policy=TrustPolicy.load(args.trust) if args.trust else None,
    )
    # The root of engines lies in the state directory, in which `pilotlight weights bench` remembers.
    return Launcher(
        forks=ForkPool() if args.fork else None, shelf=shelf, measured=args.root.parent / WINNERS, snapshots=snapshots
    )


if __name__ == "__main__":
    main()
