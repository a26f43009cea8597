"""The store in S3, against a real moto server; what a network does to it, through a proxy of our own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import obstore
import pytest
from obstore.exceptions import NotSupportedError
from obstore.store import MemoryStore

from runtime.cache.stores import objects
from runtime.cache.stores.base import BundleRef, StoreCause, StoreFault
from runtime.cache.stores.keep import Keep
from runtime.cache.stores.objects import ObjectStore
from runtime.cache.stores.patience import Patience
from tests.unit.runtime.cache.proxy import Proxy, proxy_to
from tests.unit.runtime.cache.servers import Server, moto
from tests.unit.runtime.cache.stores.samples import KEY, NOON, OTHER_KEY, bundle

At = Callable[[int], ObjectStore]
SIZE_BYTES = 2_000_000


@pytest.fixture(scope="module")
def s3() -> Iterator[Server]:
    with moto() as server:
        yield server


def make_bucket(server: Server) -> None:
    answer = httpx.put(f"http://127.0.0.1:{server.port}/bundles", headers={"Authorization": SIGNED})
    assert answer.status_code == 200


SIGNED = "AWS4-HMAC-SHA256 Credential=test/20260302/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> At:
    """The store at a port of loopback, by the environment as an operator gives it; each test has its prefix."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(objects.RETRIES, "max_retries", 0)

    def at(port: int) -> ObjectStore:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        return ObjectStore.at(f"s3://bundles/{tmp_path.name}", patience=Patience(total_s=20, window_s=5))

    return at


@pytest.fixture
def store(s3: Server, at: At) -> ObjectStore:
    make_bucket(s3)
    return at(s3.port)


@pytest.fixture
async def proxy(s3: Server) -> AsyncIterator[Proxy]:
    async with proxy_to(s3.port) as proxy:
        yield proxy


async def test_what_is_published_is_the_newest_and_comes_back_whole(store: ObjectStore, tmp_path: Path) -> None:
    file, digest = bundle(tmp_path, size_bytes=SIZE_BYTES)
    older = await store.publish(KEY, *bundle(tmp_path, 2))
    ref = await store.publish(KEY, file, digest, {"pod": "chat-0"})
    assert await store.newest(KEY) == ref
    assert await store.newest(OTHER_KEY) is None
    seen: list[int] = []
    await store.fetch(ref, tmp_path / "b", lambda done, total: seen.append(done))
    assert (tmp_path / "b").read_bytes() == file.read_bytes()
    assert len(seen) > 1
    assert seen[-1] == SIZE_BYTES
    listed = await store.list()
    assert listed == await store.list(KEY) == (older, ref)
    assert listed[-1].metadata == {"pod": "chat-0"}


async def test_a_large_bundle_goes_up_in_parts(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "ONE_PUT_BYTES", 1000)
    file, digest = bundle(tmp_path, size_bytes=11_000_000)
    ref = await store.publish(KEY, file, digest)
    await store.fetch(ref, tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == file.read_bytes()


async def test_two_publish_the_same_at_once_and_both_are_content(store: ObjectStore, tmp_path: Path) -> None:
    file, digest = bundle(tmp_path)
    first, second = await asyncio.gather(store.publish(KEY, file, digest), store.publish(KEY, file, digest))
    assert first == second
    assert await store.list() == (first,)


async def test_other_bytes_under_the_name_are_left_as_they_are(store: ObjectStore, tmp_path: Path) -> None:
    file, digest = bundle(tmp_path)
    await obstore.put_async(store._raw, f"{KEY}/{KEY}-{digest}.bundle", b"other")
    with pytest.raises(StoreFault, match="holds 5 bytes, not 300000, and is left") as caught:
        await store.publish(KEY, file, digest)
    assert caught.value.cause is StoreCause.CORRUPT
    assert await store.newest(KEY) is None


async def test_a_damaged_pointer_costs_a_look_at_the_records(store: ObjectStore, tmp_path: Path) -> None:
    await store.publish(KEY, *bundle(tmp_path, 1))
    ref = await store.publish(KEY, *bundle(tmp_path, 2))
    await obstore.put_async(store._raw, f"{KEY}/newest.json", b"{")
    assert await store.newest(KEY) == ref
    await obstore.delete_async(store._raw, f"{KEY}/newest.json")
    assert await store.newest(KEY) == ref


async def test_delete_and_gc(store: ObjectStore, tmp_path: Path) -> None:
    refs = [await store.publish(KEY, *bundle(tmp_path, seed, 1000)) for seed in (1, 2, 3)]
    assert await store.gc(Keep(per_key=2), NOON) == (refs[0],)
    await store.delete(refs[2])
    await store.delete(refs[2])
    assert await store.newest(KEY) == refs[1]
    await store.delete(refs[1])
    assert await store.newest(KEY) is None
    assert await store.list() == ()
    assert [each async for page in obstore.list(store._raw) for each in page] == []  # nothing is left lying


async def test_deleted_between_list_and_fetch(store: ObjectStore, tmp_path: Path) -> None:
    ref = await store.publish(KEY, *bundle(tmp_path))
    await store.delete(ref)
    with pytest.raises(StoreFault) as caught:
        await store.fetch(ref, tmp_path / "b")
    assert caught.value.cause is StoreCause.ABSENT
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("size_bytes", [100, 500_000])
async def test_an_object_of_another_size_is_not_even_begun(store: ObjectStore, tmp_path: Path, size_bytes: int) -> None:
    ref = await store.publish(KEY, *bundle(tmp_path))
    await obstore.put_async(store._raw, f"{KEY}/{ref.name}", b"x" * size_bytes)
    seen: list[int] = []
    with pytest.raises(StoreFault, match=f"has {size_bytes} bytes, not the 300000 of its record") as caught:
        await store.fetch(ref, tmp_path / "b", lambda done, total: seen.append(done))
    assert caught.value.cause is StoreCause.CORRUPT
    assert seen == []


async def test_no_such_bucket_is_said(s3: Server, at: At, tmp_path: Path) -> None:
    at(s3.port)
    other = ObjectStore.at("s3://nosuchbucket/x")
    for attempt in (other.newest(KEY), other.list(), other.publish(KEY, *bundle(tmp_path))):
        with pytest.raises(StoreFault, match="make the bucket") as caught:
            await attempt
        assert caught.value.cause is StoreCause.ABSENT


async def fault_of_fetch(store: ObjectStore, ref: BundleRef, into: Path) -> StoreFault:
    with pytest.raises(StoreFault) as caught:
        await store.fetch(ref, into)
    assert not into.exists()
    assert [path for path in into.parent.iterdir() if path.name.startswith(".tmp")] == []
    return caught.value


async def test_a_transfer_that_breaks_is_taken_up_where_it_stood(
    store: ObjectStore, at: At, proxy: Proxy, tmp_path: Path
) -> None:
    file, digest = bundle(tmp_path, size_bytes=SIZE_BYTES)
    ref = await store.publish(KEY, file, digest)
    proxy.break_after, proxy.breaks = 700_000, 2
    await at(proxy.port).fetch(ref, tmp_path / "b")
    assert proxy.breaks == 0
    assert (tmp_path / "b").read_bytes() == file.read_bytes()


async def test_a_store_that_stalls_does_not_hold_the_start(
    store: ObjectStore, at: At, proxy: Proxy, tmp_path: Path
) -> None:
    ref = await store.publish(KEY, *bundle(tmp_path, size_bytes=SIZE_BYTES))
    proxy.stall_after = 1_000_000
    slow = at(proxy.port)
    slow._patience = Patience(total_s=20, window_s=0.3)
    fault = await fault_of_fetch(slow, ref, tmp_path / "b")
    assert fault.cause is StoreCause.STALLED
    assert "of 2000000 bytes came, then fewer than" in str(fault)


async def test_a_store_that_never_answers_does_not_hold_the_start(at: At, proxy: Proxy) -> None:
    proxy.stall_after = 0
    slow = at(proxy.port)
    slow._patience = Patience(total_s=20, window_s=0.3)
    with pytest.raises(StoreFault, match=r"no end of reading .*newest\.json in 0\.3 s") as caught:
        await slow.newest(KEY)
    assert caught.value.cause is StoreCause.STALLED


async def test_a_wrong_byte_on_the_way_is_found(store: ObjectStore, at: At, proxy: Proxy, tmp_path: Path) -> None:
    file, digest = bundle(tmp_path, size_bytes=SIZE_BYTES)
    ref = await store.publish(KEY, file, digest)
    part = file.read_bytes()[1_000_000:1_000_008]
    proxy.flip = (part, part[::-1])
    fault = await fault_of_fetch(at(proxy.port), ref, tmp_path / "b")
    assert fault.cause is StoreCause.CORRUPT
    assert "has the sha256" in str(fault)


async def test_the_server_dies_midway(at: At, tmp_path: Path) -> None:
    with moto() as dying:
        make_bucket(dying)
        ref = await at(dying.port).publish(KEY, *bundle(tmp_path, size_bytes=SIZE_BYTES))
        async with proxy_to(dying.port) as proxy:
            proxy.break_after, proxy.breaks = 1_000_000, 1
            store = at(proxy.port)
            with pytest.raises(StoreFault) as caught:
                await store.fetch(ref, tmp_path / "b", lambda done, total: dying.kill())
    assert caught.value.cause is StoreCause.UNREACHABLE
    assert not (tmp_path / "b").exists()


async def test_nobody_listens(at: At, tmp_path: Path) -> None:
    store = at(1)
    for attempt in (store.newest(KEY), store.list(), store.publish(KEY, *bundle(tmp_path))):
        with pytest.raises(StoreFault, match="look at the endpoint") as caught:
            await attempt
        assert caught.value.cause is StoreCause.UNREACHABLE


async def test_credentials_that_are_not_known_are_denied(at: At, tmp_path: Path) -> None:
    with moto(INITIAL_NO_AUTH_ACTION_COUNT="1") as strict:  # the one is for the bucket
        make_bucket(strict)
        store = at(strict.port)
        for attempt in (store.newest(KEY), store.list(), store.publish(KEY, *bundle(tmp_path))):
            with pytest.raises(StoreFault, match="give credentials") as caught:
                await attempt
            assert caught.value.cause is StoreCause.DENIED
            assert "\n" not in str(caught.value)


async def test_a_store_without_conditional_puts_is_put_to_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As some that speak S3 do; the same content goes there under the same name, so nothing is lost."""
    real = obstore.put_async
    modes = []

    async def put_async(*args: object, mode: object = None, **kwargs: object) -> object:
        modes.append(mode)
        if mode is not None:
            raise NotSupportedError("Operation not yet implemented: conditional put")
        return await real(*args, **kwargs)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(obstore, "put_async", put_async)
    store = ObjectStore(MemoryStore(), "memory://")
    file, digest = bundle(tmp_path)
    ref = await store.publish(KEY, file, digest)
    assert modes == ["create", None, None, None]
    await store.fetch(ref, tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == file.read_bytes()


@pytest.mark.parametrize("key", ["", "..", "../" * 3 + "a" * 55, "A" * 64])
async def test_a_key_can_name_no_other_place(tmp_path: Path, key: str) -> None:
    store = ObjectStore(MemoryStore(), "memory://")
    file, digest = bundle(tmp_path)
    for attempt in (store.publish(key, file, digest), store.newest(key), store.list(key)):
        with pytest.raises(ValueError, match="64 lower-case hex"):
            await attempt


async def test_a_record_without_end_is_not_read(tmp_path: Path) -> None:
    """Whoever may write to the bucket must not be able to fill our memory."""
    store = ObjectStore(MemoryStore(), "memory://")
    ref = await store.publish(KEY, *bundle(tmp_path))
    padded = (await obstore.get_async(store._raw, f"{KEY}/newest.json")).bytes()
    await obstore.put_async(store._raw, f"{KEY}/newest.json", bytes(padded) + b" " * 100_000)
    await obstore.put_async(store._raw, f"{KEY}/{'0' * 64}.json", bytes(padded) + b" " * 100_000)
    assert await store._record(f"{KEY}/newest.json") is None
    assert await store.newest(KEY) == ref


async def test_one_record_that_fails_fails_the_list_and_leaves_no_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ObjectStore(MemoryStore(), "memory://")
    for seed in range(12):
        await store.publish(KEY, *bundle(tmp_path, seed, 100))

    async def record(name: str) -> BundleRef | None:
        raise StoreFault(StoreCause.DENIED, "there", name, "none")

    monkeypatch.setattr(store, "_record", record)
    before = asyncio.all_tasks()
    with pytest.raises(StoreFault):
        await store.list()
    assert asyncio.all_tasks() == before
