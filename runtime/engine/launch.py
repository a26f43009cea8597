"""T4: an engine process from a spec, forked from a process that has imported vLLM where that can be, else spawned."""

import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from runtime.cache.shelf import Shelf
from runtime.cache.start_cache import StartCache
from runtime.contract import EngineSpec, FailureCause, StartKind
from runtime.engine.argv import LOOPBACK, Tracing, command_line, engine_arguments, environment, import_environment
from runtime.engine.cache_kind import cache_kind
from runtime.engine.dirs import EngineDirs
from runtime.engine.fork.client import NoForkError
from runtime.engine.fork.pool import ForkPool
from runtime.engine.process import EngineProcess, Leader, LineCallback
from runtime.engine.snapshot.hosted import Snapshots
from runtime.ready.fault import Fault
from runtime.ready.gate_control import GateControl
from runtime.ready.gate_credential import GATE_ENV, HeldCredential
from runtime.ready.gate_seal_env import SNAPSHOT_ENV
from runtime.weights.integrity import is_url

BACKLOG = 2048
"""uvicorn's own, for an engine that is given a socket which listens already."""


@dataclass(frozen=True, slots=True)
class Launched:
    """A process begun. `spawned_because` says why it is no fork; None for a fork and where no fork was asked for."""

    process: EngineProcess
    gate: GateControl
    forked: bool = False
    spawned_because: str | None = None


@dataclass(frozen=True, slots=True)
class Listen:
    """The one address and port of an engine that clients reach without a portal."""

    address: str
    port: int

    @property
    def near_url(self) -> str:
        """How its host asks it: an address for all interfaces is one for loopback, too."""
        near = {"0.0.0.0": LOOPBACK, "::": "::1"}.get(self.address, self.address)  # noqa: S104  (compared, not bound)
        return f"http://[{near}]:{self.port}" if ":" in near else f"http://{near}:{self.port}"

    def bound(self) -> socket.socket:
        """A socket that listens there; port 0 takes one that is free. Raises OSError."""
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self.address, self.port))
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
        return listener


@dataclass(frozen=True, slots=True)
class Launcher:
    """How this host makes engines: `command` replaces vLLM's own (tests); `forks` None: engines are spawned.

    `shelf`: where compiled code is found and left; None: each replica keeps its own, and nothing is judged.
    `measured`: the file in which `pilotlight weights bench` remembers what it measured on this node.
    `listen`: where the only engine of a host listens; None: each at a free port of loopback.
    `snapshots`: the images that an engine may come from; None: none ever does. `for_image`: each engine is begun so
    that an image of it can be made.
    """

    command: tuple[str, ...] | None = None
    forks: ForkPool | None = None
    shelf: Shelf | None = None
    measured: Path | None = None
    listen: Listen | None = None
    snapshots: Snapshots | None = None
    for_image: bool = False

    def kind(self, spec: EngineSpec, dirs: EngineDirs, no_fork: str | None = None) -> StartKind:
        """From where a start now would begin, as far as its replica's own directory and the images tell."""
        if self.snapshots is not None and self.snapshots.promising(spec):
            return StartKind.SNAPSHOT
        return self.kind_anew(spec, dirs, no_fork)

    def kind_anew(self, spec: EngineSpec, dirs: EngineDirs, no_fork: str | None = None) -> StartKind:
        """From where it begins without an image, as far as its replica's own directory tells."""
        return self.kind_with(spec, cached=cache_kind(dirs, spec) is StartKind.CACHED_NODE, no_fork=no_fork)

    def kind_with(self, spec: EngineSpec, *, cached: bool, no_fork: str | None) -> StartKind:
        """From where it begins, `cached`: with compiled code. A fork that has all to compile is a cold node's start."""
        if not cached:
            return StartKind.COLD_NODE
        forked = self.forks is not None and no_fork is None and self.forks.imported(spec.service)
        return StartKind.FORK if forked else StartKind.CACHED_NODE

    async def find_cache(
        self,
        spec: EngineSpec,
        dirs: EngineDirs,
        *,
        awaited: Callable[[], bool | None] = lambda: None,
        told: Callable[[str], None] = lambda _: None,
    ) -> StartCache | None:
        """The compile cache of a start, with what was found for it; None where nobody keeps any.

        `awaited`: whether a request waits for the start now (None: nobody can tell); `told` hears of its waiting for a
        bundle that another start makes.
        """
        if self.shelf is None:
            return None
        try:
            environ, arguments = import_environment(spec, os.environ), engine_arguments(spec, 1, None)
        except ValueError:  # what no engine may have: the launch says so
            return None
        return await self.shelf.begin(spec, environ, arguments[2:], dirs.cache, awaited=awaited, told=told)

    def want(self, spec: EngineSpec) -> None:
        """Have imports done for engines of this spec before one is wanted; returns at once."""
        if self.forks is not None:
            with contextlib.suppress(ValueError):  # an environment that no engine may have: the start says so
                self.forks.want(spec.service, spec.platform, import_environment(spec, os.environ))

    def drop(self, service: str) -> None:
        """No engine of `service` will be wanted any more."""
        if self.forks is not None:
            self.forks.drop(service)

    async def launch(
        self,
        spec: EngineSpec,
        dirs: EngineDirs,
        tracing: Tracing | None,
        credential: HeldCredential,
        *,
        on_line: LineCallback,
        clock: Callable[[], datetime],
        caches: Mapping[str, str] | None = None,
        no_fork: str | None = None,
    ) -> Launched:
        """Begin the engine, whose gate reads `credential`; `caches`: where its caches lie; `no_fork`: why no fork.

        Raises Fault (BAD_ARGUMENTS, SPAWN_FAILED).
        """
        try:
            listen = self.listen or Listen(LOOPBACK, _free_port())
            if not is_url(spec.model):
                dirs.link_model(Path(spec.model))
            env = environment(spec, dirs, os.environ, os.getpid(), tracing, caches) | {GATE_ENV: credential.path}
            env |= {SNAPSHOT_ENV: "1"} if self.for_image else {}
            arguments = engine_arguments(spec, listen.port, tracing, listen.address)
            gate = GateControl(listen.near_url, credential.value)
            if (forks := self.forks) is not None and no_fork is None:

                def fork(output: int) -> Awaitable[Leader]:
                    return forks.fork(spec.service, arguments, env=env, cwd=str(dirs.run), output=output)

                try:
                    forked = await EngineProcess.fork(fork, log=dirs.log, on_line=on_line, clock=clock)
                    return Launched(forked, gate, forked=True)
                except NoForkError as error:
                    no_fork = str(error)
            process = await EngineProcess.spawn(
                command_line(spec, listen.port, tracing, self.command, listen.address),
                env=env,
                cwd=dirs.run,
                log=dirs.log,
                on_line=on_line,
                clock=clock,
            )
        except ValueError as error:
            message = f"the engine cannot be started: {error}"
            raise Fault(FailureCause.BAD_ARGUMENTS, message, permanent=True) from error
        except OSError as error:
            raise Fault(FailureCause.SPAWN_FAILED, f"the engine cannot be started: {error}") from error
        return Launched(process, gate, spawned_because=no_fork)


def _free_port() -> int:
    """A loopback port that is free now.

    Should another process take it first, the start fails (PORT_TAKEN), and the next one takes another.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
