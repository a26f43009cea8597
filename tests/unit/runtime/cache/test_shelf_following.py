"""Starts that wait for a bundle which another start makes; the fake engine serves."""

import asyncio
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from runtime.cache import turns
from runtime.cache.locks_directory import DirectoryLock
from runtime.cache.publisher import LockRecord
from runtime.cache.stores.base import StoreCause, StoreFault
from runtime.cache.stores.directory import DirectoryStore
from runtime.contract import Failure, FailureCause, Stage, StartRecord, Verdict
from runtime.engine.start import utc_now
from tests.fakes.model import make_model
from tests.unit.runtime.cache.following_host import STEPS
from tests.unit.runtime.cache.starting import Machine, until

ROOT = Path(__file__).parents[4]


class Host(Machine):
    """One that nobody waits for, and that has time."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.awaited, self.start_timeout_s = False, 600


def compiling(path: Path, seconds: float = 0.5) -> Path:
    return make_model(path, compiles=True, start_s=seconds)


async def test_of_two_replicas_that_start_at_once_one_compiles(tmp_path: Path) -> None:
    host = Host(tmp_path / "host", model=compiling(tmp_path / "m"))
    first, second = await asyncio.gather(host.start("0"), host.start("1"))
    assert {first.cache.verdict, second.cache.verdict} == {Verdict.ABSENT, Verdict.USED}
    made, used = sorted((first, second), key=lambda record: record.cache.verdict is Verdict.USED)
    assert (used.cache.digest, used.golden_tokens) == (made.cache.published, made.golden_tokens)
    assert made.cache.note == ""
    assert used.cache.note.startswith("found after ")
    (waited,) = host.waits
    assert "makes a bundle: expected in 50 s, compiling costs 30 s; it is waited for 60 s at most" in waited
    assert (await host.start("2")).cache.note == ""


async def test_whom_a_request_waits_for_does_not_wait(tmp_path: Path) -> None:
    """Nor who cannot tell. Both compile, one publishes, and nothing is held afterwards."""
    for awaited in (True, None):
        root = tmp_path / str(awaited)
        host = Host(root / "host", model=compiling(root / "m"))
        host.awaited = awaited
        records = await asyncio.gather(host.start("0"), host.start("1"))
        assert [record.cache.verdict for record in records] == [Verdict.ABSENT] * 2
        assert host.waits == []
        (note,) = (record.cache.note for record in records if record.cache.note)
        assert note.startswith("not waited for: ")
        assert " expected in 50 s, compiling costs 30 s, and a request may wait" in note
        assert len(await host.store.list()) == 1


async def test_a_request_that_comes_ends_the_wait(tmp_path: Path) -> None:
    far = tmp_path / "far"
    host = Host(tmp_path / "host", model=compiling(tmp_path / "m"), publish_to=f"file://{far}")
    far.mkdir()
    held = LockRecord("another", 1, utc_now(), 600.0, utc_now())
    assert await DirectoryLock(far, host.fingerprint.key).write(held, None)
    start = asyncio.create_task(host.start())
    await until(lambda: bool(host.waits))
    host.awaited = True
    record = await start
    assert record.cache.verdict is Verdict.ABSENT
    assert "not waited for: another makes a bundle: expected in " in record.cache.note
    assert record.cache.published is not None, "the host's own store has it"


async def test_what_starts_took_is_known_to_the_next(tmp_path: Path) -> None:
    """A compile of half a second is not waited for, where a whole start takes longer."""
    far = tmp_path / "far"
    host = Host(tmp_path / "host", model=compiling(tmp_path / "m"), publish_to=f"file://{far}")
    assert (await host.start()).cache.verdict is Verdict.ABSENT
    known = host.shelf._experience.known("test/one")
    assert known.saves_s is not None
    assert known.whole_s is not None
    assert 0.5 <= known.saves_s < known.whole_s
    host.args = ("--max-num-seqs=3",)
    held = LockRecord("another", 1, utc_now(), 600.0, utc_now() + timedelta(hours=1))
    assert await DirectoryLock(far, host.fingerprint.key).write(held, None)
    for _ in range(5):
        host.shelf._experience.took("test/one", 0.5, compiled=True, whole_s=20.0)
    record = await host.start()
    assert record.cache.verdict is Verdict.ABSENT
    assert "another makes a bundle: expected in 20 s, compiling costs 0 s" in record.cache.note
    assert host.waits == []


async def test_eager_engines_wait_for_nothing(tmp_path: Path) -> None:
    host = Host(tmp_path / "host", model=make_model(tmp_path / "eager", start_s=0.2))
    assert (await host.start()).cache.verdict is Verdict.ABSENT
    records = await asyncio.gather(host.start("1"), host.start("2"))
    assert host.waits == []
    assert [record.cache.verdict for record in records] == [Verdict.ABSENT] * 2
    assert await host.store.list() == ()


@pytest.mark.parametrize("end", ["failed", "cancelled"])
async def test_a_start_that_comes_to_nothing_gives_its_turn_up_at_once(tmp_path: Path, end: str) -> None:
    far = tmp_path / "far"
    model = compiling(tmp_path / "m", 4.0)
    host = Host(tmp_path / "host", model=model, publish_to=f"file://{far}")
    other = Host(tmp_path / "other", model=model, publish_to=f"file://{far}", policy=host.trust)
    start = host.new()
    run = asyncio.create_task(start.run())
    await until(lambda: start.stage is Stage.COMPILE)
    followed = asyncio.create_task(other.start())
    await until(lambda: bool(other.waits))
    if end == "cancelled":
        run.cancel()
    else:
        assert start.pid is not None
        os.kill(start.pid, signal.SIGKILL)
    await asyncio.wait({run})
    assert run.cancelled() or run.exception() is not None
    assert start.record.outcome == end
    lock = await DirectoryLock(far, host.fingerprint.key).read()
    assert lock is not None
    record = await followed
    assert record.cache.verdict is Verdict.ABSENT
    assert "its turn came after" in record.cache.note
    assert [ref.digest for ref in await DirectoryStore(far).list()] == [record.cache.published]


async def test_a_bundle_that_this_host_does_not_take_is_not_waited_for(tmp_path: Path) -> None:
    """It is there, by a key that is not trusted: nobody makes another one, and nothing is published over it."""
    far = tmp_path / "far"
    model = compiling(tmp_path / "m")
    maker = Host(tmp_path / "maker", model=model, publish_to=f"file://{far}")
    await maker.start()
    host = Host(tmp_path / "host", model=model, publish_to=f"file://{far}")
    record = await host.start()
    assert (record.cache.verdict, host.waits) == (Verdict.ABSENT, [])
    assert "refused" in record.cache.note
    assert len(await DirectoryStore(far).list()) == 1
    assert len(await host.store.list()) == 1


async def test_a_bundle_that_comes_and_is_refused(tmp_path: Path) -> None:
    """Waited for in vain: it is by a key that is not trusted. The start compiles, and the host's own store has it."""
    far = tmp_path / "far"
    model = compiling(tmp_path / "m")
    maker = Host(tmp_path / "maker", model=model, publish_to=f"file://{far}")
    host = Host(tmp_path / "host", model=model, publish_to=f"file://{far}")
    making = maker.new()
    run = asyncio.create_task(making.run())
    await until(lambda: making.stage is Stage.COMPILE)
    waiting = asyncio.create_task(host.start())
    await until(lambda: bool(host.waits))
    engine = await run
    making.admit(utc_now())
    published = (await making.published()).cache.published
    await engine.stop(0)
    await making.close()
    record = await waiting
    assert (record.cache.verdict, record.cache.origin) == (Verdict.ABSENT, None)
    assert f"bundle {str(published)[:12]} of file://{far} refused" in record.cache.note
    assert [ref.digest for ref in await DirectoryStore(far).list()] == [published]
    assert (await host.start("1")).cache.verdict is Verdict.USED


async def test_a_store_that_fails_delays_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lock cannot be read: the start compiles without a turn, and publishes where it can."""
    far = tmp_path / "far"
    host = Host(tmp_path / "host", model=compiling(tmp_path / "m"), publish_to=f"file://{far}")

    async def broken(*_: object) -> None:
        raise StoreFault(StoreCause.STALLED, "file:///far", "no end of reading the lock in 10 s", "look at it")

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryLock, "read", broken)
        record = await host.start()
    assert record.cache.verdict is Verdict.ABSENT
    assert "no turn to publish: file:///far: no end of reading the lock in 10 s" in record.cache.note
    assert record.cache.published is not None


async def test_a_store_that_did_not_answer_is_not_asked_for_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its silence has cost the start a wait already."""
    host = Host(tmp_path / "host", model=compiling(tmp_path / "m"), publish_to=f"file://{tmp_path / 'far'}")
    asked: list[object] = []
    newest = DirectoryStore.newest

    async def silent(store: DirectoryStore, key: str) -> object:
        if store.place.endswith("/far"):
            raise StoreFault(StoreCause.STALLED, store.place, "no answer", "look at it")
        return await newest(store, key)

    async def asked_for(self: DirectoryLock) -> None:
        asked.append(self)

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryStore, "newest", silent)
        patch.setattr(DirectoryLock, "read", asked_for)
        engine = await (start := host.new()).run()
        assert asked == []
    await engine.stop(0)
    await start.close()


async def test_a_lock_that_cannot_be_given_back_keeps_nothing_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(tmp_path / "host", model=compiling(tmp_path / "m"), publish_to=f"file://{tmp_path / 'far'}")
    start = host.new()
    engine = await start.run()

    async def stalls(*_: object) -> None:
        await asyncio.sleep(600)

    monkeypatch.setattr(turns, "GIVE_BACK_S", 0.1)
    monkeypatch.setattr(DirectoryLock, "read", stalls)
    await engine.stop(0)
    async with asyncio.timeout(20):
        await start.close()


async def test_a_failure_of_the_engine_after_the_proof_gives_the_turn_back(tmp_path: Path) -> None:
    host = Host(tmp_path / "host", model=compiling(tmp_path / "m"))
    start = host.new()
    engine = await start.run()
    start.admit(utc_now())
    await start.published()
    await engine.stop(0)
    await start.note_end(Failure(cause=FailureCause.DIED_AFTER_READY, message="died", at=utc_now()))
    await start.close()
    await host.start("1")
    assert host.waits == []


# Two hosts, each a process


def begin(tmp_path: Path, name: str, *step: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "tests.unit.runtime.cache.following_host"]
    argv += [str(tmp_path / name), str(tmp_path / "far"), str(tmp_path / "m"), *step]
    return subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(host: subprocess.Popen[str]) -> StartRecord:
    said, errors = host.communicate(timeout=60)
    assert host.returncode == 0, errors[-3000:]
    return StartRecord.model_validate_json(said)


def published(tmp_path: Path) -> list[str]:
    return [ref.digest for ref in asyncio.run(DirectoryStore(tmp_path / "far").list())]


def test_of_two_hosts_that_start_at_once_one_compiles(tmp_path: Path) -> None:
    compiling(tmp_path / "m", 2.0)
    (tmp_path / "far").mkdir()
    hosts = [begin(tmp_path, name) for name in ("a", "b")]
    records = sorted((ended(host) for host in hosts), key=lambda record: record.cache.verdict is Verdict.USED)
    assert [record.cache.verdict for record in records] == [Verdict.ABSENT, Verdict.USED]
    made, used = records
    assert used.cache.origin == f"file://{tmp_path / 'far'}"
    assert used.cache.note.startswith("found after ")
    assert (used.golden_tokens, used.cache.digest) == (made.golden_tokens, made.cache.published)
    assert published(tmp_path) == [made.cache.published]


# One in CI; each is two hosts as processes, and a dead one's turn that runs out.
@pytest.mark.parametrize(
    "step", [pytest.param(step, marks=[pytest.mark.prove] * (step != "publishing")) for step in STEPS]
)
def test_a_host_killed_while_another_waits_for_it(tmp_path: Path, step: str) -> None:
    """Who waits takes the turn over, or the bundle, if it is there; it serves either way."""
    compiling(tmp_path / "m", 2.0)
    dying = begin(tmp_path, "dying", step)
    try:
        locks = tmp_path / "far" / "locks"

        async def holds() -> None:
            await until(lambda: any(locks.glob("*/[0-9]*")) or dying.poll() is not None)

        asyncio.run(holds())
        record = ended(begin(tmp_path, "next"))
    finally:
        dying.kill()
        dying.communicate()
    assert dying.returncode == -9
    assert record.outcome == "ready"
    if step == "published":
        assert record.cache.verdict is Verdict.USED
        assert record.cache.note.startswith("found after ")
    else:
        assert record.cache.verdict is Verdict.ABSENT
        assert "its turn came after " in record.cache.note
        assert record.cache.published is not None
    assert published(tmp_path) == [record.cache.published or record.cache.digest]
