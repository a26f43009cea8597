"""The content digest of a model directory, and the small file that spares hashing the same bytes twice.

A file whose size, mtime (ns) and inode did not change is taken to have the content it had: 140 GB of weights would
otherwise cost about two minutes of sha256 (1.2 GB/s) before each start.
"""

import contextlib
import hashlib
import json
import os
import threading
from pathlib import Path

CHUNK_BYTES = 4 * 2**20
"""One read; the stop event is looked at between two of them."""


class DigestCache:
    """Remembered file digests in one JSON file; an unreadable or foreign file counts as empty."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = self._read()
        self._changed = False

    def digest(self, path: Path, stop: threading.Event) -> str:
        """The sha256 of `path`, remembered or computed. Raises InterruptedError once `stop` is set."""
        stat = path.stat()
        key, seen = str(path.resolve()), [stat.st_size, stat.st_mtime_ns, stat.st_ino]
        known = self._known.get(key)
        if isinstance(known, list) and len(known) == 4 and known[:3] == seen:
            return str(known[3])
        value = _file_digest(path, stop)
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


def directory_digest(directory: Path, cache: DigestCache, stop: threading.Event) -> str:
    """sha256 over relative names and contents of all files below `directory`, hidden ones left out."""
    whole = hashlib.sha256()
    for path in _files(directory):
        whole.update(f"{path.relative_to(directory).as_posix()}\0{cache.digest(path, stop)}\n".encode())
    cache.save()
    return f"sha256:{whole.hexdigest()}"


def _files(directory: Path) -> list[Path]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return sorted(p for p in found if not any(part.startswith(".") for part in p.relative_to(directory).parts))


def _file_digest(path: Path, stop: threading.Event) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            if stop.is_set():
                raise InterruptedError("hashing was cancelled")
            digest.update(chunk)
    return digest.hexdigest()
