import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from runtime.contract import EngineSpec, FailureCause, Golden, Mark, Stage, StageEvent, StartKind
from runtime.engine import group
from runtime.engine.launch import Launcher
from runtime.engine.spans import SpanReceiver
from runtime.engine.start import EngineDirs, EngineStart, RunningEngine, StartFailed, utc_now
from tests.fakes.model import fake_command, make_model


class Case:
    """One start of the fake engine with all that it said."""

    def __init__(self, tmp_path: Path, *, spans: SpanReceiver | None = None, **ways: Any) -> None:
        self.dirs = EngineDirs(cache=tmp_path / "r" / "cache", log=tmp_path / "r" / "log", run=tmp_path / "r" / "run")
        self.model = make_model(tmp_path / "model", **ways)
        self.events: list[StageEvent] = []
        self.seen: list[Stage | None] = []
        self.changed = asyncio.Event()
        self.spans = spans
        self.start: EngineStart

    def new(self, **spec: Any) -> EngineStart:
        base = {"service": "team/chat", "served_names": ("team/chat", "chat"), "model": str(self.model)}
        self.start = EngineStart(
            spec=EngineSpec(**{**base, **spec}),
            start_id="host-1",
            replica="team/chat/0",
            dirs=self.dirs,
            asked_at=utc_now() - timedelta(seconds=1),
            why="a test",
            spans=self.spans,
            on_change=self.on_change,
            on_stage=self.events.append,
            launcher=Launcher(fake_command()),
        )
        return self.start

    def on_change(self, start: EngineStart) -> None:
        self.seen.append(start.stage)
        self.changed.set()

    async def reached(self, stage: Stage) -> None:
        async with asyncio.timeout(20):
            while self.start.stage is not stage:
                self.changed.clear()
                await self.changed.wait()


@contextlib.asynccontextmanager
async def running(start: EngineStart) -> AsyncIterator[RunningEngine]:
    engine = await start.run()
    try:
        yield engine
    finally:
        await engine.stop(0)
        assert group.members(engine.pid) == ()


async def first_answer(http: httpx.AsyncClient, body: dict[str, Any]) -> httpx.Response:
    async with asyncio.timeout(20):
        while True:
            try:
                return await http.post("/v1/completions", json=body)
            except httpx.ConnectError:
                await asyncio.sleep(0.01)


async def failure_of(start: EngineStart) -> StartFailed:
    with pytest.raises(StartFailed) as caught:
        await start.run()
    assert start.record.outcome == "failed"
    assert start.record.failure == caught.value.failure
    assert str(caught.value) == caught.value.failure.message
    assert start.stage is None
    assert start.record.ready_s is None
    if start.pid is not None:
        assert group.members(start.pid) == ()
    return caught.value


def credentials() -> list[str]:
    """The files in memory that this process holds for gates to read."""
    held = []
    for fd in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            held.append(os.readlink(fd))
    return [target for target in held if "memfd:credential" in target]


async def test_the_gate_opens_after_the_golden_prompt_and_shuts_for_the_drain(tmp_path: Path) -> None:
    case = Case(tmp_path, start_s=0.3, answer_s=0.5)
    running_start = asyncio.create_task(case.new().run())
    await case.reached(Stage.COMPILE)
    body = {"model": "chat", "prompt": "x", "max_tokens": 1}
    async with httpx.AsyncClient(base_url=str(case.start.url), trust_env=False, timeout=20) as http:
        early = await first_answer(http, body)
        assert (early.status_code, early.json()["error"]["code"]) == (503, "starting")
        engine = await running_start
        assert not credentials(), "read by then"
        asking = asyncio.create_task(http.post("/v1/completions", json=body))
        async with asyncio.timeout(10):
            while await engine.in_flight() != 1:
                pass
        await engine.leave()
        assert (await http.get("/pilotlight/ready")).status_code == 503
        assert (await http.post("/v1/completions", json=body)).status_code == 200
        asking_too = asyncio.create_task(http.post("/v1/completions", json=body))
        async with asyncio.timeout(10):
            while await engine.in_flight() != 1:
                pass
        stop = asyncio.create_task(engine.stop(20))
        async with asyncio.timeout(10):
            while (late := await http.post("/v1/completions", json=body)).status_code == 200:
                pass
        assert (late.status_code, late.json()["error"]["code"]) == (503, "draining")
        assert (await asking).status_code == (await asking_too).status_code == 200
        await stop
    assert group.members(engine.pid) == ()
    log = case.dirs.log.read_text()
    assert not any(credential in log for credential in engine.gate.headers.values())
    assert [line.rpartition(" ")[2] for line in log.splitlines() if "gate: " in line] == [
        *("minimum", "leaving", "draining")
    ]


async def test_an_engine_without_its_gate_is_not_admitted(tmp_path: Path) -> None:
    caught = await failure_of(Case(tmp_path, no_gate=True).new())
    assert caught.failure.cause is FailureCause.NOT_SERVED
    assert "the engine's gate answers 404" in str(caught)


async def test_a_failed_start_leaves_no_credential(tmp_path: Path) -> None:
    case = Case(tmp_path, exit_at={"stage": "compile", "code": 1})
    await failure_of(case.new())
    assert not credentials()


async def test_a_start_from_order_to_admission(tmp_path: Path) -> None:
    case = Case(tmp_path)
    start = case.new()
    assert list(start.record.marks) == [Mark.T0]
    assert (start.stage, start.url, start.pid) == (Stage.ORDER, None, None)
    async with running(start) as engine:
        assert (engine.url, engine.pid) == (start.url, start.pid)
        at = utc_now()
        record = start.admit(at)
        assert record.outcome == "ready"
        assert list(record.marks) == sorted(Mark)
        assert list(record.marks.values()) == sorted(record.marks.values())
        assert record.ready_s == pytest.approx((at - record.marks[Mark.T0]).total_seconds())
        assert record.attributed is not None
        assert 0.9 < record.attributed <= 1
        assert record.kind is StartKind.COLD_NODE
        assert record.model_digest is not None
        assert record.golden_tokens is not None
        assert len(record.golden_tokens) == 8
        assert start.stage is None
        assert await engine.in_flight() == 0
    stages = [stage.stage for stage in record.stages]
    assert set(stages) == set(Stage) - {Stage.GRAPH_CAPTURE, Stage.FAILED_LOADER, Stage.SNAPSHOT_RESTORE}
    assert sorted(event.stage for event in case.events) == sorted(stages)
    (load,) = (event for event in case.events if event.stage is Stage.WEIGHT_LOAD)
    assert load.bytes == (case.model / "model.safetensors").stat().st_size
    assert "Application startup complete." in case.dirs.log.read_text()


async def test_the_second_start_finds_its_cache_and_the_same_tokens(tmp_path: Path) -> None:
    case = Case(tmp_path)
    first = case.new()
    async with running(first):
        first.admit(utc_now())
    second = case.new(golden=Golden(tokens=first.record.golden_tokens))
    assert second.record.kind is StartKind.CACHED_NODE
    async with running(second):
        assert second.record.golden_tokens == first.record.golden_tokens
        assert second.record.model_digest == first.record.model_digest


@pytest.mark.parametrize(
    ("ways", "cause", "numbers", "words"),
    [
        pytest.param(
            {"exit_at": {"stage": "weight_load", "code": 7}},
            FailureCause.EXITED,
            {"exit_code": 7, "stage": "model_construction"},
            "exited with code 7 during model_construction: ValueError: the fake was told to end at weight_load",
            id="exit",
        ),
        pytest.param(
            {"exit_at": {"stage": "compile", "signal": "SIGKILL"}},
            FailureCause.KILLED,
            {"signal": "SIGKILL"},
            "killed by SIGKILL",
            id="killed",
        ),
        pytest.param({"served": ["else"]}, FailureCause.NOT_SERVED, {"served": "else"}, "serves else", id="not served"),
        pytest.param({"fail_status": 500}, FailureCause.GOLDEN_FAILED, {"status": 500}, "status 500", id="golden 500"),
        pytest.param({"no_token_ids": True}, FailureCause.GOLDEN_FAILED, {}, "return_token_ids", id="no tokens"),
        pytest.param({"flaky_golden": True}, FailureCause.GOLDEN_WRONG, {}, "two answers", id="flaky"),
    ],
)
async def test_a_failed_start_says_why_and_leaves_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ways: dict[str, Any],
    cause: FailureCause,
    numbers: dict[str, float | str],
    words: str,
) -> None:
    monkeypatch.setattr("runtime.engine.watch.DYING_S", 0.1)
    failed = await failure_of(Case(tmp_path, **ways).new())
    assert failed.failure.cause is cause
    assert numbers.items() <= failed.failure.numbers.items()
    assert words in str(failed)


async def test_another_answer_than_the_declared_one(tmp_path: Path) -> None:
    failed = await failure_of(Case(tmp_path).new(golden=Golden(max_tokens=2, tokens=(1, 2))))
    assert failed.failure.cause is FailureCause.GOLDEN_WRONG
    assert "expected [1, 2]" in str(failed)
    assert failed.failure.numbers["expected"] == "1 2"


async def test_a_missing_model_never_begins_a_process(tmp_path: Path) -> None:
    case = Case(tmp_path)
    failed = await failure_of(case.new(model=str(tmp_path / "nowhere")))
    assert failed.failure.cause is FailureCause.MODEL_MISSING
    assert case.start.pid is None


@pytest.mark.parametrize(
    ("spec", "words"),
    [({"args": ("--port", "1")}, "set by the launcher"), ({"env": {"PATH": "/"}}, "PATH may not be set")],
)
async def test_what_may_not_be_set_fails_before_a_process(tmp_path: Path, spec: dict[str, Any], words: str) -> None:
    failed = await failure_of(Case(tmp_path).new(**spec))
    assert failed.failure.cause is FailureCause.BAD_ARGUMENTS
    assert failed.failure.permanent
    assert words in str(failed)


async def test_a_start_that_hangs_is_ended_and_its_stage_named(tmp_path: Path) -> None:
    case = Case(tmp_path, hang_at="warm_up", child=True)
    failed = await failure_of(case.new(start_timeout_s=2.0))
    assert failed.failure.cause is FailureCause.START_TIMEOUT
    assert failed.failure.numbers == {"stage": "compile", "timeout_s": 2.0}


async def test_a_cancelled_start_leaves_nothing(tmp_path: Path) -> None:
    case = Case(tmp_path, hang_at="warm_up", child=True)
    task = asyncio.create_task(case.new().run())
    await case.reached(Stage.COMPILE)
    pid = case.start.pid
    assert pid is not None
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert case.start.record.outcome == "cancelled"
    assert group.members(pid) == ()


async def test_an_engine_that_dies_later_is_noticed(tmp_path: Path) -> None:
    case = Case(tmp_path, crash_after_s=0.3, child=True)
    engine = await case.new().run()
    failure = await engine.wait()
    assert failure.cause is FailureCause.DIED_AFTER_READY
    assert failure.numbers["exit_code"] == 3
    assert "RuntimeError: the fake was told to crash" in failure.message
    assert group.members(engine.pid) == ()
    assert await engine.in_flight() is None
    await engine.stop(5)


async def test_a_killed_engine_names_its_signal(tmp_path: Path) -> None:
    engine = await Case(tmp_path).new().run()
    group.kill(engine.pid)
    failure = await engine.wait()
    assert failure.numbers["signal"] == signal.SIGKILL.name


async def test_stop_lets_a_running_answer_finish(tmp_path: Path) -> None:
    case = Case(tmp_path, chunk_s=0.02)
    engine = await case.new().run()
    body = {"model": "chat", "messages": [], "stream": True, "max_tokens": 20}
    async with httpx.AsyncClient(base_url=engine.url, trust_env=False) as http:
        async with http.stream("POST", "/v1/chat/completions", json=body) as response:
            lines = response.aiter_lines()
            await anext(lines)
            assert await engine.in_flight() == 1
            stopping = asyncio.create_task(engine.stop(20))
            rest = [line async for line in lines if line]
        assert rest[-1] == "data: [DONE]"
        await stopping
    await engine.stop(20)
    assert group.members(engine.pid) == ()


async def test_stop_ends_an_engine_that_will_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.engine.running.TERM_GRACE_S", 0.2)
    case = Case(tmp_path, ignore_sigterm=True, child=True)
    engine = await case.new().run()
    await asyncio.gather(engine.stop(0), engine.stop(0))
    assert group.members(engine.pid) == ()


async def test_spans_complete_the_record_after_admission(tmp_path: Path) -> None:
    receiver = SpanReceiver()
    await receiver.start()
    case = Case(tmp_path, spans=receiver)
    start = case.new()
    async with running(start):
        start.admit(utc_now())
        case.changed.clear()
        await export(receiver, start, "Load weights", timedelta(milliseconds=1500))
        assert case.changed.is_set()
        (load,) = (stage for stage in start.record.stages if stage.stage is Stage.WEIGHT_LOAD)
        assert load.span_s == pytest.approx(1.5)
        assert start.record.outcome == "ready"
    await receiver.close()


async def export(receiver: SpanReceiver, start: EngineStart, name: str, took: timedelta) -> None:
    request = ExportTraceServiceRequest()
    begin_ns = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 10**9
    request.resource_spans.add().scope_spans.add().spans.add(
        name=name,
        trace_id=bytes.fromhex(start.trace_id),
        start_time_unix_nano=begin_ns,
        end_time_unix_nano=begin_ns + round(took.total_seconds() * 10**9),
    )
    headers = {"Authorization": receiver.headers.partition("=")[2].replace("%20", " ")}
    async with httpx.AsyncClient(trust_env=False) as http:
        sent = await http.post(receiver.endpoint, content=request.SerializeToString(), headers=headers)
    assert sent.status_code == 200
