"""A start whose stores are gone, slow, full or contended for, and one that ends early; the fake engine serves."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from runtime.cache import shelf as shelving
from runtime.cache.fingerprint import Fingerprint
from runtime.cache.locks_directory import DirectoryLock
from runtime.cache.publisher import LockRecord
from runtime.cache.roots import Root
from runtime.cache.start_cache import StartCache
from runtime.cache.stores import objects
from runtime.cache.stores.base import BundleRef, StoreCause, StoreFault
from runtime.cache.stores.directory import DirectoryStore
from runtime.cache.stores.objects import ObjectStore
from runtime.cache.stores.open import open_store
from runtime.cache.stores.patience import Patience
from runtime.cache.trust import TrustPolicy
from runtime.contract import CacheUse, Failure, FailureCause, Stage, StartKind, StartRecord, Verdict
from runtime.engine import group
from runtime.engine.start import utc_now
from tests.fakes.model import make_model
from tests.unit.runtime.cache.proxy import Proxy, proxy_to
from tests.unit.runtime.cache.servers import Server, moto
from tests.unit.runtime.cache.starting import ARTIFACT, Machine, until

SIGNED = "AWS4-HMAC-SHA256 Credential=test/20260302/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
SHORT = Patience(total_s=2, window_s=0.5, least_bytes=4096)
BIG = 400_000


def trusts(machine: Machine) -> TrustPolicy:
    return TrustPolicy.own(machine.signer.public, "maker")


def went_without(record: StartRecord) -> str:
    assert (record.outcome, record.cache.verdict, record.cache.origin) == ("ready", Verdict.ABSENT, None)
    return record.cache.note


@pytest.fixture(scope="module")
def s3() -> Iterator[Server]:
    with moto() as server:
        answer = httpx.put(f"http://127.0.0.1:{server.port}/bundles", headers={"Authorization": SIGNED})
        assert answer.status_code == 200
        yield server


@pytest.fixture
async def proxy(s3: Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Proxy]:
    """Between all hosts and S3."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setitem(objects.RETRIES, "max_retries", 0)
    async with proxy_to(s3.port) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
        yield proxy


async def s3_with_a_bundle(tmp_path: Path) -> tuple[str, Machine]:
    """Its URL, and the host that made the bundle, of 400 kB."""
    url = f"s3://bundles/{tmp_path.name}"
    maker = Machine(tmp_path / "maker", model=make_model(tmp_path / "model", compiles=True, artifact_bytes=BIG))
    maker.shelf = shelving.Shelf(maker.root / ".shelf", clock=utc_now, version="0.1.0", publish_to=url)
    record = await maker.start()
    store = open_store(url)
    assert isinstance(store, ObjectStore)
    ref = await store.newest(maker.fingerprint.key)
    assert ref is not None
    assert ref.digest == record.cache.published
    await store.close()
    return url, maker


async def test_s3_that_breaks_in_the_middle(proxy: Proxy, tmp_path: Path) -> None:
    url, maker = await s3_with_a_bundle(tmp_path)
    host = Machine(tmp_path / "host", model=maker.model, stores=[url], policy=trusts(maker), patience=SHORT)
    proxy.break_after, proxy.breaks = 100_000, 10_000
    note = went_without(await host.start())
    assert f"s3://bundles/{tmp_path.name}" in note
    proxy.breaks = 0
    other = Machine(tmp_path / "other", model=maker.model, stores=[url], policy=trusts(maker), patience=SHORT)
    assert (await other.start()).cache.verdict is Verdict.USED


@pytest.mark.parametrize("after_bytes", [0, 100_000])
async def test_s3_that_stalls(proxy: Proxy, tmp_path: Path, after_bytes: int) -> None:
    """Before the first byte, and in the middle of the bundle: the start waits as long as its patience, and goes on."""
    url, maker = await s3_with_a_bundle(tmp_path)
    host = Machine(tmp_path / "host", model=maker.model, stores=[url], policy=trusts(maker), patience=SHORT)
    proxy.stall_after = after_bytes
    record = await host.start()
    assert "no end of" in went_without(record) or "bytes came" in record.cache.note
    assert (await host.start("1")).cache.verdict is Verdict.USED, "it keeps its own"


async def test_a_start_cancelled_while_s3_stalls_ends(proxy: Proxy, tmp_path: Path) -> None:
    url, maker = await s3_with_a_bundle(tmp_path)
    host = Machine(
        tmp_path / "host",
        model=maker.model,
        stores=[url],
        policy=trusts(maker),
        patience=Patience(total_s=300, window_s=300),
    )
    proxy.stall_after = 100_000
    start = host.new()
    run = asyncio.create_task(start.run())
    scratch = host.root / ".shelf" / "scratch"
    await until(lambda: any(scratch.glob("*/*")))
    run.cancel()
    async with asyncio.timeout(20):
        await asyncio.wait({run})
    assert start.record.outcome == "cancelled"
    assert not list(scratch.glob("*"))
    proxy.stall_after = None
    assert (await host.start()).cache.verdict is Verdict.USED


async def test_s3_that_stalls_when_the_bundle_is_published(proxy: Proxy, tmp_path: Path) -> None:
    """The engine serves long since. It is said, and a later start of the host gives the bundle."""
    url = f"s3://bundles/{tmp_path.name}"
    host = Machine(tmp_path / "host", publish_to=url, patience=SHORT)
    proxy.stall_after = 0
    record = await host.start()
    assert "not published: " in went_without(record)
    assert (await host.store.newest(host.fingerprint.key)) is not None
    proxy.stall_after = None
    again = await host.start()
    assert (again.cache.origin, again.cache.verdict) == ("own", Verdict.USED)
    store = open_store(url)
    ref = await store.newest(host.fingerprint.key)
    await store.close()
    assert ref is not None
    assert ref.digest == again.cache.published


async def test_a_replica_that_stops_while_s3_stalls_ends(proxy: Proxy, tmp_path: Path) -> None:
    host = Machine(
        tmp_path / "host", publish_to=f"s3://bundles/{tmp_path.name}", patience=Patience(total_s=300, window_s=300)
    )
    start = host.new()
    engine = await start.run()
    proxy.stall_after = 0
    start.admit(utc_now())
    await until(lambda: bool(list((host.root / ".shelf" / "store").glob("bundles/*/newest.json"))))
    async with asyncio.timeout(20):
        await engine.stop(0)
        await start.close()
    assert not list((host.root / ".shelf" / "scratch").glob("*"))
    proxy.stall_after = None
    assert (await host.start()).cache.origin == "own"


async def test_a_store_that_goes_between_the_look_and_the_fetch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = Machine(tmp_path / "maker", publish_to=f"file://{tmp_path / 'far'}")
    await maker.start()
    host = Machine(tmp_path / "host", stores=[f"file://{tmp_path / 'far'}"], policy=trusts(maker))
    newest = DirectoryStore.newest

    async def unmounted(store: DirectoryStore, key: str) -> BundleRef | None:
        ref = await newest(store, key)
        if store.place.endswith("/far"):
            (tmp_path / "far").rename(tmp_path / "away")
        return ref

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryStore, "newest", unmounted)
        assert "far" in went_without(await host.start())
    assert (await host.start()).cache.origin == "own"


async def test_stores_that_were_never_there(tmp_path: Path) -> None:
    host = Machine(tmp_path / "host", stores=["baked:///nowhere", f"file://{tmp_path / 'none'}"])
    assert "no such directory" in went_without(await host.start())


async def test_a_store_with_a_bug_stops_no_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Machine(tmp_path / "host")

    async def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryStore, "newest", broken)
        note = went_without(await host.start())
    assert note == "no bundle: a bug; no turn to publish: a bug; not published: a bug"
    again = await host.start()
    assert (again.cache.origin, again.cache.published is not None) == ("own", True), "published now"


async def test_a_fingerprint_that_cannot_be_told_stops_no_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Machine(tmp_path / "host")

    def silent(*_: object, **__: object) -> Fingerprint:
        raise RuntimeError("the driver does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(shelving, "fingerprint_of", silent)
        record = await host.start()
        assert went_without(record) == "no fingerprint, so no bundle: the driver does not answer"
        assert record.cache.key is None
        went_without(await host.start())
    assert await host.store.list() == ()


# Publishers


async def test_two_hosts_that_publish_at_once_make_one_bundle(tmp_path: Path) -> None:
    url = f"file://{tmp_path / 'far'}"
    hosts = [Machine(tmp_path / name, publish_to=url) for name in ("a", "b", "c")]
    records = await asyncio.gather(*(host.start() for host in hosts))
    for record in records:
        went_without(record)
    refs = await DirectoryStore(tmp_path / "far").list()
    assert len(refs) == 1
    for host in hosts:
        assert len(await host.store.list()) == 1, "each has its own, by its own key"
    again = await asyncio.gather(*(host.start("1") for host in hosts))
    assert [record.cache.verdict for record in again] == [Verdict.USED] * 3


async def test_two_replicas_that_start_at_once(tmp_path: Path) -> None:
    host = Machine(tmp_path / "host")
    records = await asyncio.gather(host.start("0"), host.start("1"))
    assert [record.cache.verdict for record in records] == [Verdict.ABSENT] * 2
    assert len(await host.store.list()) == 1
    assert host.caches("0") != host.caches("1")
    for replica in ("0", "1", "2"):
        assert (await host.start(replica)).cache.verdict is Verdict.USED


async def test_a_publisher_that_died_is_waited_for_by_nobody(tmp_path: Path) -> None:
    """Its lock is young still: the start does not wait. Once it has expired, the next start publishes."""
    far = tmp_path / "far"
    now = utc_now()
    host = Machine(tmp_path / "host", publish_to=f"file://{far}", clock=lambda: now)
    far.mkdir()
    lock = DirectoryLock(far, host.fingerprint.key)
    assert await lock.write(LockRecord("the-dead", 1, now - timedelta(seconds=10), 60.0), None)
    assert went_without(await host.start()) == (
        "not waited for: the-dead makes a bundle: expected in 50 s, compiling costs 30 s, and a request may wait; "
        "not published: the-dead is making the bundle, and 0 s are over"
    )
    assert await DirectoryStore(far).list() == ()
    now += timedelta(seconds=56)
    record = await host.start()
    assert (record.cache.verdict, record.cache.note) == (Verdict.USED, "")
    assert [ref.digest for ref in await DirectoryStore(far).list()] == [record.cache.published]


async def test_a_store_that_is_full_when_a_bundle_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Machine(tmp_path / "host")

    async def full(*_: object) -> None:
        raise StoreFault(StoreCause.FULL, "file:///store", "no space left", "make room")

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryStore, "publish", full)
        assert went_without(await host.start()) == "not published: file:///store: no space left; make room"
    assert (await host.start()).cache.published is not None


async def test_nothing_compiled_is_nothing_to_publish(tmp_path: Path) -> None:
    host = Machine(tmp_path / "host", model=make_model(tmp_path / "eager"))
    assert went_without(await host.start()) == ""
    again = await host.start()
    assert (again.cache.verdict, again.cache.note) == (Verdict.ABSENT, "")
    assert await host.store.list() == ()


async def test_the_own_store_keeps_two_of_a_fingerprint(tmp_path: Path) -> None:
    host = Machine(tmp_path / "host")
    key = host.fingerprint.key
    for _ in range(4):
        record = await host.start()
        newest = await host.store.newest(key)
        assert newest is not None
        assert newest.digest == record.cache.published
        host.shelf._quarantine.add(newest.digest, "a test", utc_now())
        (host.artifact().parents[4] / "pilotlight-proven.json").unlink()
    assert len(await host.store.list()) == 2


async def test_a_replica_keeps_three_roots(tmp_path: Path) -> None:
    host = Machine(tmp_path / "host")
    for number in range(5):
        host.args = (f"--max-num-seqs={number + 1}",)
        await host.start()
    assert len([path for path in host.caches().iterdir() if path.is_dir()]) == 3
    host.args = ("--max-num-seqs=3",)
    assert (await host.start()).cache.origin == "own", "an argument that was changed back compiles nothing"


# A start that ends early


@pytest.mark.parametrize("stage", [Stage.CACHE_RESTORE, Stage.MODEL_CHECK, Stage.FORK, Stage.COMPILE])
async def test_a_cancelled_start_leaves_the_next_one_what_it_needs(tmp_path: Path, stage: Stage) -> None:
    model = make_model(tmp_path / "model", compiles=True, start_s=0.3)
    host = Machine(tmp_path / "host", model=model)
    assert (await host.start()).cache.verdict is Verdict.ABSENT
    start = host.new()
    run = asyncio.create_task(start.run())
    await until(lambda: start.stage is stage or any(each.stage is stage for each in start.record.stages))
    run.cancel()
    await asyncio.wait({run})
    assert start.record.outcome == "cancelled"
    assert start.pid is None or group.members(start.pid) == ()
    assert not list((host.root / ".shelf" / "scratch").glob("*"))
    assert (await host.start()).cache.verdict is Verdict.USED


async def test_what_a_cancelled_start_compiled_is_not_used(tmp_path: Path) -> None:
    """It may be half written. A start that was proven before does not vouch for what came after it."""
    model = make_model(tmp_path / "model", compiles=True)
    host = Machine(tmp_path / "host", model=model)
    host.shelf._targets.clear()
    await host.start()
    half = host.artifact().with_name("half")
    start = host.new()
    engine = await start.run()  # proven, and gives the proof back
    start.admit(utc_now())
    await engine.stop(0)
    await start.close()
    assert (await host.start()).cache.origin == "own"
    start = host.new()
    run = asyncio.create_task(start.run())
    await until(lambda: start.pid is not None)
    half.write_bytes(b"hal")
    run.cancel()
    await asyncio.wait({run})
    record = await host.start()
    assert record.cache.origin is None
    assert not half.exists()


async def test_a_host_that_is_killed_leaves_nothing_that_counts(tmp_path: Path) -> None:
    host = Machine(tmp_path / "host")
    start = host.new()
    engine = await start.run()
    scratch = host.root / ".shelf" / "scratch" / "aa"
    scratch.mkdir(parents=True)
    (scratch / "bundle").write_bytes(b"of a start that was killed")
    await engine.stop(0)
    await start.close()
    successor = Machine(tmp_path / "host")
    assert not scratch.exists()
    record = await successor.start()
    assert (record.cache.origin, record.cache.published is not None) == ("own", True)


async def test_a_failure_without_a_bundle_is_not_held_against_one(tmp_path: Path) -> None:
    """Nor one that is known to have another cause."""
    model = make_model(tmp_path / "model", compiles=True)
    host = Machine(tmp_path / "host", model=model)
    await host.start()
    digest = (await host.start("1")).cache.digest
    assert digest is not None
    bare = StartCache(Root(tmp_path / "bare", host.fingerprint.key), CacheUse(key=host.fingerprint.key), tmp_path / "s")
    with_it = StartCache(bare.root, CacheUse(key=bare.root.key, origin="far", digest=digest), tmp_path / "s")
    for cache, cause, quarantined in (
        (bare, FailureCause.EXITED, False),
        (with_it, FailureCause.NO_MEMORY, False),
        (with_it, FailureCause.EXITED, False),
        (bare, FailureCause.EXITED, False),
        (with_it, FailureCause.EXITED, True),
    ):
        failure = Failure(cause=cause, message="a test", at=utc_now())
        assert (await host.shelf.blame(cache, failure, 10.0) is not None) is quarantined
        assert bool(host.shelf._quarantine.rows(utc_now())) is quarantined


async def test_a_success_between_two_failures_clears_a_bundle(tmp_path: Path) -> None:
    host = Machine(tmp_path / "host")
    root = Root(tmp_path / "caches" / "r", host.fingerprint.key)
    cache = StartCache(root, CacheUse(key=root.key, origin="far", digest="4f" * 32), tmp_path / "s")
    failure = Failure(cause=FailureCause.EXITED, message="a test", at=utc_now())
    assert await host.shelf.blame(cache, failure, 10.0) is None
    await host.shelf.publish(cache, golden=None, compile_s=None)
    assert await host.shelf.blame(cache, failure, 10.0) is None
    assert await host.shelf.blame(cache, failure, 10.0) is not None


async def test_an_engine_that_dies_of_what_it_compiled_itself(tmp_path: Path) -> None:
    """Ready, published, and dead by SIGSEGV: neither the directory nor the bundle is used again."""
    host = Machine(tmp_path / "host")
    start = host.new()
    engine = await start.run()
    start.admit(utc_now())
    await start.published()
    published = start.record.cache.published
    await engine.stop(0)
    numbers: dict[str, float | str] = {"how": "killed", "signal": "SIGSEGV"}
    died = Failure(cause=FailureCause.DIED_AFTER_READY, message="died", at=utc_now(), numbers=numbers)
    assert host.next_kind() is StartKind.CACHED_NODE
    record = await start.note_end(died)
    await start.close()
    assert "put aside: SIGSEGV" in record.cache.note
    assert host.next_kind() is StartKind.COLD_NODE
    again = await host.start()
    assert (again.cache.origin, again.cache.verdict) == (None, Verdict.QUARANTINED)
    assert again.cache.published not in (None, published)
    assert host.next_kind() is StartKind.CACHED_NODE
    assert list(host.caches().glob(f"*/{ARTIFACT}"))
