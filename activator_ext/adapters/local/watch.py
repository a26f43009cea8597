"""Tells when the user's files changed, however the editor writes them.

File events only wake it; what counts is whether the files look different (inode, size, time of change). So a file
that is replaced, vanishes and returns, or hides behind a swapped link is seen, and a lost event costs `RECHECK_S`, not
the edit.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from pathlib import Path

from watchfiles import awatch

from activator_ext.adapters.local.files import yaml_files
from activator_ext.adapters.local.findings import Findings

RECHECK_S = 2.0
"""How often the files are looked at without any event: what a network file system, which sends none, may cost."""
DEBOUNCE_MS = 200
"""An editor writes a file in several steps; they are one change if no more than this lies between them."""

Look = tuple[tuple[str, int, int, int], ...]


async def watch(paths: Sequence[Path], changed: Callable[[], None]) -> None:
    """Call `changed` after each change, from now on, to the YAML files that `paths` mean. Runs until cancelled."""
    seen = look(paths)
    while True:
        folders = _folders(paths)
        async with aclosing(_wakes(folders)) as wakes:
            async for _ in wakes:
                now = look(paths)
                if now != seen:
                    seen = now
                    changed()
                if _folders(paths) != folders:
                    break  # a folder came or went: a watch on one that is gone sees nothing


async def _wakes(folders: frozenset[Path]) -> AsyncGenerator[None]:
    """Yields after each event in the folders, and every RECHECK_S without one."""
    try:
        async for _ in awatch(
            *folders,
            watch_filter=None,
            debounce=DEBOUNCE_MS,
            rust_timeout=int(RECHECK_S * 1000),
            yield_on_timeout=True,
            recursive=False,
        ):
            yield
    except (OSError, RuntimeError):
        # A folder went just now, or the system's limit of watches is reached: then looking by the clock has to do.
        await asyncio.sleep(RECHECK_S)
        yield


def look(paths: Sequence[Path]) -> Look:
    """What the files that `paths` mean look like now: equal looks mean unchanged files."""
    entries = []
    for file in yaml_files(paths, Findings()):
        with suppress(OSError):
            status = file.stat()
            entries.append((str(file), status.st_ino, status.st_size, status.st_ctime_ns))
    return tuple(entries)


def _folders(paths: Sequence[Path]) -> frozenset[Path]:
    """The folders to watch: of a file the one that it is in, or would be in; the nearest that exists."""
    folders = set()
    for path in paths:
        folder = path.absolute()
        while not folder.is_dir() and folder != folder.parent:
            folder = folder.parent
        folders.add(folder)
    return frozenset(folders)
