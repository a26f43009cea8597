"""Verify a bundle, or unpack it into a private directory that appears whole or not at all."""

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from runtime.cache.collect import unreadable
from runtime.cache.faults import BundleCause, BundleFault
from runtime.cache.limits import Limits
from runtime.cache.manifest import FileDigest, Manifest
from runtime.cache.reading import BundleReader, Head, Wanted, open_bundle
from runtime.cache.relocate import RELOCATED_BYTES, with_root
from runtime.cache.staging import Draft, draft_directory, publish_directory, sweep
from runtime.cache.trust import Signer, TrustPolicy
from runtime.cache.writing import no_space, not_written

_PAGE_BYTES = 4096
"""What each file and directory takes at least on common file systems."""


@dataclass(frozen=True, slots=True)
class Verified:
    """A whole bundle. `digest`: sha256 of its bytes; `signer`: who vouches for it."""

    digest: str
    size_bytes: int
    manifest: Manifest
    signer: Signer


@dataclass(frozen=True, slots=True)
class Restored:
    """A bundle that was unpacked to `into`."""

    into: Path
    bundle: Verified


def inspect(file: Path, *, trust: TrustPolicy, limits: Limits | None = None) -> Head:
    """What a bundle says of itself, signature checked; its files are not looked at. Raises BundleFault."""
    with open_bundle(file, limits) as reader:
        return reader.head(Wanted(trust))


def verify(
    file: Path,
    *,
    trust: TrustPolicy,
    expected_key: str | None = None,
    expected_digest: str | None = None,
    limits: Limits | None = None,
    stop: threading.Event | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Verified:
    """Read the whole bundle and check all that `restore` checks; writes nothing.

    Raises BundleFault, and InterruptedError once `stop` is set. `progress` is told bytes of the file, done and all.
    """
    wanted = Wanted(trust, expected_key, expected_digest)
    with open_bundle(file, limits, stop, progress) as reader:
        head = reader.head(wanted)
        for _, content in reader.files():
            for _ in content:
                pass
        return _verified(reader, head, wanted)


def restore(
    file: Path,
    into: Path,
    *,
    trust: TrustPolicy,
    expected_key: str,
    expected_digest: str | None = None,
    limits: Limits | None = None,
    replace: bool = False,
    durable: bool = True,
    stop: threading.Event | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Restored:
    """Unpack a bundle to `into`, an engine's cache root: a directory (0700) that appears whole, after every check.

    `into` may be absent or empty; `replace` swaps it for what is there, in one step. `durable`: all is on the disk
    before the directory appears, so that a power cut leaves no torn tree; leave it out where the place does not
    outlive the machine's uptime (tmpfs, emptyDir). The tree must stay where it is restored to: caches hold its path.

    Raises BundleFault, and InterruptedError once `stop` is set; then `into` is as it was. What killed restores left
    beside it is removed first.
    """
    into = Path(os.path.abspath(into))
    wanted = Wanted(trust, expected_key, expected_digest)
    _refuse_occupied(into, replace=replace)
    sweep(into.parent)
    with open_bundle(file, limits, stop, progress) as reader:
        head = reader.head(wanted)
        try:
            _refuse_full(into, head.manifest)
            with draft_directory(into) as draft:
                _unpack(reader, draft, into, durable=durable)
                verified = _verified(reader, head, wanted)
                publish_directory(draft, into, replace=replace)
        except FileExistsError as error:
            raise _occupied(into) from error
        except OSError as error:
            raise not_written(into, error) from error
    return Restored(into, verified)


def _verified(reader: BundleReader, head: Head, wanted: Wanted) -> Verified:
    return Verified(reader.finish(wanted), head.size_bytes, head.manifest, head.signer)


def _unpack(reader: BundleReader, draft: Draft, into: Path, *, durable: bool) -> None:
    directories = {draft.path}
    for entry, content in reader.files():
        path = draft.path / entry.path
        _make_directories(path.parent, directories)
        _write(path, entry, _placed(entry, content, into), durable=durable)
    if durable:
        for directory in directories:
            _sync(directory)


def _placed(entry: FileDigest, content: Iterator[bytes], into: Path) -> Iterator[bytes]:
    """The content as it has to stand below `into`."""
    if not entry.relocated:
        return content
    if entry.size > RELOCATED_BYTES:
        raise BundleFault(
            BundleCause.TOO_LARGE, into, f"{entry.path} is too large to be rewritten", "build the bundle again"
        )
    return iter((with_root(b"".join(content), into),))


def _make_directories(directory: Path, made: set[Path]) -> None:
    missing = []
    while directory not in made:
        missing.append(directory)
        directory = directory.parent
    for path in reversed(missing):
        path.mkdir(mode=0o700)
        made.add(path)


def _write(path: Path, entry: FileDigest, content: Iterator[bytes], *, durable: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "wb", buffering=0) as file:
        for chunk in content:
            _write_all(file.fileno(), chunk)
        os.fchmod(file.fileno(), entry.mode)
        if entry.mtime_ns is not None:
            os.utime(file.fileno(), ns=(entry.mtime_ns, entry.mtime_ns))
        if durable:
            os.fsync(file.fileno())


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _refuse_occupied(into: Path, *, replace: bool) -> None:
    """Early and for the message only; the rename decides."""
    try:
        occupied = into.is_symlink() or (into.exists() and (not into.is_dir() or (not replace and any(into.iterdir()))))
    except OSError as error:
        raise unreadable(into, error) from error
    if occupied:
        raise _occupied(into)


def _refuse_full(into: Path, manifest: Manifest) -> None:
    into.parent.mkdir(parents=True, exist_ok=True)
    disk = os.statvfs(into.parent)
    directories = {entry.path.rpartition("/")[0] for entry in manifest.files}
    page = max(disk.f_frsize, _PAGE_BYTES)
    needed = sum(-(-entry.size // page) * page for entry in manifest.files) + page * len(directories)
    free = disk.f_bavail * disk.f_frsize
    if needed > free:
        raise no_space(into, f"its disk has {free} bytes free, the bundle needs {needed}")
    nodes = len(manifest.files) + len(directories)
    if disk.f_files and disk.f_favail < nodes:
        raise no_space(into, f"its disk has {disk.f_favail} inodes free, the bundle needs {nodes}")


def _occupied(into: Path) -> BundleFault:
    return BundleFault(
        BundleCause.OCCUPIED, into, "something is there already; nothing was changed", "remove it, or ask to replace it"
    )
