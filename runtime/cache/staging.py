"""Work under way beside its place: private, gone when it fails, and renamed into place whole.

A draft belongs to whoever holds the kernel's lock on it (flock), which ends with its process, however that ends. So
what a killed process left is told from what a living one works on without pids, ages or a boot id, and `sweep` may
run at any time.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DRAFT_NAME = re.compile(r"\..+\.pilotlight-draft\.[0-9a-f]{16}")

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_NAME_KEPT = 120
_TRIES = 8


@dataclass(frozen=True, slots=True)
class Draft:
    """Something unfinished at `path`; `fd` is open on it and holds its lock."""

    path: Path
    fd: int


@contextlib.contextmanager
def draft_file(target: Path) -> Iterator[Draft]:
    """A new file (0600) beside `target`, gone afterwards unless it was renamed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = _begin(target, directory=False)
    try:
        yield draft
    finally:
        with contextlib.suppress(OSError):
            draft.path.unlink()
        os.close(draft.fd)


@contextlib.contextmanager
def draft_directory(target: Path) -> Iterator[Draft]:
    """A new directory (0700) beside `target`, gone with all in it afterwards unless it was renamed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = _begin(target, directory=True)
    try:
        yield draft
    finally:
        shutil.rmtree(draft.path, ignore_errors=True)
        os.close(draft.fd)


def publish_file(draft: Draft, target: Path, mode: int = 0o644) -> None:
    """Make the draft durable and name it `target`, in place of what was there."""
    os.fchmod(draft.fd, mode)
    os.fsync(draft.fd)
    draft.path.replace(target)
    sync_directory(target.parent)


def publish_directory(draft: Draft, target: Path, *, replace: bool) -> None:
    """Name the draft `target`: in place of nothing, of an empty directory or, with `replace`, of any directory.

    At each instant `target` is the old tree or the new one, whole. Raises FileExistsError where it is occupied.
    """
    if replace and target.is_dir() and not target.is_symlink():
        _exchange(draft.path, target)
    else:
        try:
            draft.path.rename(target)
        except OSError as error:
            if error.errno in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}:
                raise FileExistsError(errno.EEXIST, "exists and is not empty", str(target)) from error
            raise
    sync_directory(target.parent)


def sweep(directory: Path) -> tuple[Path, ...]:
    """Remove every draft in `directory` that no living process works on; returns what was removed.

    On a network file system only where its locks are seen by all of its hosts.
    """
    try:
        names = sorted(entry.name for entry in os.scandir(directory) if DRAFT_NAME.fullmatch(entry.name))
    except OSError:
        return ()
    return tuple(directory / name for name in names if _remove_abandoned(directory / name))


def sync_directory(directory: Path) -> None:
    """Make the names in `directory` durable; where a file system cannot, they are as durable as it makes them."""
    with contextlib.suppress(OSError):
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _begin(target: Path, *, directory: bool) -> Draft:
    for _ in range(_TRIES):
        path = target.with_name(f".{target.name[:_NAME_KEPT]}.pilotlight-draft.{secrets.token_hex(8)}")
        if directory:
            path.mkdir(mode=0o700)
            flags = os.O_RDONLY | os.O_DIRECTORY
        else:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        try:
            fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:
            continue  # a sweep was faster than the lock
        if _lock(fd) and _is_at(fd, path):
            return Draft(path, fd)
        os.close(fd)
    raise FileNotFoundError(errno.ENOENT, "its draft is removed again and again", str(target))


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        # A file system without locks: the draft is never swept, which is the safe side.
        return error.errno in {errno.ENOLCK, errno.EOPNOTSUPP, errno.EBADF, errno.EINVAL}
    return True


def _is_at(fd: int, path: Path) -> bool:
    try:
        there = path.lstat()
    except OSError:
        return False
    return os.path.samestat(os.fstat(fd), there)


def _remove_abandoned(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_at(fd, path):
            return False
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        return not path.exists()
    except OSError:
        return False
    finally:
        os.close(fd)


def _exchange(one: Path, other: Path) -> None:
    """Swap two names in one step (renameat2, Linux ≥ 3.15)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(other))
