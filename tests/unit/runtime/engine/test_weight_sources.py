"""Whole starts of an engine that stands in for vLLM: by which source they get their weights, and what stops them."""

import asyncio
import functools
import json
import os
import socket
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runtime.contract import EngineSpec, FailureCause, Mark, Stage, StageEvent, StartRecord
from runtime.engine import group
from runtime.engine.launch import Launcher
from runtime.engine.start import EngineDirs, EngineStart, StartFailed, utc_now
from runtime.weights.integrity import check_model
from runtime.weights.memory import Memory
from runtime.weights.needs import Needs
from runtime.weights.place import read_place
from runtime.weights.remote import check_remote
from runtime.weights.versions import versions
from runtime.weights.winners import WINNERS, Measured, Winners, node_name
from tests.fakes.model import fake_command, make_model, safetensors_bytes
from tests.unit.runtime.weights.test_remote import Env, env, upload

__all__ = ["env"]

PREFETCH = "--safetensors-load-strategy=prefetch"
FAILS = {"stage": "weight_convert", "code": 1, "line": "RuntimeError: the storage is gone"}
KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}


class Case:
    """Starts of one model on one machine. `measured`: seconds by loader, as a bench would have found them."""

    def __init__(self, root: Path, **ways: Any) -> None:
        self.root, self.model = root, make_model(root / "model", **ways)
        self.events: list[StageEvent] = []
        self.pids: list[int] = []

    def measured(self, **seconds: float) -> None:
        digest = check_model(self.model, Needs(), self.root / "d.json", threading.Event()).digest
        found = {name.replace("_", "-"): (each,) for name, each in seconds.items()}
        measured = Measured(datetime.now(UTC), versions(), cold=True, bytes=1, seconds=found)
        Winners(self.root / WINNERS).remember(node_name(os.environ), str(digest), measured)

    def start(self, *, stuck_after_s: float = 300.0, **spec: Any) -> EngineStart:
        fields = {"service": "test/chat", "served_names": ("test/chat",), "model": str(self.model)} | spec
        return EngineStart(
            spec=EngineSpec(**fields),
            start_id="h-1",
            replica="test/chat/0",
            dirs=EngineDirs(cache=self.root / "r" / "c", log=self.root / "r" / "log", run=self.root / "r" / "run"),
            asked_at=utc_now(),
            why="a test",
            spans=None,
            on_change=self._changed,
            on_stage=self.events.append,
            stuck_after_s=stuck_after_s,
            launcher=Launcher(fake_command(), measured=self.root / WINNERS),
        )

    def _changed(self, start: EngineStart) -> None:
        if start.pid is not None and start.pid not in self.pids:
            self.pids.append(start.pid)

    async def ready(self, start: EngineStart) -> StartRecord:
        engine = await start.run()
        start.admit(utc_now())
        await engine.stop(0)
        assert not any(group.members(pid) for pid in self.pids)
        return start.record

    async def failed(self, start: EngineStart) -> StartRecord:
        with pytest.raises(StartFailed):
            await start.run()
        assert not any(group.members(pid) for pid in self.pids)
        return start.record


def told(record: StartRecord) -> list[tuple[str, str, FailureCause | None]]:
    return [(each.loader, each.source, each.cause) for each in record.weights.tries]


async def test_nothing_measured_stays_as_vllm_does_it(tmp_path: Path) -> None:
    case = Case(tmp_path)
    start = case.start(args=("--max-num-seqs=8",))
    record = await case.ready(start)
    assert told(record) == [("default", "local", None)]
    assert start._preparation.sources.spec == start._spec
    assert Stage.FAILED_LOADER not in {stage.stage for stage in record.stages}


async def test_the_fastest_measured_source_is_taken(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.measured(prefetch=1.0, default=2.0)
    start = case.start(args=("--max-num-seqs=8",))
    record = await case.ready(start)
    assert told(record) == [("prefetch", "local", None)]
    assert record.weights.tries[0].why == "measured 1.0 s on this node"
    assert start._preparation.sources.spec.args == ("--max-num-seqs=8", "--load-format=safetensors", PREFETCH)


async def test_the_services_own_loader_is_kept(tmp_path: Path) -> None:
    case = Case(tmp_path, only_with=PREFETCH, exit_at=FAILS)
    case.measured(prefetch=1.0, default=2.0)
    start = case.start(args=("--load-format=safetensors",))
    record = await case.ready(start)
    assert told(record) == [("named", "named", None)]
    assert record.weights.tries[0].why == "the service says --load-format safetensors"
    assert start._preparation.sources.spec.args == ("--load-format=safetensors",)


async def test_a_loader_that_fails_is_followed_by_the_next_source(tmp_path: Path) -> None:
    case = Case(tmp_path, only_with=PREFETCH, exit_at=FAILS)
    case.measured(prefetch=1.0, default=2.0)
    sound = await Case(tmp_path / "sound").ready(Case(tmp_path / "sound").start())
    record = await case.ready(case.start())
    assert told(record) == [("prefetch", "local", FailureCause.EXITED), ("default", "local", None)]
    first = record.weights.tries[0]
    assert first.stage is Stage.WEIGHT_LOAD
    assert "the storage is gone" in (first.failed or "")
    assert len(case.pids) == 2, "a fresh process"
    assert record.golden_tokens == sound.golden_tokens
    stages = {stage.stage: stage for stage in record.stages}
    failed = stages[Stage.FAILED_LOADER]
    assert failed.begun_at < stages[Stage.FORK].begun_at < record.marks[Mark.T4]
    assert set(stages) == {stage.stage for stage in sound.stages} | {Stage.FAILED_LOADER}
    assert [event.stage for event in case.events].count(Stage.FAILED_LOADER) == 1
    assert (record.attributed or 0) > 0.9


async def test_a_source_that_stalls_is_followed_by_the_next(tmp_path: Path) -> None:
    case = Case(tmp_path, only_with=PREFETCH, hang_at="weight_convert")
    case.measured(prefetch=1.0, default=2.0)
    record = await case.ready(case.start(stuck_after_s=1.0))
    assert told(record) == [("prefetch", "local", FailureCause.STUCK), ("default", "local", None)]


async def test_every_source_fails(tmp_path: Path) -> None:
    case = Case(tmp_path, exit_at=FAILS)
    case.measured(prefetch=1.0, default=2.0)
    record = await case.failed(case.start())
    assert told(record) == [
        ("prefetch", "local", FailureCause.EXITED),
        ("default", "local", FailureCause.EXITED),
    ]
    assert record.failure is not None
    assert record.failure.cause is FailureCause.EXITED
    assert len(case.pids) == 2


async def test_what_is_not_the_loaders_fault_is_not_tried_again(tmp_path: Path) -> None:
    case = Case(tmp_path, exit_at=FAILS | {"stage": "warm_up"})
    case.measured(prefetch=1.0, default=2.0)
    record = await case.failed(case.start())
    assert told(record) == [("prefetch", "local", None)]
    assert len(case.pids) == 1


async def test_wrong_arguments_of_the_service_are_not_tried_again(tmp_path: Path) -> None:
    line = "vllm: error: unrecognized arguments: --no-such"
    case = Case(tmp_path, exit_at={"stage": "device_init", "code": 2, "line": line})
    case.measured(default=1.0, prefetch=2.0)
    record = await case.failed(case.start())
    assert record.failure is not None
    assert record.failure.cause is FailureCause.BAD_ARGUMENTS
    assert len(case.pids) == 1


async def test_a_cancelled_start_leaves_no_engine_of_any_try(tmp_path: Path) -> None:
    case = Case(tmp_path, only_with=PREFETCH, exit_at=FAILS)
    case.measured(prefetch=1.0, default=2.0)
    start = case.start()
    running = asyncio.create_task(start.run())
    async with asyncio.timeout(30):
        while len(case.pids) < 2:  # noqa: ASYNC110  (another process)
            await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not any(group.members(pid) for pid in case.pids)
    assert start.record.outcome == "cancelled"


async def test_weights_without_room_stop_the_start_before_an_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(tmp_path)
    monkeypatch.setattr("runtime.weights.machine.read_memory", lambda: Memory(16, 16, "/sys/fs/cgroup/pod"))
    record = await case.failed(case.start())
    assert record.failure is not None
    assert record.failure.cause is FailureCause.NO_MEMORY
    assert "the cgroup /sys/fs/cgroup/pod has 16 B of memory left: raise the memory limit" in record.failure.message
    assert case.pids == []


async def test_ranks_without_shared_memory_stop_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(tmp_path)
    small = functools.partial(_small, tmp_path)
    monkeypatch.setattr("runtime.weights.machine.shared_memory", small)
    record = await case.failed(case.start(args=("--tensor-parallel-size", "2")))
    assert record.failure is not None
    assert "2 ranks want 256 MiB: mount an emptyDir" in record.failure.message
    assert (await case.ready(case.start())).outcome == "ready", "one rank needs none"


def _small(path: Path) -> Any:
    import dataclasses  # noqa: PLC0415  (here only)

    return dataclasses.replace(read_place(path), total_bytes=64 * 2**20)


async def test_where_the_weights_lie_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.weights.place._medium", lambda *_: "fuse")
    record = await Case(tmp_path).ready(Case(tmp_path).start())
    (note,) = (note for note in record.weights.notes if "FUSE" in note)
    assert note.startswith(f"warning: {tmp_path / 'model'} lies behind FUSE")


async def test_pickled_weights_are_refused_unless_allowed_by_name(tmp_path: Path) -> None:
    case = Case(tmp_path)
    (case.model / "model.safetensors").rename(case.model / "pytorch_model.bin")
    record = await case.failed(case.start())
    assert record.failure is not None
    assert "pytorch_model.bin is pickled" in record.failure.message
    assert (await case.failed(case.start(pickle=("other*.bin",)))).outcome == "failed"
    assert (await case.ready(case.start(pickle=("pytorch_model*.bin",)))).outcome == "ready"


async def test_modelexpress_that_falls_back_is_seen_and_counted(tmp_path: Path) -> None:
    case = Case(tmp_path)
    start = case.start()
    sources = start._preparation.sources
    for rank in (0, 1):
        sources.line(f"(Worker_TP{rank}) INFO [Worker {rank}] Trying strategy: rdma")
    sources.line("(Worker_TP1) WARNING [Worker 1] Strategy rdma failed, trying next: no route")
    sources.line("(Worker_TP1) INFO [Worker 1] Trying strategy: default")
    sources.loaded()
    assert start.record.weights.fell_back == 1
    assert start.record.weights.peer == "1 of 2 ranks from a peer; strategies default, rdma (rdma: no route)"


async def test_a_whole_model_in_a_bucket(tmp_path: Path, env: Env) -> None:
    case = Case(tmp_path)
    url = upload(env, case.model, "start-whole")
    start = case.start(model=url, env=env, args=("--load-format=runai_streamer",))
    record = await case.ready(start)
    assert (record.model_digest or "").startswith("etags:")
    assert record.golden_key is not None, "a bucket's stamp stands for the digest: its answer is learned"
    given = start._preparation.sources.spec
    assert given.args == ("--load-format=runai_streamer",)
    assert given.env["RUNAI_STREAMER_S3_ENDPOINT"] == env["AWS_ENDPOINT_URL"]
    size = sum(path.stat().st_size for path in case.model.glob("*.safetensors"))
    assert given.env["RUNAI_STREAMER_MEMORY_LIMIT"] == str(size)


async def test_a_bucket_without_a_shard_or_that_is_not_there(tmp_path: Path, env: Env) -> None:
    case = Case(tmp_path)
    (case.model / "model.safetensors").unlink()
    (case.model / "m-1.safetensors").write_bytes(safetensors_bytes({"a": b"1" * 10}))
    index = {"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}
    (case.model / "model.safetensors.index.json").write_text(json.dumps(index))
    url = upload(env, case.model, "start-torn")
    record = await case.failed(case.start(model=url, env=env))
    assert record.failure is not None
    assert record.failure.cause is FailureCause.MODEL_INCOMPLETE
    assert f"{url}/m-2.safetensors is missing" in record.failure.message
    record = await case.failed(case.start(model="s3://nowhere/m", env=env))
    assert record.failure is not None
    assert record.failure.cause is FailureCause.MODEL_MISSING
    assert "there is no such bucket" in record.failure.message
    assert case.pids == []


@pytest.fixture
async def silent() -> AsyncIterator[Env]:
    """A store that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.getsockname()[1]}"}


async def test_a_bucket_that_stalls_fails_the_start_within_its_bound(
    tmp_path: Path, silent: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = functools.partial(check_remote, timeout_s=0.5)
    monkeypatch.setattr("runtime.weights.integrity.check_remote", quick)
    case = Case(tmp_path)
    record = await case.failed(case.start(model="s3://models/m", env=silent))
    assert record.failure is not None
    assert (record.failure.cause, record.failure.permanent) == (FailureCause.MODEL_MISSING, False)
    assert "gave no answer within 0.5 s" in record.failure.message
    assert case.pids == []
