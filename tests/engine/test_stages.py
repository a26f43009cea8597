"""The stages of one real start, against the engine's own spans."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from runtime.contract import EngineSpec, Mark, Stage, StageEvent
from runtime.engine.argv import platform_of
from runtime.engine.group import members
from runtime.engine.launch import Launcher
from runtime.engine.spans import SpanReceiver
from runtime.engine.stages import span_seconds
from runtime.engine.start import EngineDirs, EngineStart, utc_now
from tests.engine.conftest import model

RARE = {Stage.GRAPH_CAPTURE, Stage.FAILED_LOADER, Stage.SNAPSHOT_RESTORE}
"""CPUs capture no graphs; no loader fails."""


async def test_every_second_of_a_cold_start_has_a_name_and_the_spans_agree(tmp_path: Path) -> None:
    spec = EngineSpec(
        service="test/stages",
        served_names=("test/stages",),
        model=str(model(tmp_path / "model", 3)),
        args=("--max-model-len=512", "--max-num-seqs=8", "--dtype=bfloat16"),
    )
    dirs = EngineDirs(cache=tmp_path / "cache", log=tmp_path / "engine.log", run=tmp_path / "run")
    receiver = SpanReceiver()
    await receiver.start()
    finished: list[StageEvent] = []
    start = EngineStart(
        spec=spec,
        start_id="a-1",
        replica="test/stages/0",
        dirs=dirs,
        asked_at=utc_now(),
        why="a test",
        spans=receiver,
        on_change=lambda _: None,
        on_stage=finished.append,
        launcher=Launcher(),
    )
    try:
        engine = await start.run()
        record = start.admit(utc_now())
        async with asyncio.timeout(10):  # the engine exports its spans every half second
            while not all(span_seconds(check, start.spans) for check in platform_of(spec).checks):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert await engine.in_flight() == 0
        pid = engine.pid
        await engine.stop(5.0)
        assert not members(pid)
    finally:
        await receiver.close()
    assert list(record.marks) == list(Mark)
    assert sorted(record.marks.values()) == list(record.marks.values())
    assert {stage.stage for stage in record.stages} == set(Stage) - RARE
    assert record.attributed is not None
    assert record.attributed >= 0.95
    assert {event.stage for event in finished} == {stage.stage for stage in record.stages}
    took = {stage.stage: timedelta(milliseconds=stage.elapsed_ms).total_seconds() for stage in record.stages}
    for check in platform_of(spec).checks:
        ours, theirs = sum(took[stage] for stage in check.stages), span_seconds(check, start.spans)
        # vLLM imports a little outside its spans: 0.1 s, or a twentieth of what takes long.
        assert ours == pytest.approx(theirs, abs=0.1, rel=0.05), check
