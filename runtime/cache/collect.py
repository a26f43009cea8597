"""Which files of a live cache root belong into a bundle, and whether they still are what they were."""

import os
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from runtime.cache.faults import BundleCause, BundleFault
from runtime.cache.layout import PARTS, Part, is_passing
from runtime.cache.limits import Limits, too_large
from runtime.cache.paths import check_path, check_tree

_FILE_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY


@dataclass(frozen=True, slots=True)
class Found:
    """A file as it stood: `path` in the root, and what tells another file or another content from it."""

    path: str
    part: Part
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int
    executable: bool

    def same(self, status: os.stat_result) -> bool:
        """Whether `status` is of this file, unchanged."""
        return (self.size, self.mtime_ns, self.ctime_ns, self.inode, self.device) == (
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_ino,
            status.st_dev,
        )


def collect(root: Path, limits: Limits, stop: threading.Event, parts: tuple[Part, ...] = PARTS) -> tuple[Found, ...]:
    """Every file of `parts` below `root`, by path in byte order; locks, drafts and sockets are left out.

    Raises BundleFault (MISSING, UNREADABLE, LINK, SPECIAL_FILE, UNSAFE_PATH, TOO_LARGE, CHANGED), and
    InterruptedError once `stop` is set.
    """
    if not root.is_dir():
        raise BundleFault(BundleCause.MISSING, root, "is no directory", "name the engine's cache root")
    found: list[Found] = []
    for part in parts:
        top = root / part.directory
        if not os.path.lexists(top):
            continue
        if top.is_symlink() or not top.is_dir():
            raise _link(top) if top.is_symlink() else _special(top)
        for file in _walk(top, os.open(top, _DIRECTORY_FLAGS), part.directory, part):
            if stop.is_set():
                raise InterruptedError("packing was cancelled")
            check_path(root, file.path)
            found.append(file)
            if len(found) > limits.files:
                raise too_large(root, f"it has more than {limits.files} files")
    check_tree(root, (file.path for file in found))
    return tuple(sorted(found, key=lambda file: file.path.encode()))


def open_found(root: Path, file: Found) -> int:
    """A descriptor on `file`. Raises BundleFault (CHANGED) where it is no longer the one that was found."""
    try:
        fd = os.open(root / file.path, _FILE_FLAGS)
    except PermissionError as error:
        raise unreadable(root / file.path, error) from error
    except OSError as error:
        raise changed(root, file.path) from error
    if file.same(os.fstat(fd)):
        return fd
    os.close(fd)
    raise changed(root, file.path)


def changed(root: Path, path: str) -> BundleFault:
    """The fault of a cache that is written to while it is packed."""
    return BundleFault(
        BundleCause.CHANGED, root, f"{path} changed while it was packed", "pack it when its engine has been warmed up"
    )


def _walk(top: Path, fd: int, prefix: str, part: Part) -> Iterator[Found]:
    """Files below the open directory `fd`, which is closed. By descriptors, so that no swapped link is followed."""
    try:
        with os.scandir(fd) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                status = _status(top, entry, prefix)
                directory = stat.S_ISDIR(status.st_mode)
                path = f"{prefix}/{entry.name}"
                if is_passing(part, entry.name, directory=directory) or stat.S_ISSOCK(status.st_mode):
                    continue
                if directory:
                    yield from _walk(top, _open_directory(top, entry.name, fd, path), path, part)
                elif stat.S_ISREG(status.st_mode):
                    yield _found(path, part, status)
                else:
                    where = top.parent / path
                    raise _link(where) if stat.S_ISLNK(status.st_mode) else _special(where)
    finally:
        os.close(fd)


def _status(top: Path, entry: os.DirEntry[str], prefix: str) -> os.stat_result:
    try:
        return entry.stat(follow_symlinks=False)
    except FileNotFoundError as error:
        raise changed(top.parent, f"{prefix}/{entry.name}") from error


def _open_directory(top: Path, name: str, fd: int, path: str) -> int:
    try:
        return os.open(name, _DIRECTORY_FLAGS, dir_fd=fd)
    except PermissionError as error:
        raise unreadable(top.parent / path, error) from error
    except OSError as error:
        raise changed(top.parent, path) from error


def _found(path: str, part: Part, status: os.stat_result) -> Found:
    return Found(
        path=path,
        part=part,
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        ctime_ns=status.st_ctime_ns,
        inode=status.st_ino,
        device=status.st_dev,
        executable=bool(status.st_mode & stat.S_IXUSR),
    )


def unreadable(file: Path, error: OSError) -> BundleFault:
    """The fault of something that the system does not let us read."""
    fix = "let the user of this process read it, and look at the disk"
    return BundleFault(BundleCause.UNREADABLE, file, f"cannot be read ({error.strerror})", fix)


def _link(path: Path) -> BundleFault:
    return BundleFault(BundleCause.LINK, path, "is a link; a bundle has none", "put the file itself there")


def _special(path: Path) -> BundleFault:
    return BundleFault(BundleCause.SPECIAL_FILE, path, "is neither file nor directory", "remove it from the cache")
