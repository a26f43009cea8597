"""Bundles baked into the serving image: read-only, first in the order, and copied out before use.

    <root>/<key>/*.bundle

Copied, because an engine writes into its cache; never used in place and never a mount point, because a volume mounted
there would hide what the image brings. A file named `<key>-<digest>.bundle` is taken at its word until it is fetched;
of any other name the digest is computed when the store is first asked.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from runtime.aside import aside
from runtime.cache.stores.base import HEX64, BundleRef, Progress, StoreCause, StoreFault, newest_of, proven_hex
from runtime.cache.stores.files import digest_of, fault_of, read_chunks
from runtime.cache.stores.keep import Keep
from runtime.cache.stores.patience import Patience, bounded
from runtime.cache.stores.receive import receive

ROOT = Path("/opt/prebuilt-cache")
"""Where images of ours have them."""


class BakedStore:
    """What the image brings. Asking an image that brings nothing is no fault; publishing into one is DENIED."""

    def __init__(self, root: Path = ROOT, *, patience: Patience | None = None) -> None:
        self._root = root
        self._patience = patience or Patience()
        self._found: dict[Path, BundleRef] = {}

    @property
    def place(self) -> str:
        """As a URL."""
        return f"baked://{self._root}"

    async def newest(self, key: str) -> BundleRef | None:
        """See Store."""
        return newest_of(await self.list(key))

    async def fetch(self, ref: BundleRef, into: Path, progress: Progress | None = None) -> None:
        """See Store."""
        path = await aside(self._path, ref)
        await receive(
            lambda offset: read_chunks(path, offset),
            ref,
            into,
            place=self.place,
            patience=self._patience,
            progress=progress,
        )

    async def publish(self, key: str, file: Path, digest: str, metadata: Mapping[str, str] | None = None) -> BundleRef:
        """DENIED: an image does not change."""
        self._refuse()

    async def list(self, key: str | None = None) -> tuple[BundleRef, ...]:
        """See Store."""
        if key is not None:
            proven_hex(key, "a bundle's key")
        async with bounded(self._patience.total_s, self.place, "reading what the image brings"):
            try:
                return await aside(self._list, key)
            except OSError as error:
                raise fault_of(error, self.place) from error

    async def delete(self, ref: BundleRef) -> None:
        """DENIED: an image does not change."""
        self._refuse()

    async def gc(self, keep: Keep, now: datetime) -> tuple[BundleRef, ...]:
        """Nothing is ever deleted."""
        return ()

    async def close(self) -> None:
        """Nothing is held open."""

    def _refuse(self) -> NoReturn:
        raise StoreFault(StoreCause.DENIED, self.place, "it is part of the image", "build the image anew to change it")

    def _list(self, key: str | None) -> tuple[BundleRef, ...]:
        try:
            keys = [key] if key is not None else [each.name for each in self._root.iterdir()]
        except FileNotFoundError:
            return ()
        paths = [path for each in keys if HEX64.fullmatch(each) for path in (self._root / each).glob("*.bundle")]
        return tuple(sorted((self._ref(path) for path in paths), key=lambda ref: ref.age_order))

    def _ref(self, path: Path) -> BundleRef:
        if path not in self._found:
            key, stat = path.parent.name, path.stat()
            named = path.name.removeprefix(f"{key}-").removesuffix(".bundle")
            digest = named if HEX64.fullmatch(named) else digest_of(path)[0]
            self._found[path] = BundleRef(key, digest, stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC))
        return self._found[path]

    def _path(self, ref: BundleRef) -> Path:
        for path, found in tuple(self._found.items()):
            if found == ref:
                return path
        for path in (self._root / ref.key).glob("*.bundle"):
            if self._ref(path) == ref:
                return path
        fix = "the image changed since it was asked; ask it again"
        raise StoreFault(StoreCause.ABSENT, self.place, f"no bundle {ref.digest[:12]} of {ref.key[:12]}", fix)
