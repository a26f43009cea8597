"""A store in a directory: a PVC, a hostPath, an NFS export; many hosts at once, read-only ones among them.

    <root>/bundles/<key>/<key>-<digest>.bundle    the bytes
    <root>/bundles/<key>/<digest>.json            its record, written after the bytes: without it there is no bundle
    <root>/bundles/<key>/newest.json              a copy of the record of the newest

Everything is written under a temporary name, synced and renamed, so a reader sees a file whole or not at all, and a
publisher that dies leaves nothing that counts. Renaming is all that is asked of the file system: no locks, no links.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import ParamSpec, TypeVar

from runtime.aside import aside
from runtime.cache.stores.base import (
    HEX64,
    BundleRef,
    Progress,
    StoreCause,
    StoreFault,
    newest_of,
    proven_hex,
)
from runtime.cache.stores.files import (
    CHUNK_BYTES,
    Arriving,
    digest_of,
    fault_of,
    open_regular,
    proven_size,
    read_chunks,
    write_whole,
)
from runtime.cache.stores.keep import Keep, to_delete
from runtime.cache.stores.leftovers import STALE_S, sweep
from runtime.cache.stores.patience import Patience, bounded
from runtime.cache.stores.receive import receive
from runtime.cache.stores.record import MOST_BYTES, from_json, to_json

P = ParamSpec("P")
T = TypeVar("T")

NEWEST = "newest.json"


class DirectoryStore:
    """Bundles below `root`, which must exist to read; publishing makes it. `wall`: the clock, for `published_at`."""

    def __init__(
        self,
        root: Path,
        *,
        patience: Patience | None = None,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._root = root
        self._patience = patience or Patience()
        self._wall = wall

    @property
    def place(self) -> str:
        """As a URL."""
        return f"file://{self._root}"

    async def newest(self, key: str) -> BundleRef | None:
        """By the pointer; where it is missing, damaged, or points at what was deleted, by the records."""
        return await self._short(self._newest, proven_hex(key, "a bundle's key"))

    async def fetch(self, ref: BundleRef, into: Path, progress: Progress | None = None) -> None:
        """See Store."""
        path = self._folder(ref.key) / ref.name
        await receive(
            lambda offset: read_chunks(path, offset),
            ref,
            into,
            place=self.place,
            patience=self._patience,
            progress=progress,
        )

    async def publish(self, key: str, file: Path, digest: str, metadata: Mapping[str, str] | None = None) -> BundleRef:
        """See Store."""
        async with bounded(self._patience.total_s, self.place, f"publishing {file.name}"):
            try:
                return await aside(self._publish, key, file, digest, dict(metadata or {}))
            except OSError as error:
                raise fault_of(error, self.place) from error

    async def list(self, key: str | None = None) -> tuple[BundleRef, ...]:
        """See Store."""
        return await self._short(self._list, key)

    async def delete(self, ref: BundleRef) -> None:
        """The record goes first: from then on the bundle is not there; a reader that has it open reads on."""
        await self._short(self._delete, ref)

    async def gc(self, keep: Keep, now: datetime) -> tuple[BundleRef, ...]:
        """See Store. Of dead publishers: temporary files, and bytes without a record after 6 hours."""
        gone = to_delete(await self.list(), keep, now)
        for ref in gone:
            await self.delete(ref)
        await self._short(self._sweep, now)
        return gone

    async def close(self) -> None:
        """Nothing is held open."""

    # What follows blocks, and runs aside.

    async def _short(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        async with bounded(self._patience.window_s, self.place, "looking there"):
            try:
                return await aside(call, *args, **kwargs)
            except OSError as error:
                raise fault_of(error, self.place) from error

    def _folder(self, key: str) -> Path:
        return self._root / "bundles" / key

    def _newest(self, key: str) -> BundleRef | None:
        self._must_be()
        pointed = _record(self._folder(key) / NEWEST)
        if pointed is not None and pointed.key == key and self._is_there(pointed):
            return pointed
        return newest_of(self._list(key))

    def _is_there(self, ref: BundleRef) -> bool:
        folder = self._folder(ref.key)
        return (folder / f"{ref.digest}.json").is_file() and _size(folder / ref.name) == ref.size_bytes

    def _list(self, key: str | None) -> tuple[BundleRef, ...]:
        keys = None if key is None else (proven_hex(key, "a bundle's key"),)
        self._must_be()
        refs = []
        for each in keys if keys is not None else self._keys():
            for path in _below(self._folder(each)):
                if path.suffix != ".json" or not HEX64.fullmatch(path.stem):
                    continue
                ref = _record(path)
                if ref is not None and (ref.key, ref.digest) == (each, path.stem) and self._is_there(ref):
                    refs.append(ref)
        return tuple(sorted(refs, key=lambda ref: ref.age_order))

    def _must_be(self) -> None:
        if not self._root.is_dir():
            fix = "mount the volume, or correct the path; the first publisher makes the last directory of it"
            raise StoreFault(StoreCause.ABSENT, self.place, "no such directory", fix)

    def _keys(self) -> tuple[str, ...]:
        return tuple(path.name for path in _below(self._root / "bundles") if HEX64.fullmatch(path.name))

    def _publish(self, key: str, file: Path, digest: str, metadata: dict[str, str]) -> BundleRef:
        folder = self._folder(proven_hex(key, "a bundle's key"))
        self._root.mkdir(exist_ok=True)  # never its parents: where a mount is missing, it would fill the root disk
        folder.mkdir(parents=True, exist_ok=True)
        ref = BundleRef(key, digest, proven_size(file, digest), self._wall(), metadata)
        sweep(folder, self._wall())
        if not self._holds(folder / ref.name, ref):
            _copy(file, folder / ref.name, ref)
        write_whole(folder / f"{digest}.json", to_json(ref))  # published before: it is new again
        write_whole(folder / NEWEST, to_json(ref))
        return ref

    def _holds(self, path: Path, ref: BundleRef) -> bool:
        try:
            found = digest_of(path)
        except FileNotFoundError:
            return False
        if found != (ref.digest, ref.size_bytes):
            said = f"holds other bytes (sha256 {found[0]}) than its name says, and is left as it is"
            raise StoreFault(StoreCause.CORRUPT, str(path), said, "find out who wrote it; delete it, and publish again")
        return True

    def _delete(self, ref: BundleRef) -> None:
        folder = self._folder(ref.key)
        pointed = _record(folder / NEWEST)
        (folder / f"{ref.digest}.json").unlink(missing_ok=True)
        if pointed == ref:
            remaining = newest_of(self._list(ref.key))
            if remaining is None:
                (folder / NEWEST).unlink(missing_ok=True)
            else:
                write_whole(folder / NEWEST, to_json(remaining))
        (folder / ref.name).unlink(missing_ok=True)

    def _sweep(self, now: datetime) -> None:
        for key in self._keys():
            folder = self._folder(key)
            sweep(folder, now)
            for path in _below(folder):
                digest = path.name.removeprefix(f"{key}-").removesuffix(".bundle")
                if not HEX64.fullmatch(digest) or (folder / f"{digest}.json").exists():
                    continue
                if now.timestamp() - path.lstat().st_mtime > STALE_S:
                    path.unlink(missing_ok=True)


def _copy(file: Path, target: Path, ref: BundleRef) -> None:
    arriving = Arriving(target)
    try:
        with open(open_regular(file), "rb", buffering=0) as source:
            while chunk := source.read(CHUNK_BYTES):
                arriving.add(chunk)
        if arriving.digest != ref.digest:
            said = "changed while it was being published"
            raise StoreFault(StoreCause.CORRUPT, str(file), said, "publish it once nothing writes to it any more")
        arriving.keep()
    finally:
        arriving.drop()


def _record(path: Path) -> BundleRef | None:
    try:
        handle = open_regular(path)
    except OSError:
        return None
    with open(handle, "rb") as file:
        return from_json(file.read(MOST_BYTES))


def _size(path: Path) -> int | None:
    try:
        return path.lstat().st_size
    except OSError:
        return None


def _below(folder: Path) -> tuple[Path, ...]:
    try:
        return tuple(sorted(folder.iterdir()))
    except FileNotFoundError:
        return ()
