"""Each row of docs/reference/failures.md, made to happen with the fake engine: cause, permanence and message agree."""

import functools
import os
import re
import signal
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from runtime.contract import EngineSpec, Failure, FailureCause, Golden, Stage
from runtime.engine.ending import End, failed_start
from runtime.engine.launch import Launcher
from runtime.engine.start import EngineDirs, EngineStart, StartFailed, utc_now
from runtime.weights.memory import Memory
from runtime.weights.remote import check_remote
from scripts.failures import ANY, ROWS, Row
from scripts.pod_failures import POD_ROWS
from tests.fakes.model import fake_command, make_model

Make = Callable[[Path, pytest.MonkeyPatch], Awaitable[Failure]]
SPOKEN = {"stage": "device_init", "code": 1}


def start_of(root: Path, *, stuck_after_s: float = 300.0, **spec: Any) -> EngineStart:
    fields = {"service": "test/chat", "served_names": ("test/chat",), "model": str(root / "model")} | spec
    return EngineStart(
        spec=EngineSpec(**fields),
        start_id="h-1",
        replica="test/chat/0",
        dirs=EngineDirs(cache=root / "r" / "cache", log=root / "r" / "engine.log", run=root / "r" / "run"),
        asked_at=utc_now(),
        why="a test",
        spans=None,
        on_change=lambda _: None,
        on_stage=lambda _: None,
        stuck_after_s=stuck_after_s,
        launcher=Launcher(fake_command()),
    )


async def failing(start: EngineStart) -> Failure:
    with pytest.raises(StartFailed) as caught:
        await start.run()
    return caught.value.failure


def fails(spec: dict[str, Any] | None = None, **ways: Any) -> Make:
    async def make(root: Path, _: pytest.MonkeyPatch) -> Failure:
        make_model(root / "model", **ways)
        return await failing(start_of(root, **(spec or {})))

    return make


def says(line: str) -> Make:
    return fails(exit_at=SPOKEN | {"line": line})


async def no_model(root: Path, _: pytest.MonkeyPatch) -> Failure:
    return await failing(start_of(root))


async def half_a_model(root: Path, _: pytest.MonkeyPatch) -> Failure:
    (make_model(root / "model") / "config.json").unlink()
    return await failing(start_of(root))


async def pickled(root: Path, _: pytest.MonkeyPatch) -> Failure:
    model = make_model(root / "model")
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    return await failing(start_of(root))


async def silent_bucket(root: Path, monkeypatch: pytest.MonkeyPatch) -> Failure:
    monkeypatch.setattr("runtime.weights.integrity.check_remote", functools.partial(check_remote, timeout_s=0.5))
    with socket.create_server(("127.0.0.1", 0)) as server:
        env = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
        env["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{server.getsockname()[1]}"
        return await failing(start_of(root, model="s3://models/m", env=env))


async def no_room(root: Path, monkeypatch: pytest.MonkeyPatch) -> Failure:
    make_model(root / "model")
    monkeypatch.setattr("runtime.weights.machine.read_memory", lambda: Memory(16, 16, "/sys/fs/cgroup/pod"))
    return await failing(start_of(root))


async def no_directory(root: Path, _: pytest.MonkeyPatch) -> Failure:
    make_model(root / "model")
    (root / "r").write_text("in the way")
    return await failing(start_of(root))


async def oom_killed(root: Path, _: pytest.MonkeyPatch) -> Failure:
    """The kernel's count is made up: tests/engine has it counted by a real cgroup."""

    return failed_start(End(-signal.SIGKILL, (), root / "engine.log", 1), Stage.COMPILE).at(utc_now())


async def stuck(root: Path, monkeypatch: pytest.MonkeyPatch) -> Failure:
    monkeypatch.setattr("runtime.engine.watch.SAMPLE_S", 0.1)
    make_model(root / "model", hang_at="warm_up")
    return await failing(start_of(root, stuck_after_s=1.0))


async def learned_otherwise(root: Path, _: pytest.MonkeyPatch) -> Failure:
    make_model(root / "model")
    first = start_of(root)
    engine = await first.run()
    await engine.stop(0)
    key = first.record.golden_key
    assert key is not None
    return await failing(start_of(root, golden=Golden(learned={key: (1, 2)})))


async def died(root: Path, _: pytest.MonkeyPatch) -> Failure:
    make_model(root / "model")
    engine = await start_of(root).run()
    os.kill(engine.pid, signal.SIGUSR1)
    return await engine.wait()


async def frozen(root: Path, monkeypatch: pytest.MonkeyPatch) -> Failure:
    monkeypatch.setattr("runtime.engine.running.PROBE_S", 0.1)
    monkeypatch.setattr("runtime.engine.progress.STOPPED_AFTER_S", 0.3)
    make_model(root / "model")
    engine = await start_of(root).run()
    os.kill(engine.pid, signal.SIGSTOP)
    return await engine.wait()


MAKERS: dict[str, Make] = {
    "bad model path": no_model,
    "a file of the model missing, cut short or unreadable": half_a_model,
    "pickled weights that nobody allowed": pickled,
    "a bucket that does not answer, or may not be read": silent_bucket,
    "no room for the weights, seen before the start": no_room,
    "unsupported architecture or model type": says("ValueError: Model architectures ['X'] are not supported for now."),
    "arguments that vLLM does not take": says("vllm: error: unrecognized arguments: --x"),
    "an argument or variable that is the launcher's": fails({"args": ("--port=1",)}),
    "no directory, process or file to be had (full disk, limits)": no_directory,
    "port taken": says("OSError: [Errno 98] Address already in use"),
    "no compiler": says("RuntimeError: Worker failed with error 'InvalidCxxCompiler: No working C++ compiler found'"),
    "no memory, told by the engine": says("MemoryError: no more"),
    "no memory, ended by the kernel": oom_killed,
    "killed": fails(exit_at={"stage": "device_init", "signal": "SIGKILL"}),
    "any other end of a start": says("RuntimeError: of no known kind"),
    "stuck": stuck,
    "too slow": fails({"start_timeout_s": 1.0}, hang_at="warm_up"),
    "another model answers": fails(served=["other"]),
    "golden prompt fails": fails(no_token_ids=True),
    "golden answer wrong: other tokens than the policy declares": fails({"golden": Golden(tokens=(1, 2))}),
    "golden answer wrong: other tokens than an earlier start of the same weights gave": learned_otherwise,
    "golden answer wrong: two answers at temperature 0 differ": fails(flaky_golden=True),
    "died after it was ready": died,
    "frozen after it was ready": frozen,
}


BY_THE_CONTROLLER = tuple(row for row in ROWS if row.cause is FailureCause.HOST_LOST)
"""Made to happen in tests/unit/app/test_failing.py: no host tells of its own end."""
ENGINES = tuple(row for row in ROWS if row not in BY_THE_CONTROLLER)


@pytest.mark.parametrize("row", ENGINES, ids=[row.failure for row in ENGINES])
async def test_a_row(row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.engine.watch.DYING_S", 0.1)
    failure = await MAKERS[row.failure](tmp_path, monkeypatch)
    assert (failure.cause, failure.permanent) == (row.cause, row.permanent)
    pattern = ".+".join(re.escape(part) for part in row.message.split(ANY))
    assert re.fullmatch(pattern, failure.message), failure.message


def test_every_cause_has_a_row_and_every_row_happens() -> None:
    # The second table's happen in tests/unit/adapters/starts.
    assert {row.cause for row in ROWS} | {row.cause for row in POD_ROWS} == set(FailureCause)
    assert {row.failure for row in ROWS} == set(MAKERS) | {row.failure for row in BY_THE_CONTROLLER}
