"""The physical lower bound: how fast the same bytes come by the same path when nobody looks at them.

Files are read past the page cache (O_DIRECT) where it is cold, out of it where it is warm, by more and more readers,
and the best counts; a bucket by ranged reads. No loader can be faster than its bytes over that bandwidth; one that
comes near it is done.
"""

import asyncio
import mmap
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from runtime.weights.object_store import Bucket
from runtime.weights.page_cache import drop

SPAN_BYTES = 8 * 2**20
READERS = (1, 4, 16)
"""How many spans are read at the same time; a disk wants few, NVMe and object stores many."""

TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Bound:
    """`seconds` for `bytes` by `readers` at once, the best that was seen. `direct`: past the page cache."""

    seconds: float
    bytes: int
    readers: int
    direct: bool

    @property
    def bytes_per_s(self) -> float:
        """The path's measured bandwidth."""
        return self.bytes / self.seconds if self.seconds else 0.0


def files_bound(paths: Sequence[Path], *, cold: bool, readers: Iterable[int] = READERS) -> Bound:
    """Read all of `paths` once for each number of readers. Raises OSError."""
    found = []
    for count in readers:
        if cold:
            for path in paths:
                drop(path)
        direct = cold and _takes_direct(paths[0])
        begun = time.perf_counter()
        size = _read_all(paths, count, direct=direct)
        found.append(Bound(time.perf_counter() - begun, size, count, direct))
    return min(found, key=lambda each: each.seconds)


async def bucket_bound(
    url: str, env: Mapping[str, str], names: Sequence[str], readers: Iterable[int] = READERS[1:]
) -> Bound:
    """The same for objects below a URL. Raises StoreError."""
    bucket = Bucket(url, env, TIMEOUT_S)
    sizes = {each.name: each.size_bytes for each in await bucket.objects()}
    spans = [
        (name, begin, min(SPAN_BYTES, sizes[name] - begin))
        for name in names
        for begin in range(0, sizes[name], SPAN_BYTES)
    ]
    found = []
    for count in readers:
        gate = asyncio.Semaphore(count)

        async def one(name: str, begin: int, length: int, gate: asyncio.Semaphore = gate) -> int:
            async with gate:
                return len(await bucket.read(name, begin, length))

        begun = time.perf_counter()
        size = sum(await asyncio.gather(*(one(*span) for span in spans)))
        found.append(Bound(time.perf_counter() - begun, size, count, True))
    return min(found, key=lambda each: each.seconds)


def _takes_direct(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
    except OSError:  # tmpfs of old kernels, some FUSE and network file systems
        return False
    return True


def _read_all(paths: Sequence[Path], readers: int, *, direct: bool) -> int:
    flags = os.O_RDONLY | (os.O_DIRECT if direct else 0)
    files = [os.open(path, flags) for path in paths]
    try:
        spans = [(fd, begin) for fd in files for begin in range(0, os.fstat(fd).st_size, SPAN_BYTES)]
        with ThreadPoolExecutor(readers) as pool:
            return sum(pool.map(_read_spans, [spans[place::readers] for place in range(readers)]))
    finally:
        for fd in files:
            os.close(fd)


def _read_spans(spans: Sequence[tuple[int, int]]) -> int:
    with mmap.mmap(-1, SPAN_BYTES) as buffer:  # at a page's start, as O_DIRECT wants it
        return sum(os.preadv(fd, [buffer], begin) for fd, begin in spans)
