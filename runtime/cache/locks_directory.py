"""A publisher's lock in a directory store; works on NFS.

    <root>/locks/<key>/<number>    one record each; the one with the highest number counts

To write over record n is to create n + 1, by a hard link to a finished temporary file: that is atomic on NFS too, and
exactly one succeeds. A record is never changed, and the highest is never removed. Eight are kept, so that a writer
so late that its number is free again brings a record that has long expired.
"""

import errno
import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from runtime.aside import aside
from runtime.cache.locks import Seen, from_json, to_json
from runtime.cache.publisher import LockRecord
from runtime.cache.stores.base import StoreCause, StoreFault, proven_hex
from runtime.cache.stores.files import fault_of, sync_directory
from runtime.cache.stores.leftovers import sweep, this_process
from runtime.cache.stores.patience import Patience, bounded

KEPT = 8
READS = 10
UNREADABLE_TTL_S = 60.0
"""How long a damaged record counts as held, from when it was written."""
NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS})


class DirectoryLock:
    """The lock of `key` in the directory store at `root`."""

    def __init__(self, root: Path, key: str, *, patience: Patience | None = None) -> None:
        self._folder = root / "locks" / proven_hex(key, "a lock's key")
        self._root = root
        self._patience = patience or Patience()

    async def read(self) -> Seen | None:
        """See Lock. A damaged record counts as held by nobody known, for a minute from when it was written."""
        async with bounded(self._patience.window_s, str(self._folder), "reading the lock"):
            try:
                return await aside(self._read)
            except OSError as error:
                raise fault_of(error, str(self._folder)) from error

    async def write(self, record: LockRecord, over: Seen | None) -> bool:
        """See Lock."""
        async with bounded(self._patience.window_s, str(self._folder), "writing the lock"):
            try:
                return await aside(self._write, record, int(over.version) if over is not None else 0)
            except OSError as error:
                raise fault_of(error, str(self._folder)) from error

    def _numbers(self) -> list[int]:
        try:
            return sorted(int(path.name) for path in self._folder.iterdir() if path.name.isdecimal())
        except FileNotFoundError:
            return []

    def _read(self) -> Seen | None:
        for _ in range(READS):
            numbers = self._numbers()
            if not numbers:
                return None
            path = self._path(numbers[-1])
            try:
                record, written = from_json(path.read_bytes()), path.stat().st_mtime
            except FileNotFoundError:  # eight newer ones came in between
                continue
            if record is None:  # tokens grow no faster than numbers, so this one is not below the last
                record = LockRecord("unreadable", numbers[-1], datetime.fromtimestamp(written, UTC), UNREADABLE_TTL_S)
            return Seen(record, str(numbers[-1]))
        fix = "too many hosts write to it at once; that passes"
        raise StoreFault(StoreCause.UNREACHABLE, str(self._folder), "the lock changed at each look", fix)

    def _write(self, record: LockRecord, over: int) -> bool:
        self._root.mkdir(exist_ok=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        sweep(self._folder, record.renewed_at)
        number = over + 1
        if not self._create(self._path(number), to_json(record)):
            return False
        numbers = self._numbers()
        if numbers and numbers[-1] > number:  # we were so late that our number was free again
            self._path(number).unlink(missing_ok=True)
            return False
        sync_directory(self._folder)
        for old in numbers[:-KEPT]:
            self._path(old).unlink(missing_ok=True)
        return True

    def _create(self, path: Path, data: bytes) -> bool:
        """Create `path` with `data` in it at once. False: there is one."""
        temporary = path.with_name(this_process().temp_name())
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(temporary, path)
            except OSError as error:
                # An NFS server's answer can be lost and the request be sent again: the count of links knows.
                if temporary.stat().st_nlink == 2:
                    return True
                if isinstance(error, FileExistsError):
                    return False
                if error.errno not in NO_LINKS:
                    raise
                return _create_without_link(path, data)
            return True
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:012d}"


def _create_without_link(path: Path, data: bytes) -> bool:
    """Exclusive too; a reader may see it empty for an instant, which counts as held."""
    try:
        with open(path, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        return False
    return True
