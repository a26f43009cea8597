"""Reads weights into the page cache while the engine is still importing, so that its loader finds them there.

Hashing does the same in passing (`digest.py`); this is for the starts whose digests are remembered, so that nothing is
hashed. Bounded: at most `budget_bytes`, in the order in which the loader reads, several files at a time; what is
cached already is passed over. It never fails a start: a file that cannot be read is left to the loader.
"""

import mmap
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from runtime.weights.integrity import ModelFacts
from runtime.weights.memory import read_memory
from runtime.weights.page_cache import span_is_resident

SPAN_BYTES = 16 * 2**20
"""Read at once: large enough for a network file system, small enough to stop soon."""

THREADS = 4
"""A local drive is busy with one or two; object stores behind FUSE and NFS give more to more readers."""

FREE_SHARE = 0.8
"""Of the memory that is free for the page cache, how much may be filled: more would push out what was just read."""


def budget_bytes(weight_bytes: int, free_bytes: int | None) -> int:
    """How much to read ahead: all of it or nothing, for half a model read in order is gone before it is wanted.

    `free_bytes`: memory that the cgroup and the machine leave (None: unknown, then nothing is read).
    """
    return weight_bytes if free_bytes is not None and weight_bytes <= FREE_SHARE * free_bytes else 0


def read_ahead(facts: ModelFacts) -> "ReadAhead":
    """Begin to read the weights of a proven model, if they fit into memory; what its proof has read is passed over."""
    begun = ReadAhead(facts.weights, budget_bytes(facts.weight_bytes or 0, read_memory().free_bytes))
    begun.start()
    return begun


class ReadAhead:
    """One pass over `files`. `start` once; `stop` at any time, also twice; `read_bytes` and `cached_bytes` so far."""

    def __init__(self, files: Sequence[Path], budget_bytes: int, threads: int = THREADS) -> None:
        self._left = budget_bytes
        self._queue = list(reversed(files))
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.read_bytes = 0
        self.cached_bytes = 0
        count = min(threads, len(files)) if budget_bytes > 0 else 0
        self._threads = [threading.Thread(target=self._run, name="read-ahead", daemon=True) for _ in range(count)]

    def start(self) -> None:
        """Begin to read, in threads of its own."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Read no further; the spans under way end by themselves."""
        self._stop.set()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait until all is read or stopped; whether it is."""
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(timeout_s)
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        # Mapped, not allocated: the allocator would keep 16 MiB for each thread that ever read.
        with mmap.mmap(-1, SPAN_BYTES) as scratch, memoryview(scratch) as buffer:
            while (path := self._next()) is not None:
                try:
                    self._read(path, buffer)
                except OSError:
                    continue  # the loader will meet the same and say what it is

    def _next(self) -> Path | None:
        with self._lock:
            return self._queue.pop() if self._queue and not self._stop.is_set() else None

    def _read(self, path: Path, buffer: memoryview) -> None:
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            for begin in range(0, size, SPAN_BYTES):
                length = min(SPAN_BYTES, size - begin)
                if self._stop.is_set() or not self._take(length):
                    return
                if span_is_resident(file.fileno(), begin, length):
                    self._count(0, length)
                    continue
                with buffer[:length] as part:
                    self._count(os.preadv(file.fileno(), [part], begin), 0)

    def _take(self, length: int) -> bool:
        with self._lock:
            self._left -= length
            return self._left >= 0

    def _count(self, read: int, cached: int) -> None:
        with self._lock:
            self.read_bytes += read
            self.cached_bytes += cached
