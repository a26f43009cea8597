"""Files that appear whole or not at all: written aside, synced, renamed; and what an OSError means to a store."""

import errno
import hashlib
import os
import stat
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from runtime.aside import aside
from runtime.cache.stores.base import BundleRef, StoreCause, StoreFault
from runtime.cache.stores.leftovers import this_process

CHUNK_BYTES = 4 * 1024 * 1024

_CAUSES = {
    errno.ENOENT: (StoreCause.ABSENT, "it was deleted, or the path is wrong"),
    errno.ENOTDIR: (StoreCause.ABSENT, "give the path of a directory"),
    errno.EACCES: (StoreCause.DENIED, "let this user read (and, to publish, write) there: fsGroup, or chmod"),
    errno.EPERM: (StoreCause.DENIED, "let this user read (and, to publish, write) there: fsGroup, or chmod"),
    errno.EROFS: (StoreCause.DENIED, "mounted read-only: publish through a mount that is writable"),
    errno.ENOSPC: (StoreCause.FULL, "free space there, or `pilotlight cache gc` it"),
    errno.EDQUOT: (StoreCause.FULL, "raise the quota, or `pilotlight cache gc` it"),
    errno.EFBIG: (StoreCause.FULL, "that file system takes no file of this size"),
    errno.ETIMEDOUT: (StoreCause.STALLED, "the file server does not answer; look at it and the network"),
    errno.ELOOP: (StoreCause.CORRUPT, "a link stands where a file must be; remove it"),
    errno.EISDIR: (StoreCause.CORRUPT, "a directory stands where a file must be; remove it"),
}
_OTHER = (StoreCause.UNREACHABLE, "the file system fails; look at its mount and the kernel's log")


def fault_of(error: OSError, place: str) -> StoreFault:
    """The same as a StoreFault. The system's own words are in it."""
    cause, fix = _CAUSES.get(error.errno or 0, _OTHER)
    return StoreFault(cause, place, error.strerror or type(error).__name__, fix)


def sync_directory(directory: Path) -> None:
    """Make names in `directory` outlast a power cut, where its file system can."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # some network and FUSE file systems have no fsync of directories: theirs to keep
            os.fsync(handle)
    finally:
        os.close(handle)


def write_whole(target: Path, data: bytes) -> None:
    """`target` holds `data`, the old content or the new at every instant, also through a crash."""
    temporary = target.with_name(this_process().temp_name())
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(target.parent)


def open_regular(path: Path) -> int:
    """A descriptor to read `path`, which must be a regular file and no link. OSError (ELOOP: a link or a device)."""
    # O_NONBLOCK: opening a pipe that somebody left there must not wait for a writer.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.ELOOP, "no regular file", str(path))
    return handle


def digest_of(path: Path) -> tuple[str, int]:
    """sha256 and size of a regular file."""
    with open(open_regular(path), "rb", buffering=0) as file:
        hashed = hashlib.file_digest(file, "sha256")
        return hashed.hexdigest(), file.tell()


def proven_size(file: Path, digest: str) -> int:
    """The size of `file`, if it has this digest. Raises StoreFault (CORRUPT), and OSError."""
    found, size_bytes = digest_of(file)
    if found != digest:
        said = f"has the sha256 {found}, not {digest[:80]}"
        raise StoreFault(StoreCause.CORRUPT, str(file), said, "pack the bundle again, and publish that")
    return size_bytes


async def proven_ref(key: str, file: Path, digest: str, metadata: Mapping[str, str] | None) -> BundleRef:
    """What a store far away is about to publish, now, if `file` has this digest. Raises StoreFault."""
    try:
        size_bytes = await aside(proven_size, file, digest)
    except OSError as error:
        raise fault_of(error, str(file)) from error
    return BundleRef(key, digest, size_bytes, datetime.now(UTC), dict(metadata or {}))


class Handle:
    """A descriptor that threads use while another may close it: closed once nobody is inside a call with it.

    Closed under a thread that is on its way into the kernel, its number could by then be another file's.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._lock = threading.Lock()
        self._users = 0
        self._closing = False

    def read(self, size_bytes: int, offset: int) -> bytes:
        """As os.pread."""
        with self._use() as number:
            return os.pread(number, size_bytes, offset)

    def write(self, data: bytes) -> None:
        """All of `data`."""
        with self._use() as number:
            view = memoryview(data)
            while view:
                view = view[os.write(number, view) :]

    def sync(self) -> None:
        """As os.fsync."""
        with self._use() as number:
            os.fsync(number)

    def close(self) -> None:
        """Now, or when the last call that is under way ends. Never blocks."""
        with self._lock:
            first, self._closing = not self._closing, True
            end = first and self._users == 0
        if end:
            os.close(self._number)

    @contextmanager
    def _use(self) -> Iterator[int]:
        with self._lock:
            if self._closing:
                raise OSError(errno.EBADF, "closed")
            self._users += 1
        try:
            yield self._number
        finally:
            self._leave()

    def _leave(self) -> None:
        with self._lock:
            self._users -= 1
            end = self._closing and self._users == 0
        if end:
            os.close(self._number)


async def read_chunks(path: Path, offset: int) -> AsyncGenerator[bytes, None]:
    """The content of a regular file from `offset` on, read aside. StoreFault if it cannot be."""
    try:
        handle = Handle(await aside(open_regular, path))
    except OSError as error:
        raise fault_of(error, str(path)) from error
    try:
        while chunk := await aside(handle.read, CHUNK_BYTES, offset):
            offset += len(chunk)
            yield chunk
    except OSError as error:
        raise fault_of(error, str(path)) from error
    finally:
        handle.close()


class Arriving:
    """A file that is on its way: hashed as it is written, visible under its name only once it is proven whole."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.size_bytes = 0
        self._hash = hashlib.sha256()
        self._temporary = target.with_name(this_process().temp_name())
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._handle = Handle(os.open(self._temporary, flags, 0o666))

    def add(self, chunk: bytes) -> None:
        """Append. OSError if it does not fit."""
        self._handle.write(chunk)
        self._hash.update(chunk)
        self.size_bytes += len(chunk)

    @property
    def digest(self) -> str:
        """sha256 of what has come."""
        return self._hash.hexdigest()

    def keep(self) -> None:
        """Give it its name."""
        self._handle.sync()
        self._handle.close()
        os.replace(self._temporary, self.target)
        sync_directory(self.target.parent)

    def drop(self) -> None:
        """Remove what has come. After `keep` this does nothing."""
        self._handle.close()
        with suppress(OSError):
            self._temporary.unlink(missing_ok=True)
