"""Real vLLM from an image of itself: the same answer, how much sooner than a stock start of the same run, and again."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import psutil
import pytest

from runtime.contract import EngineSpec, StartKind
from runtime.engine.launch import Launcher
from runtime.engine.snapshot.create import NotMadeError, Order, create
from runtime.engine.snapshot.criu import NoCriuError, find_criu
from runtime.engine.snapshot.hosted import Snapshots
from runtime.engine.snapshot.images import Images
from runtime.engine.start import EngineDirs, EngineStart, utc_now
from tests.engine.conftest import model

RATIO = 20.0
"""The goal is 35 on a quiet machine; less than this says that something was paid again."""


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    try:
        return Snapshots(Images(tmp_path / "images"), find_criu(os.environ), utc_now)
    except NoCriuError as error:
        pytest.skip(str(error))


@pytest.fixture
def spec(tmp_path: Path) -> EngineSpec:
    args = ("--max-model-len=512", "--max-num-seqs=8", "--dtype=bfloat16")
    return EngineSpec(
        service="test/snap",
        served_names=("test/snap",),
        model=str(model(tmp_path / "m", 5)),
        args=args,
        start_timeout_s=400,
    )


def begin(root: Path, spec: EngineSpec, snapshots: Snapshots) -> EngineStart:
    return EngineStart(
        spec=spec,
        start_id="a-1",
        replica="test/snap/0",
        dirs=EngineDirs(cache=root / "0/cache", log=root / "0/engine.log", run=root / "0/run", shared=root),
        asked_at=utc_now(),
        why="a test",
        spans=None,
        on_change=lambda _: None,
        on_stage=lambda _: None,
        launcher=Launcher(snapshots=snapshots),
    )


@pytest.mark.prove
async def test_an_engine_comes_back_in_a_fraction_of_a_stock_start(
    tmp_path: Path, spec: EngineSpec, snapshots: Snapshots
) -> None:
    made = await create(Order(spec, shared=tmp_path), snapshots)
    ready = []
    for _ in range(3):
        start = begin(tmp_path, spec, snapshots)
        engine = await start.run()
        record = start.admit(utc_now())
        await engine.stop(0.0)
        await start.close()
        assert record.kind is StartKind.SNAPSHOT, record.not_restored
        assert record.golden_tokens == made.golden_tokens
        assert record.ready_s is not None
        ready.append(record.ready_s)
    ratio = made.stock_s / min(ready)
    print(
        f"snapshot: stock-cold {made.stock_s:.1f} s, restored {', '.join(f'{s:.2f}' for s in ready)} s (T0→T9),"
        f" {ratio:.0f} ×; image {made.size_bytes / 1e9:.2f} GB, dumped in {made.dump_s:.1f} s"
    )
    assert ratio > RATIO


@pytest.mark.prove
async def test_a_dump_whose_maker_is_killed_leaves_no_process(
    tmp_path: Path, spec: EngineSpec, snapshots: Snapshots
) -> None:
    shm = set(os.listdir("/dev/shm"))
    making = asyncio.create_task(create(Order(spec, shared=tmp_path), snapshots))
    while not (dumper := _dumpers()) and not making.done():  # noqa: ASYNC110  (another process begins)
        await asyncio.sleep(0.01)
    for process in dumper:
        process.send_signal(signal.SIGKILL)
    with pytest.raises(NotMadeError):
        await making
    assert snapshots.images.places() == ()
    assert set(os.listdir("/dev/shm")) <= shm


def _dumpers() -> list[psutil.Process]:
    told = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            if "snapshot.dumper" in " ".join(process.cmdline()):
                told.append(process)
    return told
