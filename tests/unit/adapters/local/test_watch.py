"""Changes are seen however they are written. Real files and events; each wait ends with the event, not with a clock."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from activator_ext.adapters.local import watch as module
from activator_ext.adapters.local.watch import look, watch

LONG_S = 20.0
"""Only how long a failing test takes."""


class Changes:
    def __init__(self) -> None:
        self.count = 0
        self._seen = asyncio.Event()

    def __call__(self) -> None:
        self.count += 1
        self._seen.set()

    async def next(self) -> None:
        async with asyncio.timeout(LONG_S):
            await self._seen.wait()
        self._seen.clear()


@asynccontextmanager
async def watching(*paths: Path) -> AsyncIterator[Changes]:
    changes = Changes()
    task = asyncio.create_task(watch(paths, changes))
    await asyncio.sleep(0)  # lets it take its first look, which is what changes are held against
    try:
        yield changes
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _write(path: Path) -> None:
    path.write_text("a: 2222")


def _replace(path: Path) -> None:
    fresh = path.with_name("new.tmp")
    fresh.write_text("a: 2")
    fresh.replace(path)


def _remove(path: Path) -> None:
    path.unlink()


EDITS: dict[str, Callable[[Path], None]] = {"written": _write, "replaced": _replace, "removed": _remove}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEBOUNCE_MS", 20)
    monkeypatch.setattr(module, "RECHECK_S", 0.1)


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
@pytest.mark.parametrize("by_folder", [True, False], ids=["folder", "file"])
async def test_a_file_that_is(tmp_path: Path, edit: Callable[[Path], None], by_folder: bool) -> None:
    path = tmp_path / "f.yaml"
    path.write_text("a: 1")
    async with watching(tmp_path if by_folder else path) as changes:
        edit(path)
        await changes.next()


async def test_a_file_that_vanishes_and_returns_with_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "f.yaml"
    path.parent.mkdir()
    path.write_text("a: 1")
    async with watching(path) as changes:
        path.unlink()
        path.parent.rmdir()
        await changes.next()
        path.parent.mkdir()
        _replace(path)
        await changes.next()
        _replace(path)
        await changes.next()


async def test_a_file_that_is_not_there_yet(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "f.yaml"
    async with watching(path) as changes:
        path.parent.mkdir(parents=True)
        path.write_text("a: 1")
        await changes.next()


async def test_a_new_file_in_a_folder(tmp_path: Path) -> None:
    async with watching(tmp_path) as changes:
        (tmp_path / "g.yml").write_text("a: 1")
        await changes.next()


async def test_a_link_that_is_swapped_as_kubernetes_swaps_a_mounted_config_map(tmp_path: Path) -> None:
    for version in ("one", "two"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "f.yaml").write_text(f"a: {version}")
    (tmp_path / "data").symlink_to("one")
    (tmp_path / "f.yaml").symlink_to("data/f.yaml")
    async with watching(tmp_path / "f.yaml") as changes:
        (tmp_path / "swap").symlink_to("two")
        (tmp_path / "swap").replace(tmp_path / "data")
        await changes.next()


async def test_another_file_beside_it_is_no_change(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text("a: 1")
    async with watching(path) as changes:
        (tmp_path / "notes.txt").write_text("x")
        (tmp_path / "g.yaml").write_text("x: 1")
        before = look([path])
        _replace(path)
        await changes.next()
    assert look([path]) != before
    assert changes.count == 1


async def test_without_file_events_it_looks_by_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object, **__: object) -> None:
        raise OSError("no watches left")

    monkeypatch.setattr(module, "awatch", none_left)
    path = tmp_path / "f.yaml"
    async with watching(path) as changes:
        path.write_text("a: 1")
        await changes.next()
