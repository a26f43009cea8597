"""The locks of publishers: one of many gets through, whatever dies, lies or comes late."""

import asyncio
import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx
import obstore
import pytest
from obstore.exceptions import NotSupportedError
from obstore.store import MemoryStore

from runtime.cache.locks import Lock, LockUnsupported, Seen, from_json, to_json
from runtime.cache.locks_directory import KEPT, DirectoryLock
from runtime.cache.locks_objects import ObjectLock
from runtime.cache.locks_open import open_lock
from runtime.cache.publisher import LockRecord
from runtime.cache.stores.base import BadStoreUrl, StoreCause, StoreFault
from tests.unit.runtime.cache.killed import bound_by_file_modes, killed_before_act
from tests.unit.runtime.cache.servers import Server, moto
from tests.unit.runtime.cache.stores.samples import KEY, leftovers

MINE = LockRecord("me", 1, datetime(2026, 3, 2, 12, tzinfo=UTC), 60)
THEIRS = replace(MINE, holder="them", token=2)


@pytest.fixture(scope="module")
def s3() -> Iterator[Server]:
    with moto() as server:
        url = f"http://127.0.0.1:{server.port}/bundles"
        signed = "AWS4-HMAC-SHA256 Credential=test/20260302/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
        assert httpx.put(url, headers={"Authorization": signed}).status_code == 200
        yield server


@pytest.fixture(params=["directory", "s3", "memory"])
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Lock]:
    """Makes one host's view of the same lock."""
    if request.param == "directory":
        return lambda: DirectoryLock(tmp_path / "store", KEY)
    if request.param == "memory":
        memory = MemoryStore()
        return lambda: ObjectLock(memory, "memory://", KEY)
    server = request.getfixturevalue("s3")
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    return lambda: ObjectLock.at(f"s3://bundles/{tmp_path.name}", KEY)


async def seen(lock: Lock) -> Seen:
    found = await lock.read()
    assert found is not None
    return found


async def test_the_first_record_is_written_once(make: Callable[[], Lock]) -> None:
    first, second = make(), make()
    assert await first.read() is None
    assert await first.write(MINE, None)
    assert not await second.write(THEIRS, None)
    assert (await seen(second)).record == MINE


async def test_a_record_is_replaced_only_by_who_read_it(make: Callable[[], Lock]) -> None:
    first, second = make(), make()
    await first.write(MINE, None)
    both = await seen(first), await seen(second)
    renewed = replace(MINE, renewed_at=datetime(2026, 3, 2, 13, tzinfo=UTC))
    assert await first.write(renewed, both[0])
    assert not await second.write(THEIRS, both[1])
    assert (await seen(second)).record == renewed
    assert await second.write(THEIRS, await seen(second))
    assert (await seen(first)).record == THEIRS


async def test_of_many_at_once_exactly_one_gets_through(make: Callable[[], Lock]) -> None:
    hosts = [make() for _ in range(8)]
    await hosts[0].write(MINE, None)
    for token in range(2, 5):
        read = [await seen(host) for host in hosts]
        wrote = await asyncio.gather(
            *(host.write(replace(THEIRS, holder=f"host-{n}", token=token), read[n]) for n, host in enumerate(hosts))
        )
        assert sum(wrote) == 1
        assert (await seen(hosts[0])).record.holder == f"host-{wrote.index(True)}"


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"holder": 1}', to_json(MINE).replace(b"1", b'"x"', 1), b"\xff"])
def test_what_is_no_record_is_none(data: bytes) -> None:
    assert from_json(to_json(MINE)) == MINE
    assert from_json(to_json(replace(MINE, holder=None))) == replace(MINE, holder=None)
    assert from_json(data) is None


async def test_a_directory_keeps_a_few_records_only(tmp_path: Path) -> None:
    lock, over = DirectoryLock(tmp_path, KEY), None
    for token in range(1, 30):
        assert await lock.write(replace(MINE, token=token), over)
        over = await seen(lock)
    assert len(list((tmp_path / "locks" / KEY).iterdir())) == KEPT
    assert leftovers(tmp_path) == []


async def test_so_late_that_the_number_is_free_again_is_too_late(tmp_path: Path) -> None:
    lock, late = DirectoryLock(tmp_path, KEY), DirectoryLock(tmp_path, KEY)
    await lock.write(MINE, None)
    read_long_ago = await seen(late)
    for token in range(2, 30):
        await lock.write(replace(MINE, token=token), await seen(lock))
    assert not await late.write(THEIRS, read_long_ago)
    assert (await seen(late)).record == replace(MINE, token=29)
    assert not (tmp_path / "locks" / KEY / f"{2:012d}").exists()


async def test_an_answer_that_an_nfs_server_lost_is_no_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link was made, its answer lost, the request sent again: 'exists'. It is ours all the same."""
    real = os.link

    def link(source: Path, target: Path) -> None:
        real(source, target)
        raise FileExistsError(errno.EEXIST, "exists")

    monkeypatch.setattr(os, "link", link)
    lock = DirectoryLock(tmp_path, KEY)
    assert await lock.write(MINE, None)
    assert (await seen(lock)).record == MINE


async def test_without_hard_links_it_is_exclusive_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(source: Path, target: Path) -> None:
        raise OSError(errno.EOPNOTSUPP, "no links here")

    monkeypatch.setattr(os, "link", link)
    lock = DirectoryLock(tmp_path, KEY)
    assert await lock.write(MINE, None)
    assert not await lock.write(THEIRS, None)
    assert (await seen(lock)).record == MINE
    assert leftovers(tmp_path) == []


async def test_a_damaged_record_counts_as_held_for_a_minute(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path, KEY)
    await lock.write(MINE, None)
    await lock.write(replace(MINE, token=2), await seen(lock))
    (tmp_path / "locks" / KEY / f"{2:012d}").write_bytes(b"")
    found = await seen(lock)
    assert (found.record.holder, found.record.token, found.record.ttl_s) == ("unreadable", 2, 60)
    assert await lock.write(replace(THEIRS, token=3), found)


def test_a_writer_killed_at_any_step_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    root = tmp_path / "store"
    asyncio.run(DirectoryLock(root, KEY).write(MINE, None))
    steps, found = 0, set()

    async def take_over() -> None:
        lock = DirectoryLock(root, KEY)
        now = await seen(lock)
        assert await lock.write(replace(THEIRS, token=now.record.token + 1), now)

    async def look() -> None:
        lock = DirectoryLock(root, KEY)
        now = await seen(lock)
        found.add(now.record.holder)
        assert await lock.write(replace(MINE, token=now.record.token + 1), now)
        assert leftovers(root) == []

    while killed_before_act(steps + 1, str(root), lambda: asyncio.run(take_over())):
        steps += 1
        asyncio.run(look())
    assert steps >= 4
    assert found == {"me", "them"}


async def test_a_directory_that_may_not_be_written_is_denied(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with bound_by_file_modes(), pytest.raises(StoreFault) as caught:
        await DirectoryLock(tmp_path, KEY).write(MINE, None)
    tmp_path.chmod(0o755)
    assert caught.value.cause is StoreCause.DENIED


async def test_an_object_that_is_no_lock_is_said() -> None:
    memory = MemoryStore()
    await obstore.put_async(memory, f"locks/{KEY}.json", b"{")
    with pytest.raises(StoreFault, match="no lock of ours; delete the object"):
        await ObjectLock(memory, "memory://", KEY).read()


async def test_a_store_without_conditional_puts_says_that_it_keeps_no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    async def put_async(*args: object, **kwargs: object) -> object:
        raise NotSupportedError("Operation not yet implemented: conditional put")

    monkeypatch.setattr(obstore, "put_async", put_async)
    with pytest.raises(LockUnsupported, match="whoever compiles publishes"):
        await ObjectLock(MemoryStore(), "memory://", KEY).write(MINE, None)


@pytest.mark.parametrize("key", ["..", "a/b", ""])
def test_a_key_can_name_no_other_place(tmp_path: Path, key: str) -> None:
    with pytest.raises(ValueError, match="64 lower-case hex"):
        DirectoryLock(tmp_path, key)
    with pytest.raises(ValueError, match="64 lower-case hex"):
        ObjectLock(MemoryStore(), "memory://", key)


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("/caches", DirectoryLock),
        ("file:///caches", DirectoryLock),
        ("s3://bucket/a", ObjectLock),
        ("gs://bucket", ObjectLock),
        ("oci://registry.example/a", type(None)),
        ("baked:", type(None)),
    ],
)
def test_each_store_keeps_its_own_lock_or_none(url: str, kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    assert type(open_lock(url, KEY)) is kind


@pytest.mark.parametrize("url", ["", "caches", "file://host/a", "http://host/a", "redis://host"])
def test_what_can_keep_no_lock_is_refused(url: str) -> None:
    with pytest.raises(BadStoreUrl, match="can keep no lock"):
        open_lock(url, KEY)


def test_a_lease_needs_a_cluster_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(BadStoreUrl, match="a Lease as lock needs"):  # the package, or else the cluster
        open_lock("lease://team-a", KEY)
