"""Read a bundle in one pass with bounded memory, believing nothing of it that was not checked.

The order is that of least harm: the zstd headers, then the manifest's signature, its form and its paths, then each file
against its digest. Until a bundle is read to its end nothing of it may be used.
"""

import contextlib
import hashlib
import os
import stat
import tarfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from runtime.cache.archive import (
    BLOCK,
    END,
    FILES,
    MANIFEST,
    SIGNATURES,
    BadFrame,
    Frame,
    header,
    padding,
    read_frame,
    tar_bytes,
)
from runtime.cache.collect import unreadable
from runtime.cache.faults import BundleCause, BundleFault
from runtime.cache.limits import Limits, too_large
from runtime.cache.manifest import FileDigest, Manifest, read_manifest_bytes
from runtime.cache.signing import SIGNATURES_BYTES, Signature, decode_signatures
from runtime.cache.trust import Signer, TrustPolicy, authorize

CHUNK_BYTES = 2**18
"""One read of unpacked bytes; the stop event is looked at between two of them."""

_AGAIN = "fetch it again, or build it again"


@dataclass(frozen=True, slots=True)
class Head:
    """What a bundle says of itself, and who vouches for that; its files are not yet looked at."""

    manifest: Manifest
    signer: Signer
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the reader of a bundle asks for. `key` and `digest` None: any."""

    trust: TrustPolicy
    key: str | None = None
    digest: str | None = None


class BundleReader:
    """One pass over an open bundle: `head`, then `files` to their end, then `finish`.

    `signatures`: all that it carries, known and unknown, once the head was read.
    """

    def __init__(
        self,
        path: Path,
        file: BinaryIO,
        limits: Limits,
        stop: threading.Event,
        progress: Callable[[int, int], None],
    ) -> None:
        self._path, self._limits, self._stop = path, limits, stop
        self._size = os.fstat(file.fileno()).st_size
        self._frame = self._check_frame(file)
        self._source = _Source(file, self._size, progress)
        unpacker = zstandard.ZstdDecompressor(max_window_size=limits.window_bytes)
        self._stream = unpacker.stream_reader(
            cast("BinaryIO", self._source), read_size=CHUNK_BYTES, read_across_frames=False
        )
        self._manifest: Manifest | None = None
        self.signatures: tuple[Signature, ...] = ()

    def head(self, wanted: Wanted) -> Head:
        """Read and check the manifest. Raises BundleFault."""
        data = self._small_member(MANIFEST, self._limits.manifest_bytes)
        signed = self._small_member(SIGNATURES, SIGNATURES_BYTES)
        self.signatures = decode_signatures(self._path, signed)
        signed_by = wanted.trust.authenticate(self._path, data, self.signatures)
        manifest = read_manifest_bytes(self._path, data)
        signer = authorize(self._path, signed_by, manifest.inputs)
        if wanted.key is not None and manifest.key != wanted.key:
            what = f"it is for fingerprint {manifest.key[:16]}…, wanted is {wanted.key[:16]}…"
            fix = "`pilotlight cache explain` names the inputs that differ"
            raise BundleFault(BundleCause.FOREIGN, self._path, what, fix)
        self._limits.check_manifest(self._path, manifest)
        members = [(MANIFEST, len(data)), (SIGNATURES, len(signed))]
        members += [(FILES + entry.path, entry.size) for entry in manifest.files]
        if tar_bytes(members) != self._frame.content_bytes:
            raise self._corrupt("its manifest does not account for all of its bytes")
        self._manifest = manifest
        return Head(manifest, signer, self._size)

    def files(self) -> Iterator[tuple[FileDigest, Iterator[bytes]]]:
        """Each file and its content, in order; a content must be read to its end, where its digest is checked."""
        if self._manifest is None:
            raise RuntimeError("read the head first")
        for entry in self._manifest.files:
            self._expect_header(FILES + entry.path, entry)
            yield entry, self._content(entry)

    def finish(self, wanted: Wanted) -> str:
        """Read what is left; the sha256 of the whole file. Raises BundleFault."""
        if self._read(len(END)) != END or self._read(1):
            raise self._corrupt("its archive does not end where its files end")
        try:
            digest = self._source.drain()
        except OSError as error:
            raise unreadable(self._path, error) from error
        if wanted.digest is not None and digest != wanted.digest:
            raise self._corrupt(f"its sha256 is {digest[:16]}…, expected {wanted.digest[:16]}…")
        return digest

    def _check_frame(self, file: BinaryIO) -> Frame:
        try:
            frame = read_frame(file, self._size)
        except BadFrame as error:
            cause = BundleCause.TRUNCATED if error.truncated else BundleCause.CORRUPT
            raise BundleFault(cause, self._path, str(error), _AGAIN) from error
        except OSError as error:
            raise unreadable(self._path, error) from error
        self._limits.check_frame(self._path, frame, self._size)
        return frame

    def _small_member(self, name: str, most: int) -> bytes:
        """The content of a member whose size only its header states."""
        block = self._read(BLOCK)
        try:
            size = int(block[124:135], 8)
        except ValueError:
            size = -1
        if size < 0 or block != header(name, size):
            raise self._corrupt(f"{name} is not where it belongs{_described(block)}")
        if size > most:
            raise too_large(self._path, f"its {name} has {size} bytes, allowed are {most}")
        data = b"".join(self._exactly(size))
        self._expect_padding(size)
        return data

    def _expect_header(self, name: str, entry: FileDigest) -> None:
        expected = header(name, entry.size, entry.mode)
        if (got := self._read(len(expected))) != expected:
            raise self._foreign_member(entry, got)

    def _content(self, entry: FileDigest) -> Iterator[bytes]:
        digest = hashlib.sha256()
        for chunk in self._exactly(entry.size):
            digest.update(chunk)
            yield chunk
        self._expect_padding(entry.size)
        if digest.hexdigest() != entry.sha256:
            raise self._corrupt(f"{entry.path} has another digest than the manifest says")

    def _expect_padding(self, size: int) -> None:
        fill = padding(size)
        if self._read(len(fill)) != fill:
            raise self._corrupt("something hides between its files")

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size:
            chunk = self._read(min(size, CHUNK_BYTES))
            if not chunk:
                raise self._corrupt("its archive ends too early")
            size -= len(chunk)
            yield chunk

    def _read(self, size: int) -> bytes:
        """Up to `size` bytes, less only at the end."""
        if self._stop.is_set():
            raise InterruptedError("reading was cancelled")
        try:
            parts = []
            while size and (data := self._stream.read(size)):
                parts.append(data)
                size -= len(data)
        except zstandard.ZstdError as error:
            raise self._corrupt(f"it cannot be unpacked ({error})") from error
        except OSError as error:
            raise unreadable(self._path, error) from error
        return b"".join(parts)

    def _corrupt(self, what: str) -> BundleFault:
        return BundleFault(BundleCause.CORRUPT, self._path, what, _AGAIN)

    def _foreign_member(self, entry: FileDigest, block: bytes) -> BundleFault:
        """Say what stands where `entry` belongs; only to explain, it is refused whatever it is."""
        what = f"{entry.path} is not where it belongs{_described(block)}"
        member = _parsed(block)
        if member is not None and (member.issym() or member.islnk()):
            return BundleFault(BundleCause.LINK, self._path, what, _AGAIN)
        if member is not None and (member.isdev() or member.isfifo()):
            return BundleFault(BundleCause.SPECIAL_FILE, self._path, what, _AGAIN)
        if member is not None and (member.name.startswith("/") or ".." in member.name.split("/")):
            return BundleFault(BundleCause.UNSAFE_PATH, self._path, what, _AGAIN)
        return self._corrupt(what)


class _Source:
    """The packed bytes: counted, digested, and told of."""

    def __init__(self, file: BinaryIO, size: int, progress: Callable[[int, int], None]) -> None:
        self._file, self._size, self._progress = file, size, progress
        self._digest = hashlib.sha256()
        self._done = 0

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self._digest.update(data)
        self._done += len(data)
        self._progress(self._done, self._size)
        return data

    def drain(self) -> str:
        while self.read(CHUNK_BYTES):
            pass
        return self._digest.hexdigest()


@contextlib.contextmanager
def open_bundle(
    path: Path,
    limits: Limits | None = None,
    stop: threading.Event | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[BundleReader]:
    """A reader of the bundle at `path`. Raises BundleFault."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise BundleFault(BundleCause.MISSING, path, "does not exist", "name a bundle that does") from error
    except OSError as error:
        raise unreadable(path, error) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise BundleFault(BundleCause.UNREADABLE, path, "is no regular file", "name a bundle")
    with open(fd, "rb", buffering=0) as file:
        yield BundleReader(
            path, file, limits or Limits(), stop or threading.Event(), progress or (lambda _done, _total: None)
        )


def _parsed(block: bytes) -> tarfile.TarInfo | None:
    try:
        return tarfile.TarInfo.frombuf(block[:BLOCK], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return None


def _described(block: bytes) -> str:
    member = _parsed(block)
    return f" ({member.name!r} is there, of type {member.type.decode(errors='replace')!r})" if member else ""
