"""Starts of the fake engine through a shelf, from order to admission, as a host does them."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from runtime.cache.fingerprint import Fingerprint
from runtime.cache.inputs import fingerprint_of
from runtime.cache.shelf import Shelf
from runtime.cache.signing import SigningKey
from runtime.cache.stores.directory import DirectoryStore
from runtime.cache.trust import TrustPolicy
from runtime.contract import EngineSpec, Golden, Stage, StartKind, StartRecord
from runtime.engine import group
from runtime.engine.argv import engine_arguments, import_environment
from runtime.engine.launch import Launcher
from runtime.engine.start import EngineDirs, EngineStart, StartFailed, utc_now
from tests.fakes.model import fake_command, make_model

ARTIFACT = "torch_compile_cache/torch_aot_compile/*/rank_0_0/model"


class Machine:
    """One host: a shelf of its own, replicas by name, one model. What goes beyond is given to `Shelf`."""

    def __init__(self, root: Path, *, model: Path | None = None, args: Sequence[str] = (), **shelf: Any) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root, self.args = root, tuple(args)
        self.model = model or make_model(root.parent / "model", compiles=True)
        self.shelf = Shelf(root / ".shelf", **{"clock": utc_now, "version": "0.1.0", **shelf})
        self.learned: dict[str, tuple[int, ...]] = {}
        self.running = 0
        self.awaited: bool | None = None
        self.start_timeout_s = 60.0
        self.waits: list[str] = []
        self.store = DirectoryStore(root / ".shelf" / "store")
        self.signer = SigningKey.load(root / ".shelf" / "signing-key.pem")

    @property
    def spec(self) -> EngineSpec:
        return EngineSpec(
            service="test/one",
            served_names=("test/one",),
            model=str(self.model),
            args=self.args,
            golden=Golden(learned=self.learned),
            start_timeout_s=self.start_timeout_s,
        )

    @property
    def fingerprint(self) -> Fingerprint:
        """Of every start."""
        spec = self.spec
        return fingerprint_of(spec, environ=import_environment(spec, {}), args=engine_arguments(spec, 1, None)[2:])

    @property
    def trust(self) -> TrustPolicy:
        """Takes this host's bundles."""
        return TrustPolicy.own(self.signer.public, "another host")

    def caches(self, replica: str = "0") -> Path:
        return self.root / replica / "cache"

    def artifact(self, replica: str = "0") -> Path:
        """The one compiled thing of a replica."""
        (path,) = self.caches(replica).glob(f"*/{ARTIFACT}")
        return path

    def dirs(self, replica: str = "0") -> EngineDirs:
        base = self.root / replica
        return EngineDirs(cache=base / "cache", log=base / "log", run=base / "run")

    def launcher(self) -> Launcher:
        return Launcher(fake_command(), shelf=self.shelf)

    def next_kind(self, replica: str = "0") -> StartKind:
        """From where the next start would begin, as the host says it."""
        return self.launcher().kind(self.spec, self.dirs(replica))

    def new(self, replica: str = "0") -> EngineStart:
        return EngineStart(
            spec=self.spec,
            start_id="a-1",
            replica=f"test/one/{replica}",
            dirs=self.dirs(replica),
            asked_at=utc_now(),
            why="a test",
            spans=None,
            on_change=self._saw,
            on_stage=lambda _: None,
            launcher=self.launcher(),
            awaited=lambda: self.awaited,
        )

    def _saw(self, start: EngineStart) -> None:
        note = start.record.cache.note
        if start.record.outcome is None and note.startswith("waiting: ") and note not in self.waits:
            assert start.stage is Stage.CACHE_RESTORE
            self.waits.append(note)

    async def start(self, replica: str = "0") -> StartRecord:
        """The record of one start that ran to its end: admitted, offered to the stores, stopped again; or failed."""
        start = self.new(replica)
        self.running += 1
        with contextlib.suppress(StartFailed):
            engine = await start.run()
            try:
                start.admit(utc_now())
                await start.published()
            finally:
                await engine.stop(0)
                await start.close()
        assert start.pid is None or group.members(start.pid) == ()
        record = start.record
        if record.outcome == "ready":
            assert record.golden_key is not None
            assert record.golden_tokens is not None
            self.learned.setdefault(record.golden_key, record.golden_tokens)
        self.running -= 1
        if self.running == 0:
            assert not list((self.root / ".shelf" / "scratch").glob("*")), "starts leave no scratch"
        return record

    async def close(self) -> None:
        await self.shelf.close()


async def until(seen: Callable[[], bool], within_s: float = 20) -> None:
    """Return once `seen` is true; other processes make it so, which have the processor meanwhile."""
    async with asyncio.timeout(within_s):
        while not seen():  # noqa: ASYNC110  (nothing tells of a file that appears)
            await asyncio.sleep(0.002)
