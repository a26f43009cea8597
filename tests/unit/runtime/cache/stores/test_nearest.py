"""The nearest store that has it, whatever the others do."""

import asyncio
from pathlib import Path

import pytest

from runtime.cache.stores.baked import BakedStore
from runtime.cache.stores.base import BundleRef, Progress, Store, StoreCause, StoreFault
from runtime.cache.stores.directory import DirectoryStore
from runtime.cache.stores.nearest import fetch_nearest
from tests.unit.runtime.cache.killed import bound_by_file_modes
from tests.unit.runtime.cache.stores.samples import KEY, bundle


class Failing(DirectoryStore):
    """A store that says no."""

    async def newest(self, key: str) -> BundleRef | None:
        raise StoreFault(StoreCause.UNREACHABLE, self.place, "it is down", "look at it")


class Gone(DirectoryStore):
    """A store whose bundle goes between the look and the fetch."""

    async def fetch(self, ref: BundleRef, into: Path, progress: Progress | None = None) -> None:
        raise StoreFault(StoreCause.ABSENT, self.place, "it is gone", "ask again")


class Hanging(DirectoryStore):
    """A store that says nothing."""

    async def newest(self, key: str) -> BundleRef | None:
        await asyncio.Event().wait()
        return None


@pytest.fixture
def into(tmp_path: Path) -> Path:
    (tmp_path / "into").mkdir()
    return tmp_path / "into" / "b"


async def store_with(
    tmp_path: Path, name: str, seed: int, kind: type[DirectoryStore] = DirectoryStore
) -> DirectoryStore:
    await DirectoryStore(tmp_path / name).publish(KEY, *bundle(tmp_path, seed), {"from": name})
    return kind(tmp_path / name)


async def test_the_first_that_has_it_is_taken(tmp_path: Path, into: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    near, far = await store_with(tmp_path, "near", 1), await store_with(tmp_path, "far", 2)
    stores: list[Store] = [BakedStore(tmp_path / "none"), DirectoryStore(empty), near, far]
    came = await fetch_nearest(stores, KEY, into, within_s=20)
    assert (came.place, came.faults) == (near.place, ())
    assert into.read_bytes() == bundle(tmp_path, 1)[0].read_bytes()


async def test_those_that_fail_are_passed_over_and_said(tmp_path: Path, into: Path) -> None:
    lying = await store_with(tmp_path, "lying", 1)
    (file,) = (tmp_path / "lying" / "bundles" / KEY).glob("*.bundle")
    file.write_bytes(b"x" * file.stat().st_size)
    gone = await store_with(tmp_path, "gone", 1, Gone)
    good = await store_with(tmp_path, "good", 2)
    came = await fetch_nearest([Failing(tmp_path / "down"), gone, lying, good], KEY, into, within_s=20)
    assert came.place == good.place
    assert [fault.cause for fault in came.faults] == [StoreCause.UNREACHABLE, StoreCause.ABSENT, StoreCause.CORRUPT]
    assert into.read_bytes() == bundle(tmp_path, 2)[0].read_bytes()


async def test_nobody_has_it(tmp_path: Path, into: Path) -> None:
    came = await fetch_nearest([Failing(tmp_path / "down")], KEY, into, within_s=20)
    assert (came.ref, came.place, len(came.faults)) == (None, None, 1)
    assert not into.exists()


async def test_what_is_quarantined_here_is_not_taken(tmp_path: Path, into: Path) -> None:
    bad, good = await store_with(tmp_path, "bad", 1), await store_with(tmp_path, "good", 2)
    quarantined = frozenset([bundle(tmp_path, 1)[1]])
    came = await fetch_nearest([bad, good], KEY, into, within_s=20, quarantined=quarantined)
    assert came.place == good.place


async def test_a_copy_stays_near_with_what_was_said_of_it(tmp_path: Path, into: Path) -> None:
    own, far = DirectoryStore(tmp_path / "own"), await store_with(tmp_path, "far", 1)
    (tmp_path / "own").mkdir()
    first = await fetch_nearest([own, far], KEY, into, within_s=20, keep_in=own)
    second = await fetch_nearest([own, far], KEY, into, within_s=20, keep_in=own)
    assert (first.place, second.place) == (far.place, own.place)
    assert first.ref == second.ref
    assert second.ref is not None
    assert second.ref.metadata == {"from": "far"}


async def test_a_copy_that_cannot_be_kept_is_no_loss(tmp_path: Path, into: Path) -> None:
    own, far = DirectoryStore(tmp_path / "own"), await store_with(tmp_path, "far", 1)
    (tmp_path / "own").mkdir()
    (tmp_path / "own").chmod(0o555)
    with bound_by_file_modes():
        came = await fetch_nearest([own, far], KEY, into, within_s=20, keep_in=own)
    (tmp_path / "own").chmod(0o755)
    assert came.place == far.place
    assert [fault.cause for fault in came.faults] == [StoreCause.DENIED]
    assert into.exists()


async def test_all_of_them_together_hold_no_start(tmp_path: Path, into: Path) -> None:
    good = await store_with(tmp_path, "good", 1)
    hanging = Hanging(tmp_path / "hanging")
    came = await fetch_nearest([hanging, good], KEY, into, within_s=0.05)
    assert came.ref is None
    assert [(fault.cause, fault.place) for fault in came.faults] == [(StoreCause.STALLED, hanging.place)]


async def test_a_copy_that_takes_too_long_does_not_lose_what_came(tmp_path: Path, into: Path) -> None:
    class Slow(DirectoryStore):
        async def publish(self, *args: object, **kwargs: object) -> BundleRef:
            raise TimeoutError  # as the bound over all stores ends what it is at

    far = await store_with(tmp_path, "far", 1)
    came = await fetch_nearest([far], KEY, into, within_s=20, keep_in=Slow(tmp_path / "own"))
    assert came.place == far.place
    assert into.exists()
    assert [fault.cause for fault in came.faults] == [StoreCause.STALLED]
