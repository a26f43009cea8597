"""Engines that lie as real ones do, and the truth about them.

`EngineProcess` takes the place of `runtime.engine.process.EngineProcess` under the real `EngineStart`; what the host
asks over HTTP (`/health`, the golden prompt, `/metrics`) and what the portal sends arrives at the same `Engine`.
"""

import asyncio
import hashlib
import signal
from collections.abc import Callable, Mapping
from contextvars import Context
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from random import Random

from runtime.engine.vitals import Vitals
from tests.races.virtual_loop import PROCESS, Process, VirtualLoop
from tests.races.ways import Ways

GOLDEN = (7, 11, 13)
FIRST_PID = 1000
_LINES = (
    (0.1, "(EngineCore pid=1) INFO 01-01 00:00:00 [fake.py:1] Initializing a V1 LLM engine (v0.32.0) with config: …"),
    (0.3, "(Worker pid=1) INFO 01-01 00:00:00 [fake.py:1] Starting to load model …"),
    (0.6, "(Worker pid=1) INFO 01-01 00:00:00 [fake.py:1] Warming up model for the compilation..."),
)
_SERVER_UP = "INFO:     Application startup complete."
_TERM_S = 0.3


@dataclass
class Engine:
    """The truth about one engine."""

    pid: int
    url: str
    service: str
    ordinal: int
    generation: int
    names: tuple[str, ...]
    ways: Ways
    host: Process
    born_s: float
    declared: bool
    goldens: int = 0
    """Golden answers that it gave as these weights must."""
    proven_s: float | None = None
    admitted_s: float | None = None
    terminated_s: float | None = None
    told_s: float | None = None
    """Since when its host means it to end (drains it)."""
    ended_s: float | None = None
    returncode: int | None = None
    running: int = 0
    killed: bool = False
    """Ended from outside, not by its own ways."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    warm: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def alive(self) -> bool:
        return self.returncode is None

    def frozen(self, now_s: float) -> bool:
        """Whether it does nothing any more."""
        freezes_s = self.ways.freezes_s
        return freezes_s is not None and self.proven_s is not None and now_s > self.proven_s + freezes_s

    def listens(self, now_s: float) -> bool:
        """Whether its port takes connections."""
        early = self.ways.listens_s is not None and now_s >= self.born_s + self.ways.listens_s
        return self.alive and not self.ways.hangs and (early or self.warm.is_set())


class Engines:
    """Every engine there ever was on the simulated machine, and how to start one."""

    def __init__(self, loop: VirtualLoop, random: Random, draw: Callable[[], Ways]) -> None:
        self.all: list[Engine] = []
        self.on_spawn: Callable[[Engine], None] = lambda _: None
        self.on_asked: Callable[[int, Engine], None] = lambda _number, _engine: None
        self._loop, self._random, self._draw = loop, random, draw

    def alive(self, service: str) -> list[Engine]:
        """The living ones of a service."""
        return [engine for engine in self.all if engine.alive and engine.service == service]

    def at(self, url: str) -> Engine | None:
        """Who answers at `url` now."""
        return next((engine for engine in reversed(self.all) if engine.alive and engine.url == url), None)

    def free_port(self) -> int:
        """From a small range, so that numbers come again soon, as they do to the unlucky."""
        taken = {engine.url for engine in self.all if engine.alive}
        return self._random.choice([p for p in range(40000, 40040) if f"http://127.0.0.1:{p}" not in taken])

    def kill_of(self, host: Process) -> None:
        """The kernel ends a dead host's engines."""
        for engine in self.all:
            if engine.alive and engine.host is host:
                self.end(engine, -signal.SIGKILL)

    def end(self, engine: Engine, returncode: int) -> None:
        """It is gone."""
        if engine.alive:
            engine.returncode, engine.ended_s = returncode, self._loop.now_s
            engine.over.set()

    def delay_s(self) -> float:
        """How long a piece takes on loopback."""
        return self._random.expovariate(1 / 0.001)

    def chance(self, share: float) -> bool:
        """Whether something of that probability happens now."""
        return bool(share) and self._random.random() < share

    def takes_s(self, engine: Engine) -> float:
        """How long one answer takes."""
        return self._random.uniform(0.2, 1.8) * engine.ways.answer_s

    def process_class(self) -> type:
        """A stand-in for `EngineProcess`."""
        engines = self

        class EngineProcess:
            def __init__(self, engine: Engine) -> None:
                self._engine = engine
                self.pid = engine.pid
                self.tail = ("RuntimeError: the simulated engine was told to end",)

            @classmethod
            async def spawn(
                cls, argv: tuple[str, ...], *, env: Mapping[str, str], cwd: Path, log: Path,
                on_line: Callable[[datetime, str], None], clock: Callable[[], datetime],
            ) -> "EngineProcess":  # fmt: skip
                return cls(engines.spawn(argv, cwd, on_line, clock))

            @property
            def returncode(self) -> int | None:
                return self._engine.returncode

            async def wait(self) -> int:
                await self._engine.over.wait()
                assert self._engine.returncode is not None
                return self._engine.returncode

            def terminate(self) -> None:
                engines.terminate(self._engine)

            def kill(self) -> None:
                if self._engine.alive:
                    self._engine.told_s = self._engine.told_s or engines.now_s
                    engines.end(self._engine, -signal.SIGKILL)

            async def clear(self) -> None:
                await self._engine.over.wait()

        return EngineProcess

    @property
    def now_s(self) -> float:
        return self._loop.now_s

    def spawn(
        self, argv: tuple[str, ...], cwd: Path, on_line: Callable[[datetime, str], None], clock: Callable[[], datetime]
    ) -> Engine:
        """A new engine, as the host's argv and directory name it."""
        names = _names(argv)
        namespace, name, ordinal = cwd.parts[-4:-1]
        generation = int(next(arg for arg in argv if arg.startswith("--gen=")).removeprefix("--gen="))
        ways = self._draw()
        engine = Engine(
            pid=FIRST_PID + len(self.all),
            url=f"http://127.0.0.1:{argv[argv.index('--port') + 1]}",
            service=f"{namespace}/{name}",
            ordinal=int(ordinal),
            generation=generation,
            names=("somebody-else",) if ways.other_names else names,
            ways=ways,
            host=PROCESS.get(),
            born_s=self._loop.now_s,
            declared="--declared" in argv,
        )
        host = PROCESS.get().context()
        self.all.append(engine)
        self.on_spawn(engine)
        process = Process(f"engine {engine.pid}")
        self._loop.begin(process, self._live(engine, lambda line: _say(self._loop, host, on_line, clock, line)))
        return engine

    async def _live(self, engine: Engine, say: Callable[[str], None]) -> None:
        ways = engine.ways
        if ways.dies_s is not None:
            self._loop.call_later(ways.dies_s, self.end, engine, self._random.choice((1, -9, -11)))
        for share, line in _LINES:
            await self._until(engine, share * ways.start_s)
            say(line)
        if ways.port_taken:
            say("ERROR: [Errno 98] error while attempting to bind on address: address already in use")
            self.end(engine, 1)
        if ways.hangs:
            return
        if ways.listens_s is not None:
            await self._until(engine, ways.listens_s)
            say(_SERVER_UP)
        await self._until(engine, ways.start_s)
        engine.warm.set()
        if ways.listens_s is None:
            say(_SERVER_UP)

    async def _until(self, engine: Engine, age_s: float) -> None:
        await asyncio.sleep(max(0.0, engine.born_s + age_s - self._loop.now_s))

    def terminate(self, engine: Engine) -> None:
        """SIGTERM: it lets running requests finish, then ends; or does nothing of the kind."""
        if engine.terminated_s is None:
            engine.terminated_s = self._loop.now_s
            if not engine.ways.ignores_sigterm:
                self._loop.begin(Process(f"end of {engine.pid}"), self._finish(engine))

    async def _finish(self, engine: Engine) -> None:
        await asyncio.sleep(self._random.uniform(0.0, 2 * _TERM_S))
        while engine.alive and engine.running:  # noqa: ASYNC110 — virtual time costs nothing
            await asyncio.sleep(0.1)
        self.end(engine, 0)

    def vitals(self, pid: int) -> Vitals:
        """What its processes have used: a sound one always computes a little."""
        engine = self.all[pid - FIRST_PID]
        until_s = self._loop.now_s
        if engine.ways.hangs:
            until_s = engine.born_s
        elif engine.frozen(until_s):
            until_s = (engine.proven_s or 0.0) + (engine.ways.freezes_s or 0.0)
        return Vitals(cpu_s=0.1 * (until_s - engine.born_s), read_bytes=0)


def _say(
    loop: VirtualLoop,
    host: Context,
    on_line: Callable[[datetime, str], None],
    clock: Callable[[], datetime],
    line: str,
) -> None:
    loop.call_soon(lambda: on_line(clock(), line), context=host)


def _names(argv: tuple[str, ...]) -> tuple[str, ...]:
    begin = argv.index("--served-model-name") + 1
    names = []
    for arg in argv[begin:]:
        if arg.startswith("--"):
            break
        names.append(arg)
    return tuple(names)


def digest_of(model: str) -> str:
    """What the model check finds."""
    return hashlib.sha256(model.encode()).hexdigest()
