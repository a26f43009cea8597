"""Write a bundle's archive into a draft, and hold it to the limits by which it will be read."""

import errno
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from runtime.cache.archive import (
    END,
    FILES,
    LEVEL,
    MANIFEST,
    SIGNATURES,
    BadFrame,
    compressor_threads,
    header,
    padding,
    read_frame,
    tar_bytes,
)
from runtime.cache.faults import BundleCause, BundleFault
from runtime.cache.limits import Limits, too_large
from runtime.cache.manifest import FileDigest, Manifest
from runtime.cache.signing import Signature, encode_signatures
from runtime.cache.staging import Draft

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What the system says when a disk, a quota or the largest file is full."""


def write_bundle(
    draft: Draft,
    manifest: Manifest,
    signatures: tuple[Signature, ...],
    *,
    contents: Iterable[tuple[FileDigest, Iterable[bytes]]],
    limits: Limits,
    named: Path,
) -> tuple[str, int]:
    """Archive `contents`, the manifest's files in its order; the digest and size of what was written.

    Raises BundleFault about `named` where the archive is beyond `limits`, and OSError where it cannot be written.
    """
    data, signed = manifest.encode(), encode_signatures(signatures)
    if len(data) > limits.manifest_bytes:
        raise too_large(named, f"its manifest has {len(data)} bytes, allowed are {limits.manifest_bytes}")
    members = [(MANIFEST, len(data)), (SIGNATURES, len(signed))]
    members += [(FILES + entry.path, entry.size) for entry in manifest.files]
    output = _Output(draft.fd)
    compressor = zstandard.ZstdCompressor(level=LEVEL, threads=compressor_threads(), write_checksum=True)
    # No `with`: leaving it after a failure would end the frame, fail too, and hide why.
    stream = compressor.stream_writer(cast("BinaryIO", output), size=tar_bytes(members), closefd=False)
    for (name, size), content in zip(members[:2], (data, signed), strict=True):
        stream.write(header(name, size) + content + padding(size))
    for entry, chunks in contents:
        stream.write(header(FILES + entry.path, entry.size, entry.mode))
        for chunk in chunks:
            stream.write(chunk)
        stream.write(padding(entry.size))
    stream.write(END)
    stream.close()  # type: ignore[no-untyped-call]  # zstandard's stub lacks it
    _check_made(draft, output.size, limits, named)
    return output.digest.hexdigest(), output.size


def _check_made(draft: Draft, size: int, limits: Limits, named: Path) -> None:
    """A cache of zeros, say, is no cache, and no host would take it."""
    with open(os.dup(draft.fd), "rb") as file:
        try:
            frame = read_frame(file, size)
        except BadFrame as error:  # the file system lost bytes that it had taken
            raise BundleFault(BundleCause.CORRUPT, draft.path, str(error), "look at the disk") from error
    limits.check_frame(named, frame, size)


class _Output:
    """Writes to a descriptor, and digests what it writes."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.digest = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        view = memoryview(data)
        while view:
            written = os.write(self._fd, view)
            self.digest.update(view[:written])
            self.size += written
            view = view[written:]
        return len(data)

    def flush(self) -> None:
        """Nothing is kept back."""


def not_written(place: Path, error: OSError) -> Exception:
    """What to raise of an OSError while `place` was written: itself, if it is the stop event's."""
    if isinstance(error, InterruptedError):
        return error
    what = f"cannot be written ({error.strerror})"
    if error.errno in FULL:
        return no_space(place, what)
    return BundleFault(BundleCause.UNREADABLE, place, what, "let the user of this process write there")


def no_space(place: Path, what: str) -> BundleFault:
    """The fault of a disk that is too full."""
    fix = "free space there (`pilotlight cache gc`), or name another place"
    return BundleFault(BundleCause.NO_SPACE, place, what, fix)
