"""A small engine is dumped by a real CRIU and comes back: as often as wanted, at ports of its own, if it is whole."""

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest

from runtime.contract import EngineSpec, Stage, StartKind, Verdict
from runtime.engine.group import members
from runtime.engine.launch import Launcher
from runtime.engine.snapshot.create import NotMadeError, Order, create
from runtime.engine.snapshot.hosted import Snapshots
from runtime.engine.snapshot.images import ImageInUseError, Place
from runtime.engine.snapshot.manifest import SnapshotManifest
from runtime.engine.start import EngineDirs, EngineStart, utc_now
from runtime.ready.gate_door import State
from runtime.ready.http import client
from tests.unit.runtime.engine.snapshot.conftest import SEALABLE


def begin(tmp_path: Path, spec: EngineSpec, snapshots: Snapshots, name: str = "0") -> EngineStart:
    base = tmp_path / name
    return EngineStart(
        spec=spec,
        start_id=f"a-{name}",
        replica=f"{spec.service}/{name}",
        dirs=EngineDirs(cache=base / "cache", log=base / "engine.log", run=base / "run", shared=tmp_path),
        asked_at=utc_now(),
        why="a test",
        spans=None,
        on_change=lambda _: None,
        on_stage=lambda _: None,
        launcher=Launcher(SEALABLE, snapshots=snapshots),
    )


async def made(spec: EngineSpec, snapshots: Snapshots) -> tuple[Place, SnapshotManifest]:
    manifest = await create(Order(spec, command=SEALABLE), snapshots)
    return snapshots.images.place(manifest.id), manifest


def left() -> list[str]:
    """Processes of ours that still live, and files in the machine's shared memory that were not there."""
    named = ("tests.fakes.sealable", "snapshot.keeper", "snapshot.dumper")
    lines = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    return [line for line in lines if any(name in line for name in named) and "pytest" not in line]


async def test_two_engines_come_from_one_image_and_share_nothing(
    tmp_path: Path, spec: EngineSpec, snapshots: Snapshots
) -> None:
    shm = set(os.listdir("/dev/shm"))
    place, manifest = await made(spec, snapshots)
    assert left() == []
    assert set(os.listdir("/dev/shm")) == shm, "what an image was made from shared nothing with the machine"
    assert (place.root.stat().st_mode & 0o777, place.images.stat().st_mode & 0o777) == (0o700, 0o700)
    assert all((place.root / name).stat().st_mode & 0o077 == 0 for name in manifest.files)
    starts = [begin(tmp_path, spec, snapshots, name) for name in ("0", "1")]
    engines = []
    for start in starts:
        engines.append(await start.run())
        start.admit(utc_now())
    try:
        for start, engine in zip(starts, engines, strict=True):
            record = start.record
            assert (record.kind, record.restored, record.not_restored) == (StartKind.SNAPSHOT, manifest.id, None)
            assert record.golden_tokens == manifest.golden_tokens
            assert Stage.SNAPSHOT_RESTORE in {stage.stage for stage in record.stages}
            assert record.cache.verdict in (None, Verdict.ABSENT)
            assert record.attributed is not None
            assert record.attributed > 0.9
            assert engine.pid in members(engine.pid)
        assert engines[0].url != engines[1].url
        assert engines[0].gate.headers != engines[1].gate.headers, "each has a credential of its own"
        async with client(engines[0].url, 5.0, engines[1].gate.headers) as http:
            assert (await http.get("/v1/models")).status_code == 403
        async with client(engines[0].url, 5.0) as http:
            answer = await http.post("/v1/completions", json={"prompt": "a client's", "max_tokens": 2})
        assert answer.status_code == 200
        assert answer.json()["choices"][0]["text"] == "reset_prefix_cache pilotlight_seal pilotlight_wake"
        with pytest.raises(ImageInUseError):
            snapshots.images.remove(place)
    finally:
        for engine in engines:
            await engine.stop(0.0)
        for start in starts:
            await start.close()
    assert left() == []
    snapshots.images.remove(place)
    assert snapshots.images.places() == ()


@pytest.mark.prove
async def test_a_replica_comes_back_again_and_again(tmp_path: Path, spec: EngineSpec, snapshots: Snapshots) -> None:
    await made(spec, snapshots)
    for _ in range(2):
        start = begin(tmp_path, spec, snapshots)
        engine = await start.run()
        record = start.admit(utc_now())
        await engine.stop(0.0)
        await start.close()
        assert record.kind is StartKind.SNAPSHOT, record.not_restored


@pytest.mark.prove
async def test_a_killed_engine_is_told_by_its_signal_and_leaves_nothing(
    tmp_path: Path, spec: EngineSpec, snapshots: Snapshots
) -> None:
    await made(spec, snapshots)
    start = begin(tmp_path, spec, snapshots)
    engine = await start.run()
    os.kill(engine.pid, signal.SIGKILL)
    failure = await engine.wait()
    await start.close()
    assert "SIGKILL" in failure.message
    assert left() == []


@pytest.mark.parametrize(
    "harm", ["flipped", pytest.param("cut", marks=pytest.mark.prove), pytest.param("gone", marks=pytest.mark.prove)]
)
async def test_a_damaged_image_is_put_aside_and_the_start_goes_on_without(
    tmp_path: Path, spec: EngineSpec, snapshots: Snapshots, harm: str
) -> None:
    place, manifest = await made(spec, snapshots)
    pages = max((n for n in manifest.files if "pages-" in n), key=lambda name: manifest.files[name].size_bytes)
    file = place.root / pages
    data = bytearray(file.read_bytes())
    match harm:
        case "cut":
            file.write_bytes(data[:-4096])
        case "flipped":
            data[len(data) // 2] ^= 1
            file.write_bytes(data)
        case "gone":
            file.unlink()
    start = begin(tmp_path, spec, snapshots)
    engine = await start.run()
    record = start.admit(utc_now())
    await engine.stop(0.0)
    await start.close()
    assert record.kind is not StartKind.SNAPSHOT
    assert record.not_restored is not None
    assert manifest.id in record.not_restored
    assert pages in record.not_restored
    assert record.golden_tokens == manifest.golden_tokens
    assert not snapshots.promising(spec), "it is not tried again"
    assert left() == []


@pytest.mark.prove
async def test_a_restore_that_fails_falls_back_and_says_what_criu_said(
    tmp_path: Path, spec: EngineSpec, snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, manifest = await made(spec, snapshots)
    damage = place.images / "inventory.img"
    damage.write_bytes(b"\0" * damage.stat().st_size)
    monkeypatch.setattr("runtime.engine.snapshot.hosted.damaged", lambda *_: None)  # as if nobody had seen it
    start = begin(tmp_path, spec, snapshots)
    engine = await start.run()
    record = start.admit(utc_now())
    await engine.stop(0.0)
    await start.close()
    assert record.kind is not StartKind.SNAPSHOT
    assert record.not_restored is not None
    assert "criu ended with" in record.not_restored
    assert left() == []
    assert manifest.id in record.not_restored


@pytest.mark.prove
async def test_another_answer_than_when_it_was_made_is_never_served(
    tmp_path: Path, spec: EngineSpec, snapshots: Snapshots
) -> None:
    (Path(spec.model) / "fake.json").write_text('{"unsteady": true}')
    await made(spec, snapshots)
    start = begin(tmp_path, spec, snapshots)
    engine = await start.run()
    record = start.admit(utc_now())
    await engine.stop(0.0)
    await start.close()
    assert record.kind is not StartKind.SNAPSHOT
    assert record.not_restored is not None
    assert "the golden prompt gave" in record.not_restored
    assert left() == []


async def test_a_start_that_is_cancelled_in_a_restore_leaves_nothing(
    tmp_path: Path, spec: EngineSpec, snapshots: Snapshots
) -> None:
    place, _ = await made(spec, snapshots)
    start = begin(tmp_path, spec, snapshots)
    run = asyncio.create_task(start.run())
    while not left() and not run.done():  # noqa: ASYNC110  (another process begins)
        await asyncio.sleep(0.001)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await start.close()
    assert left() == []
    snapshots.images.remove(place)


@pytest.mark.prove
async def test_no_image_is_made_of_an_engine_that_a_client_has_asked(
    spec: EngineSpec, snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock = EngineStart.run

    async def and_a_client_comes(self: EngineStart) -> object:
        engine = await stock(self)
        async with client(engine.url, 5.0) as http:
            assert (await http.post("/v1/completions", json={"prompt": "secret", "max_tokens": 1})).status_code == 200
        return engine

    monkeypatch.setattr(EngineStart, "run", and_a_client_comes)
    with pytest.raises(NotMadeError, match="has served a client"):
        await made(spec, snapshots)
    assert snapshots.images.places() == ()
    assert left() == []


def test_states_are_those_of_the_gate() -> None:
    assert State.STARTING is next(iter(State)), "a sealed engine is where every engine begins"
