"""The content digest of a model directory, and the small file that spares hashing the same bytes twice.

A file whose size, mtime (ns) and inode did not change is taken to have the content it had: 140 GB of weights would
otherwise cost about two minutes of sha256 (1.2 GB/s for each core) before each start. What is hashed is thereby in the
page cache, where the loader finds it: integrity and read-ahead are one pass.
"""

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from runtime.weights.given import LIST_NAME

DIGESTS = "weight-digests.json"
"""Where the commands remember digests, in the state directory."""

CHUNK_BYTES = 4 * 2**20
"""One read; the stop event is looked at between two of them."""

MOST_THREADS = 8
"""Files hashed at the same time: 8 × 1.2 GB/s is above what one NVMe drive gives."""


@dataclass(frozen=True, slots=True)
class Hashed:
    """`digest`: over names and contents, `sha256:…`. `files`: hex sha256 by relative POSIX path.

    `read_bytes`: how much had to be read for it; the rest was remembered.
    """

    digest: str
    files: Mapping[str, str]
    read_bytes: int


class DigestCache:
    """Remembered file digests in one JSON file; an unreadable or foreign file counts as empty.

    `read_bytes`: what was hashed anew so far. Several threads may ask at the same time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.read_bytes = 0
        self._known = self._read()
        self._changed = False

    def digest(self, path: Path, stop: threading.Event) -> str:
        """The sha256 of `path`, remembered or computed. Raises InterruptedError once `stop` is set."""
        stat = path.stat()
        key, seen = str(path.resolve()), [stat.st_size, stat.st_mtime_ns, stat.st_ino]
        known = self._known.get(key)
        if isinstance(known, list) and len(known) == 4 and known[:3] == seen:
            return str(known[3])
        value = file_digest(path, stop)
        with self._lock:
            self.read_bytes += stat.st_size
        self._known[key] = [*seen, value]
        self._changed = True
        return value

    def save(self) -> None:
        """Write what is new, atomically; another process's entries of the meantime are kept.

        Where it cannot be written, the next start hashes again.
        """
        if not self._changed:
            return
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}.{threading.get_ident()}")
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps(self._read() | self._known))
            draft.replace(self._path)

    def _read(self) -> dict[str, object]:
        try:
            value = json.loads(self._path.read_text())
        except (OSError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}


class _Either(threading.Event):
    """Set by itself, or by the event that it looks at, too."""

    def __init__(self, other: threading.Event) -> None:
        super().__init__()
        self._other = other

    def is_set(self) -> bool:
        return super().is_set() or self._other.is_set()


def hash_directory(directory: Path, cache: DigestCache, stop: threading.Event) -> Hashed:
    """Hash all files below `directory`, hidden ones and our own list left out, several at a time.

    Raises OSError; InterruptedError once `stop` is set.
    """
    paths = {path.relative_to(directory).as_posix(): path for path in _files(directory)}
    failed = _Either(stop)
    with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1), "digest") as pool:
        tasks = {name: pool.submit(cache.digest, path, failed) for name, path in paths.items()}
        try:
            digests = {name: task.result() for name, task in tasks.items()}
        except BaseException:
            failed.set()  # the others need not read to their end
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    cache.save()
    whole = hashlib.sha256()
    for name in paths:
        whole.update(f"{name}\0{digests[name]}\n".encode(errors="surrogateescape"))  # a name of any bytes
    return Hashed(f"sha256:{whole.hexdigest()}", digests, cache.read_bytes)


def _files(directory: Path) -> list[Path]:
    found = (path for path in directory.rglob("*") if path.is_file() and path != directory / LIST_NAME)
    return sorted(p for p in found if not any(part.startswith(".") for part in p.relative_to(directory).parts))


def file_digest(path: Path, stop: threading.Event) -> str:
    """The hex sha256 of `path`, read now. Raises OSError; InterruptedError once `stop` is set."""
    digest, buffer = hashlib.sha256(), memoryview(bytearray(CHUNK_BYTES))
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        while count := file.readinto(buffer):
            if stop.is_set():
                raise InterruptedError("hashing was cancelled")
            digest.update(buffer[:count])
    return digest.hexdigest()
