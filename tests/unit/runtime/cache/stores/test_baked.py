"""What the image brings."""

import os
from pathlib import Path

import pytest

from runtime.cache.stores.baked import BakedStore
from runtime.cache.stores.base import StoreCause, StoreFault
from runtime.cache.stores.keep import Keep
from tests.unit.runtime.cache.stores.samples import KEY, NOON, OTHER_KEY, bundle, ref


@pytest.fixture
def image(tmp_path: Path) -> Path:
    root = tmp_path / "prebuilt"
    for key, seed in ((KEY, 1), (KEY, 2), (OTHER_KEY, 3)):
        (root / key).mkdir(parents=True, exist_ok=True)
        file, digest = bundle(tmp_path, seed)
        baked = root / key / (f"{key}-{digest}.bundle" if seed == 1 else f"tp{seed}.bundle")
        file.rename(baked)
        os.utime(baked, (NOON.timestamp() + seed,) * 2)
    (root / "lost+found").mkdir()
    (root / KEY / "README").write_text("not a bundle")
    return root


async def test_it_is_copied_out(image: Path, tmp_path: Path) -> None:
    store = BakedStore(image)
    newest = await store.newest(KEY)
    assert newest is not None
    await store.fetch(newest, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == (image / KEY / "tp2.bundle").read_bytes()
    assert (tmp_path / "copy").stat().st_ino != (image / KEY / "tp2.bundle").stat().st_ino
    assert len(await store.list()) == 3
    assert len(await store.list(KEY)) == 2
    # Another process's ref, which this store was never asked for.
    await BakedStore(image).fetch(newest, tmp_path / "copy")


async def test_a_name_that_lies_is_found_out(image: Path, tmp_path: Path) -> None:
    (named,) = (path for path in (image / KEY).glob(f"{KEY}-*.bundle"))
    named.write_bytes(b"x" * named.stat().st_size)
    os.utime(named, (NOON.timestamp() + 99,) * 2)
    store = BakedStore(image)
    newest = await store.newest(KEY)
    assert newest is not None
    with pytest.raises(StoreFault) as caught:
        await store.fetch(newest, tmp_path / "copy")
    assert caught.value.cause is StoreCause.CORRUPT
    assert not (tmp_path / "copy").exists()


async def test_an_image_that_brings_nothing_is_no_fault(tmp_path: Path) -> None:
    store = BakedStore(tmp_path / "none")
    assert await store.newest(KEY) is None
    assert await store.list() == ()
    with pytest.raises(StoreFault) as caught:
        await store.fetch(ref(1), tmp_path / "copy")
    assert caught.value.cause is StoreCause.ABSENT


async def test_it_never_changes(image: Path, tmp_path: Path) -> None:
    store = BakedStore(image)
    newest = await store.newest(KEY)
    assert newest is not None
    for attempt in (store.publish(KEY, *bundle(tmp_path)), store.delete(newest)):
        with pytest.raises(StoreFault, match="build the image anew") as caught:
            await attempt
        assert caught.value.cause is StoreCause.DENIED
    assert await store.gc(Keep(per_key=1), NOON) == ()
    assert len(await store.list()) == 3
