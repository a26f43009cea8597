"""What real vLLM says when a start fails or a ready engine dies, and that it is named for what it is.

The three that fail within seconds run always; the others cost a start each (`make prove`).
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from runtime.contract import EngineSpec, Failure, FailureCause, Stage
from runtime.engine import group
from runtime.engine.launch import Launcher
from runtime.engine.start import EngineDirs, EngineStart, StartFailed, utc_now
from tests.engine.conftest import model

COMPILERS = ("g++", "gcc", "c++", "clang", "cpp")
MEMORY_BYTES = 1200 * 2**20
"""Enough for the API server to come up, too little for its workers."""


class Case:
    """One start on real vLLM in directories of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.model = model(root / "model", 1)

    def start(self, *args: str, stuck_after_s: float = 300.0) -> EngineStart:
        self.engine = EngineStart(
            spec=EngineSpec(
                service="test/fails",
                served_names=("test/fails",),
                model=str(self.model),
                args=("--max-model-len=512", "--max-num-seqs=8", "--dtype=bfloat16", *args),
                start_timeout_s=400,
            ),
            start_id="a-1",
            replica="test/fails/0",
            dirs=EngineDirs(cache=self.root / "cache", log=self.root / "engine.log", run=self.root / "run"),
            asked_at=utc_now(),
            why="a test",
            spans=None,
            on_change=lambda _: None,
            on_stage=lambda _: None,
            stuck_after_s=stuck_after_s,
            launcher=Launcher(),
        )
        return self.engine

    async def strike(self, name: str, number: int) -> None:
        """Send a signal to the engine's process called so, once it compiles."""
        while self.engine.stage is not Stage.COMPILE:  # noqa: ASYNC110  (stages of a process, as they come)
            await asyncio.sleep(0.05)
        os.kill(self.pid(name), number)

    def pid(self, name: str) -> int:
        assert self.engine.pid is not None
        return next(pid for pid in group.members(self.engine.pid) if name in psutil.Process(pid).name())


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A model whose starts, one after the other, share a compile cache: only the first compiles."""
    return Case(tmp_path_factory.mktemp("compiled"))


async def failed(start: EngineStart) -> Failure:
    with pytest.raises(StartFailed) as caught:
        await start.run()
    if start.pid is not None:
        assert group.members(start.pid) == ()
        assert caught.value.failure.tail
    return caught.value.failure


async def test_an_unsupported_architecture(case: Case) -> None:
    config = case.model / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"architectures": ["NoSuchForCausalLM"]}))
    failure = await failed(case.start())
    assert (failure.cause, failure.permanent) == (FailureCause.UNSUPPORTED_MODEL, True)
    assert "['NoSuchForCausalLM'] are not supported" in failure.message
    assert "Supported architectures" not in failure.message


async def test_an_unknown_argument(case: Case) -> None:
    failure = await failed(case.start("--no-such-flag"))
    assert (failure.cause, failure.permanent) == (FailureCause.BAD_ARGUMENTS, True)
    assert "--no-such-flag" in failure.message


async def test_a_taken_port(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr("runtime.engine.launch._free_port", lambda: taken.getsockname()[1])
        failure = await failed(case.start())
    assert (failure.cause, failure.permanent) == (FailureCause.PORT_TAKEN, False)


@pytest.mark.prove
async def test_no_compiler(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All programs but compilers: vLLM needs `lscpu` and others."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for found in Path("/usr/bin").iterdir():
        if found.name != "cc" and not any(name in found.name for name in COMPILERS):
            (programs / found.name).symlink_to(found)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("CXX", raising=False)
    failure = await failed(case.start())
    assert (failure.cause, failure.permanent) == (FailureCause.NO_COMPILER, True)
    assert "g++" in failure.message


@contextlib.contextmanager
def memory_cgroup(limit_bytes: int) -> Iterator[tuple[Callable[[], None], Callable[[], None]]]:
    """A memory cgroup of the test's own: functions that move this process into it and out; skips where none can be."""
    root = Path("/sys/fs/cgroup")
    if (root / "memory").is_dir():
        parent, limit = root / "memory", "memory.limit_in_bytes"
    else:
        parent, limit = root, "memory.max"
    made = parent / f"pilotlight-test-{os.getpid()}"
    try:
        made.mkdir()
        (made / limit).write_text(str(limit_bytes))
    except OSError as error:
        with contextlib.suppress(OSError):
            made.rmdir()
        reason = f"none can be made below {parent} ({error.strerror}): run as root with a memory controller"
        pytest.skip(f"memory cgroup: {reason}")
    before = _own_cgroup(parent)
    try:
        yield lambda: _move(made), lambda: _move(before)
    finally:
        _move(before)
        made.rmdir()


def _own_cgroup(parent: Path) -> Path:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(",") or (not controllers and parent.name == "cgroup"):
            return parent / path.lstrip("/")
    return parent


def _move(cgroup: Path) -> None:
    (cgroup / "cgroup.procs").write_text(str(os.getpid()))


@pytest.mark.prove
async def test_no_memory(case: Case) -> None:
    with memory_cgroup(MEMORY_BYTES) as (enter, leave):
        start = case.start()
        enter()
        failing = asyncio.ensure_future(failed(start))
        while start.pid is None and not failing.done():  # noqa: ASYNC110  (until it is forked, into our cgroup)
            await asyncio.sleep(0.01)
        # After a long run this process is larger than any of the engine's, and would be killed in its place.
        leave()
        failure = await failing
    assert failure.cause is FailureCause.NO_MEMORY
    assert failure.numbers["signal"] == "SIGKILL"
    assert float(failure.numbers["oom_kills"]) >= 1


@pytest.mark.prove
@pytest.mark.parametrize(
    ("name", "number", "process"),
    [("EngineCor", signal.SIGKILL, "EngineCore"), ("Worker", signal.SIGSEGV, "VllmWorker-0")],
)
async def test_a_killed_process_of_a_start(case: Case, name: str, number: signal.Signals, process: str) -> None:
    start = case.start()
    strike = asyncio.ensure_future(case.strike(name, number))
    failure = await failed(start)
    await strike
    assert failure.cause is FailureCause.KILLED
    expect: dict[str, Any] = {"signal": number.name, "process": process, "oom_kills": 0}
    assert expect.items() <= failure.numbers.items()


@pytest.mark.prove
@pytest.mark.parametrize(
    ("name", "number", "words"),
    [
        pytest.param("EngineCor", signal.SIGTERM, "no log line", id="a core that ends half and hangs"),
        pytest.param("Worker", signal.SIGSTOP, "is stopped (SIGSTOP)", id="a stopped worker"),
    ],
)
async def test_a_stuck_start(case: Case, name: str, number: int, words: str) -> None:
    start = case.start(stuck_after_s=20)
    strike = asyncio.ensure_future(case.strike(name, number))
    failure = await failed(start)
    await strike
    assert failure.cause is FailureCause.STUCK
    assert words in failure.message


@pytest.mark.prove
@pytest.mark.parametrize(
    ("name", "number", "cause", "words"),
    [
        ("EngineCor", signal.SIGKILL, FailureCause.DIED_AFTER_READY, "EngineCore was killed by SIGKILL"),
        ("Worker", signal.SIGKILL, FailureCause.DIED_AFTER_READY, "VllmWorker-0 was killed by SIGKILL"),
        ("Worker", signal.SIGSTOP, FailureCause.FROZEN, "is stopped (SIGSTOP)"),
    ],
)
async def test_after_it_was_ready(compiled: Case, name: str, number: int, cause: FailureCause, words: str) -> None:
    engine = await compiled.start().run()
    compiled.engine.admit(utc_now())
    os.kill(compiled.pid(name), number)
    failure = await engine.wait()
    assert failure.cause is cause
    assert words in failure.message
    assert group.members(engine.pid) == ()
