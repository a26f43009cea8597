"""Real vLLM by fork: the same answers as by spawn, the saved code loaded, one parent for all."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runtime.contract import EngineSpec, StartKind, StartRecord
from runtime.engine.fork.pool import ForkPool
from runtime.engine.group import members
from runtime.engine.launch import Launcher
from runtime.engine.spans import SpanReceiver
from runtime.engine.start import EngineDirs, EngineStart, utc_now
from tests.engine.conftest import model


class Machine:
    """Starts of one service in directories of its own, by one launcher."""

    def __init__(self, root: Path, launcher: Launcher, spans: SpanReceiver) -> None:
        self.root, self.launcher, self.spans = root, launcher, spans
        self.spec = EngineSpec(
            service="test/fork",
            served_names=("test/fork",),
            model=str(model(root / "m", 5)),
            args=("--max-model-len=512", "--max-num-seqs=8", "--dtype=bfloat16"),
            start_timeout_s=400,
        )

    async def start(self, name: str, no_fork: str | None = None) -> tuple[StartRecord, str]:
        """The record of one start in directory `name`, stopped again, and its log."""
        base = self.root / name
        log = base / "engine.log"
        log.unlink(missing_ok=True)
        start = EngineStart(
            spec=self.spec,
            start_id="a-1",
            replica="test/fork/0",
            dirs=EngineDirs(cache=base / "cache", log=log, run=base / "run"),
            asked_at=utc_now(),
            why="a test",
            spans=self.spans,
            on_change=lambda _: None,
            on_stage=lambda _: None,
            launcher=self.launcher,
            no_fork=no_fork,
        )
        engine = await start.run()
        record = start.admit(utc_now())
        assert await engine.in_flight() == 0
        pid = engine.pid
        await engine.stop(5.0)
        assert not members(pid)
        return record, log.read_text()


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    forks, spans = ForkPool(), SpanReceiver()
    await spans.start()
    made = Machine(tmp_path, Launcher(forks=forks), spans)
    yield made
    await forks.close()
    await spans.close()


async def test_a_fork_answers_as_a_spawn_does_and_loads_what_was_compiled(machine: Machine) -> None:
    machine.launcher.want(machine.spec)
    cold, _ = await machine.start("one")
    assert cold.forked
    assert cold.kind is StartKind.COLD_NODE, "it had to wait for the imports, and to compile"
    # Another replica with a copy of the compiled code, at another path.
    shutil.copytree(machine.root / "one" / "cache", machine.root / "two" / "cache")
    again, log = await machine.start("two")
    assert again.forked
    assert again.kind is StartKind.FORK
    assert again.spawned_because is None
    assert "Directly load AOT compilation" in log
    assert "Compiling model again" not in log
    spawned, log = await machine.start("two", no_fork="asked by the test")
    assert not spawned.forked
    assert spawned.spawned_because == "asked by the test"
    assert spawned.kind is StartKind.CACHED_NODE
    assert "Directly load AOT compilation" in log, "a spawned engine loads what a forked one compiled: one key for both"
    for mark in ("api", "core", "worker"):
        assert f'"role": "{mark}"' in log
    assert cold.golden_tokens == again.golden_tokens == spawned.golden_tokens
    assert again.attributed is not None
    assert again.attributed >= 0.95, [(stage.stage, stage.elapsed_ms) for stage in again.stages]
