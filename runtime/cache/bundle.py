"""Pack a cache root into one immutable, signed file."""

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from runtime.cache.collect import Found, changed, collect, open_found, unreadable
from runtime.cache.faults import BundleCause, BundleFault
from runtime.cache.fingerprint import Fingerprint
from runtime.cache.layout import PARTS, Part, holds_paths
from runtime.cache.limits import Limits
from runtime.cache.manifest import FileDigest, Manifest, Provenance, make_manifest
from runtime.cache.relocate import RELOCATED_BYTES, without_root
from runtime.cache.signing import Signature, SigningKey
from runtime.cache.staging import Draft, draft_file, publish_file, sweep
from runtime.cache.writing import not_written, write_bundle

SUFFIX = ".bundle"

CHUNK_BYTES = 2**20
"""One read; the stop event is looked at between two of them."""

Progress = Callable[[int, int], None]
"""Told bytes done and bytes in all, from the thread that works."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A new bundle. `digest`: sha256 of its bytes, its identity. `left_out`: files that name paths elsewhere."""

    path: Path
    digest: str
    size_bytes: int
    manifest: Manifest
    left_out: tuple[str, ...] = ()


def bundle_name(key: str, digest: str) -> str:
    """The file name of a bundle: `<key>-<digest>.bundle`."""
    return f"{key}-{digest}{SUFFIX}"


def pack(
    source: Path,
    target: Path,
    *,
    fingerprint: Fingerprint,
    provenance: Provenance,
    signer: SigningKey | None,
    parts: tuple[Part, ...] = PARTS,
    limits: Limits | None = None,
    stop: threading.Event | None = None,
    progress: Progress | None = None,
) -> Packed:
    """Write the bundle of `source`, a cache root, to `target`; in a directory it gets its own name.

    The same files, fingerprint, provenance and key give the same bytes (of one zstd version). `source` may be live:
    a change is noticed and nothing is written. `target` appears whole or not at all, readable by all; what was there
    is replaced. `signer` None makes an unsigned bundle.

    Raises BundleFault (EMPTY, CHANGED, LINK, SPECIAL_FILE, UNSAFE_PATH, TOO_LARGE, UNREADABLE, NO_SPACE, MISSING),
    and InterruptedError once `stop` is set.
    """
    packing = _Packing(source, limits or Limits(), parts, stop or threading.Event(), progress)
    manifest = packing.read(fingerprint, provenance)
    signatures = (Signature.by(signer, manifest.encode()),) if signer else ()
    sweep(target if target.is_dir() else target.parent)
    try:
        with draft_file(target / "new" if target.is_dir() else target) as draft:
            digest, size = packing.write(draft, manifest, signatures)
            path = target / bundle_name(manifest.key, digest) if target.is_dir() else target
            publish_file(draft, path)
    except OSError as error:
        raise not_written(target, error) from error
    return Packed(path, digest, size, manifest, packing.left_out)


class _Packing:
    """One run: `read` lists and digests, `write` archives the same bytes or fails."""

    def __init__(
        self, source: Path, limits: Limits, parts: tuple[Part, ...], stop: threading.Event, progress: Progress | None
    ) -> None:
        self._source, self._limits, self._parts, self._stop = source, limits, parts, stop
        self._progress = progress or (lambda _done, _total: None)
        self._found: tuple[Found, ...] = ()
        self._relocated: dict[str, bytes] = {}
        self._done = self._total = 0
        self.left_out: tuple[str, ...] = ()

    def read(self, fingerprint: Fingerprint, provenance: Provenance) -> Manifest:
        """The manifest of what is there now."""
        self._found = collect(self._source, self._limits, self._stop, self._parts)
        self._total = 2 * sum(file.size for file in self._found)  # once to digest, once to archive
        entries = [(file, self._digest(file)) for file in self._found]
        self.left_out = tuple(file.path for file, entry in entries if entry is None)
        files = tuple(entry for _, entry in entries if entry)
        if not files:
            parts = ", ".join(part.directory for part in self._parts)
            what = f"there is nothing to pack in it ({parts})"
            raise BundleFault(BundleCause.EMPTY, self._source, what, "start an engine with this cache root first")
        manifest = make_manifest(fingerprint, provenance, files)
        self._limits.check_manifest(self._source, manifest)
        return manifest

    def write(self, draft: Draft, manifest: Manifest, signatures: tuple[Signature, ...]) -> tuple[str, int]:
        """Archive into `draft`; the digest and size of the file."""
        by_path = {file.path: file for file in self._found}
        written = write_bundle(
            draft,
            manifest,
            signatures,
            contents=((entry, self._again(by_path[entry.path], entry)) for entry in manifest.files),
            limits=self._limits,
            named=self._source,
        )
        self._refuse_changes()
        self._progress(self._total, self._total)
        return written

    def _digest(self, file: Found) -> FileDigest | None:
        relocated = self._relocate(file) if holds_paths(file.path) else None
        if holds_paths(file.path) and relocated is None:
            return None
        digest = hashlib.sha256()
        for chunk in (relocated,) if relocated is not None else self._chunks(file):
            digest.update(chunk)
        return FileDigest(
            path=file.path,
            size=file.size if relocated is None else len(relocated),
            sha256=digest.hexdigest(),
            mode=0o755 if file.executable else 0o644,
            mtime_ns=file.mtime_ns if file.part.mtimes else None,
            relocated=relocated is not None,
        )

    def _relocate(self, file: Found) -> bytes | None:
        if file.size > RELOCATED_BYTES:
            return None
        content = without_root(b"".join(self._chunks(file)), self._source)
        if content is not None:
            self._relocated[file.path] = content
        return content

    def _again(self, file: Found, entry: FileDigest) -> Iterator[bytes]:
        """The content once more; raises BundleFault (CHANGED) where it is not what was digested."""
        if entry.relocated:
            yield self._relocated[file.path]
            return
        digest = hashlib.sha256()
        for chunk in self._chunks(file):
            digest.update(chunk)
            yield chunk
        if digest.hexdigest() != entry.sha256:
            raise changed(self._source, file.path)

    def _chunks(self, file: Found) -> Iterator[bytes]:
        """Exactly `file.size` bytes of the file, which must not have changed since it was found."""
        fd = open_found(self._source, file)
        try:
            left = file.size
            while left:
                if self._stop.is_set():
                    raise InterruptedError("packing was cancelled")
                chunk = os.read(fd, min(CHUNK_BYTES, left))
                if not chunk:
                    raise changed(self._source, file.path)
                left -= len(chunk)
                self._done += len(chunk)
                self._progress(self._done, self._total)
                yield chunk
        except OSError as error:
            if isinstance(error, InterruptedError):
                raise
            raise unreadable(self._source / file.path, error) from error
        finally:
            os.close(fd)

    def _refuse_changes(self) -> None:
        now = collect(self._source, self._limits, self._stop, self._parts)
        if now != self._found:
            path = min(file.path for file in {*now} ^ {*self._found})
            raise changed(self._source, path)
