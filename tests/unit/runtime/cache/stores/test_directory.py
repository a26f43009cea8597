"""The store in a directory: what it keeps, and what it does when files, disks and rights are not as they should be."""

import asyncio
import os
import resource
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from runtime.cache.stores import files
from runtime.cache.stores.base import BundleRef, StoreCause, StoreFault
from runtime.cache.stores.directory import DirectoryStore
from runtime.cache.stores.keep import Keep
from runtime.cache.stores.leftovers import this_process
from runtime.cache.stores.patience import Patience
from tests.unit.runtime.cache.killed import bound_by_file_modes, killed_before_act
from tests.unit.runtime.cache.stores.samples import KEY, NOON, OTHER_KEY, Wall, bundle, leftovers


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "store", wall=Wall())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    into = tmp_path / "into"
    into.mkdir()
    return into


async def test_what_is_published_is_the_newest_and_comes_back_whole(
    store: DirectoryStore, tmp_path: Path, place: Path
) -> None:
    file, digest = bundle(tmp_path, size_bytes=9_000_000)
    ref = await store.publish(KEY, file, digest, {"pod": "chat-0"})
    assert await store.newest(KEY) == ref
    assert await store.newest(OTHER_KEY) is None
    seen: list[tuple[int, int]] = []
    await store.fetch(ref, place / "b", lambda done, total: seen.append((done, total)))
    assert (place / "b").read_bytes() == file.read_bytes()
    assert seen[-1] == (9_000_000, 9_000_000)
    assert len(seen) == 3  # in chunks, not at once
    (listed,) = await store.list()
    assert (listed.metadata, listed.size_bytes) == ({"pod": "chat-0"}, 9_000_000)
    assert leftovers(tmp_path) == []


async def test_the_pointer_follows_what_was_published_last_not_the_greatest_time(
    store: DirectoryStore, tmp_path: Path
) -> None:
    first = await store.publish(KEY, *bundle(tmp_path, 1))
    behind = DirectoryStore(tmp_path / "store", wall=lambda: NOON - timedelta(days=1))
    second = await behind.publish(KEY, *bundle(tmp_path, 2))
    assert await store.newest(KEY) == second
    assert await store.list(KEY) == (second, first)


async def test_publishing_again_makes_it_the_newest_again(store: DirectoryStore, tmp_path: Path) -> None:
    old = await store.publish(KEY, *bundle(tmp_path, 1))
    await store.publish(KEY, *bundle(tmp_path, 2))
    again = await store.publish(KEY, *bundle(tmp_path, 1))
    assert again == old
    assert await store.newest(KEY) == old
    assert (await store.list())[-1] == old


async def test_other_bytes_under_the_name_are_left_as_they_are(store: DirectoryStore, tmp_path: Path) -> None:
    file, digest = bundle(tmp_path)
    ref = await store.publish(KEY, file, digest)
    there = tmp_path / "store" / "bundles" / KEY / ref.name
    there.write_bytes(b"other")
    with pytest.raises(StoreFault, match=f"{ref.name}: holds other bytes .* delete it") as caught:
        await store.publish(KEY, file, digest)
    assert caught.value.cause is StoreCause.CORRUPT
    assert there.read_bytes() == b"other"


async def test_a_file_of_another_digest_is_not_published(store: DirectoryStore, tmp_path: Path) -> None:
    file, _ = bundle(tmp_path)
    with pytest.raises(StoreFault, match="has the sha256") as caught:
        await store.publish(KEY, file, "0" * 64)
    assert caught.value.cause is StoreCause.CORRUPT
    assert await store.list() == ()


@pytest.mark.parametrize("key", ["", "..", "../" * 3 + "a" * 55, "A" * 64, "a" * 65, "a" * 63 + "\n", "٠" * 64])
async def test_a_key_can_name_no_other_place(store: DirectoryStore, tmp_path: Path, key: str) -> None:
    file, digest = bundle(tmp_path)
    for attempt in (store.publish(key, file, digest), store.newest(key), store.list(key)):
        with pytest.raises(ValueError, match="64 lower-case hex"):
            await attempt
    assert not (tmp_path / "store").exists()


async def test_a_directory_that_is_not_there_is_said(store: DirectoryStore, tmp_path: Path) -> None:
    for attempt in (store.newest(KEY), store.list(), store.list(KEY)):
        with pytest.raises(StoreFault, match="no such directory; mount the volume") as caught:
            await attempt
        assert caught.value.cause is StoreCause.ABSENT
    below_a_missing_mount = DirectoryStore(tmp_path / "mnt" / "caches")
    with pytest.raises(StoreFault) as caught:
        await below_a_missing_mount.publish(KEY, *bundle(tmp_path))
    assert caught.value.cause is StoreCause.ABSENT
    assert not (tmp_path / "mnt").exists()


async def test_a_file_without_end_fills_no_disk(store: DirectoryStore, tmp_path: Path, place: Path) -> None:
    """What is longer than its record says is dropped as soon as that shows, not when it ends."""
    ref = await store.publish(KEY, *bundle(tmp_path))
    os.truncate(tmp_path / "store" / "bundles" / KEY / ref.name, 2**40)
    with pytest.raises(StoreFault, match=f"{ref.name} is longer than the 300000 bytes") as caught:
        await store.fetch(ref, place / "b")
    assert caught.value.cause is StoreCause.CORRUPT
    assert list(place.iterdir()) == []


async def test_what_a_dead_start_left_is_swept_by_the_next(store: DirectoryStore, tmp_path: Path, place: Path) -> None:
    ref = await store.publish(KEY, *bundle(tmp_path))
    dead = place / replace(this_process(), started="1").temp_name()
    dead.touch()
    await store.fetch(ref, place / "b")
    assert [path.name for path in place.iterdir()] == ["b"]


async def test_deleted_between_list_and_fetch(store: DirectoryStore, tmp_path: Path, place: Path) -> None:
    ref = await store.publish(KEY, *bundle(tmp_path))
    await store.delete(ref)
    await store.delete(ref)
    with pytest.raises(StoreFault) as caught:
        await store.fetch(ref, place / "b")
    assert caught.value.cause is StoreCause.ABSENT
    assert list(place.iterdir()) == []
    assert await store.newest(KEY) is None


async def test_deleted_while_it_is_read_it_is_read_to_its_end(
    store: DirectoryStore, tmp_path: Path, place: Path
) -> None:
    file, digest = bundle(tmp_path, size_bytes=9_000_000)
    ref = await store.publish(KEY, file, digest)
    folder = tmp_path / "store" / "bundles" / KEY

    def remove(done: int, total: int) -> None:
        for path in folder.iterdir():
            path.unlink()

    await store.fetch(ref, place / "b", remove)
    assert (place / "b").read_bytes() == file.read_bytes()


@pytest.mark.parametrize("damage", ["flip", "cut", "grow", "link", "pipe", "directory"])
async def test_what_is_not_what_its_name_says_is_not_delivered(
    store: DirectoryStore, tmp_path: Path, place: Path, damage: str
) -> None:
    file, digest = bundle(tmp_path)
    ref = await store.publish(KEY, file, digest)
    there = tmp_path / "store" / "bundles" / KEY / ref.name
    data = bytearray(there.read_bytes())
    there.unlink()
    match damage:
        case "flip":
            data[1000] ^= 1
            there.write_bytes(data)
        case "cut":
            there.write_bytes(data[:-1])
        case "grow":
            there.write_bytes(data + b"x")
        case "link":
            there.symlink_to(file)
        case "pipe":
            os.mkfifo(there)
        case "directory":
            there.mkdir()
    (place / "b").write_bytes(b"as it was")
    with pytest.raises(StoreFault) as caught:
        await store.fetch(ref, place / "b")
    assert caught.value.cause is StoreCause.CORRUPT
    assert [path.name for path in place.iterdir()] == ["b"]
    assert (place / "b").read_bytes() == b"as it was"


@pytest.mark.parametrize("pointer", [b"", b"{", b"\x00" * 100, None])
async def test_a_damaged_pointer_costs_a_look_at_the_records(
    store: DirectoryStore, tmp_path: Path, pointer: bytes | None
) -> None:
    await store.publish(KEY, *bundle(tmp_path, 1))
    ref = await store.publish(KEY, *bundle(tmp_path, 2))
    newest = tmp_path / "store" / "bundles" / KEY / "newest.json"
    newest.unlink()
    if pointer is not None:
        newest.write_bytes(pointer)
    assert await store.newest(KEY) == ref


async def test_a_pointer_into_another_fingerprint_is_not_followed(store: DirectoryStore, tmp_path: Path) -> None:
    ref = await store.publish(KEY, *bundle(tmp_path, 1))
    await store.publish(OTHER_KEY, *bundle(tmp_path, 2))
    folder = tmp_path / "store" / "bundles"
    (folder / KEY / "newest.json").write_bytes((folder / OTHER_KEY / "newest.json").read_bytes())
    assert await store.newest(KEY) == ref


async def test_deleting_the_newest_points_at_the_one_before(store: DirectoryStore, tmp_path: Path) -> None:
    older = await store.publish(KEY, *bundle(tmp_path, 1))
    newest = await store.publish(KEY, *bundle(tmp_path, 2))
    await store.delete(newest)
    assert await store.newest(KEY) == older
    assert b'"digest": "' + older.digest.encode() in (tmp_path / "store/bundles" / KEY / "newest.json").read_bytes()


async def test_gc_deletes_by_the_rule_and_what_the_dead_left(store: DirectoryStore, tmp_path: Path) -> None:
    refs = [await store.publish(KEY, *bundle(tmp_path, seed)) for seed in (1, 2, 3)]
    folder = tmp_path / "store" / "bundles" / KEY
    orphan = folder / f"{KEY}-{'0' * 64}.bundle"
    fresh = folder / f"{KEY}-{'1' * 64}.bundle"
    foreign = folder / "README"
    for path in (orphan, fresh, foreign):
        path.write_bytes(b"x")
    now = datetime.now(UTC)
    os.utime(orphan, (now.timestamp() - 7 * 3600,) * 2)
    os.utime(foreign, (now.timestamp() - 7 * 3600,) * 2)
    gone = await store.gc(Keep(per_key=2), now)
    assert gone == (refs[0],)
    assert await store.list() == tuple(refs[1:])
    assert not orphan.exists()  # bytes whose record never came
    assert fresh.exists()  # its publisher may be about to write the record
    assert foreign.exists()  # not ours


async def test_readers_never_see_half_a_bundle_while_others_publish_and_delete(tmp_path: Path, place: Path) -> None:
    """Many hosts on one volume: two publish and delete, two read whatever is newest."""
    hosts = [DirectoryStore(tmp_path / "store", wall=Wall()) for _ in range(4)]
    made = [bundle(tmp_path, seed, 50_000) for seed in range(4)]
    await hosts[0].publish(KEY, *made[0])
    done = asyncio.Event()

    async def write(host: DirectoryStore, mine: list[tuple[Path, str]]) -> None:
        for _ in range(12):
            for each in mine:
                ref = await host.publish(KEY, *each)
            await host.delete(ref)
        done.set()

    async def read(host: DirectoryStore, name: str) -> int:
        whole = 0
        while not done.is_set():
            ref = await host.newest(KEY)
            if ref is None:
                continue
            try:
                await host.fetch(ref, place / name)
                whole += 1
            except StoreFault as fault:
                assert fault.cause is StoreCause.ABSENT  # noqa: PT017  # the only fault that this may bring
        return whole

    async with asyncio.TaskGroup() as group:
        group.create_task(write(hosts[0], made[:2]))
        group.create_task(write(hosts[1], made[2:]))
        readers = [group.create_task(read(hosts[n], f"b{n}")) for n in (2, 3)]
    assert all(reader.result() > 0 for reader in readers)


def test_a_publisher_killed_at_any_step_leaves_nothing_torn(tmp_path: Path) -> None:
    """kill -9 before each act on the store; whoever comes next sees the old or the new, and can publish."""
    root = tmp_path / "store"
    old = asyncio.run(DirectoryStore(root, wall=Wall()).publish(KEY, *bundle(tmp_path, 1)))
    file, digest = bundle(tmp_path, 2)
    into = tmp_path / "into"
    steps = 0
    seen = set()
    while killed_before_act(steps + 1, str(root), lambda: asyncio.run(DirectoryStore(root).publish(KEY, file, digest))):
        steps += 1

        async def look() -> BundleRef:
            store = DirectoryStore(root)
            newest = await store.newest(KEY)
            assert newest is not None
            for ref in {newest, *await store.list()}:
                await store.fetch(ref, into)
            seen.add(newest.digest)
            again = await DirectoryStore(root).publish(KEY, file, digest)
            assert await store.newest(KEY) == again
            assert leftovers(root) == []  # the dead one's, removed by the next
            await store.delete(again)
            return newest

        asyncio.run(look())
    assert steps >= 8
    assert seen == {old.digest, digest}  # the kills fell on both sides of the instant that counts


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file may grow beyond 200 kB, as on a disk with that much left."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_full_disk_is_said_and_leaves_nothing(
    store: DirectoryStore, tmp_path: Path, place: Path, request: pytest.FixtureRequest
) -> None:
    kept = await store.publish(KEY, *bundle(tmp_path, 1))
    big = bundle(tmp_path, 2)
    request.getfixturevalue("small_files")
    for attempt in (store.publish(KEY, *big), store.fetch(kept, place / "b")):
        with pytest.raises(StoreFault) as caught:
            await attempt
        assert caught.value.cause is StoreCause.FULL
    assert leftovers(tmp_path) == []
    assert list(place.iterdir()) == []
    assert await store.newest(KEY) == kept


async def test_readers_need_no_right_to_write(store: DirectoryStore, tmp_path: Path, place: Path) -> None:
    file, digest = bundle(tmp_path)
    ref = await store.publish(KEY, file, digest)
    folders = [path for path in (tmp_path / "store").rglob("*") if path.is_dir()] + [tmp_path / "store"]
    for path in folders:
        path.chmod(0o555)
    with bound_by_file_modes():
        assert await store.newest(KEY) == ref
        await store.fetch(ref, place / "b")
        for attempt in (store.publish(KEY, *bundle(tmp_path, 2)), store.delete(ref)):
            with pytest.raises(StoreFault, match="let this user read") as caught:
                await attempt
            assert caught.value.cause is StoreCause.DENIED
    for path in folders:
        path.chmod(0o755)
    assert (place / "b").read_bytes() == file.read_bytes()


async def test_a_directory_that_may_not_be_read_is_denied(store: DirectoryStore, tmp_path: Path) -> None:
    await store.publish(KEY, *bundle(tmp_path))
    (tmp_path / "store" / "bundles" / KEY).chmod(0)
    with bound_by_file_modes(), pytest.raises(StoreFault) as caught:
        await store.newest(KEY)
    (tmp_path / "store" / "bundles" / KEY).chmod(0o755)
    assert caught.value.cause is StoreCause.DENIED


async def test_a_file_server_that_hangs_holds_nobody(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read that never returns, as from a hard NFS mount: the fetch ends, and so can the process (daemon thread)."""
    ref = await DirectoryStore(tmp_path / "store").publish(KEY, *bundle(tmp_path))
    back = threading.Event()

    def hang(handle: files.Handle, size_bytes: int, offset: int) -> bytes:
        back.wait()
        return b""

    monkeypatch.setattr(files.Handle, "read", hang)
    store = DirectoryStore(tmp_path / "store", patience=Patience(total_s=5, window_s=0.05))
    with pytest.raises(StoreFault, match="0 of 300000 bytes came, then fewer than") as caught:
        await store.fetch(ref, place / "b")
    waiting = [thread for thread in threading.enumerate() if thread.name == "aside-hang"]
    assert [thread.daemon for thread in waiting] == [True]
    back.set()
    assert caught.value.cause is StoreCause.STALLED
    assert list(place.iterdir()) == []
