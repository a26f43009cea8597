"""How a user names a bundle: a file, `STORE#KEY`, or a key of this host's shelf alone.

    out/3f2a…-9c41….bundle                 a bundle file
    s3://caches/prod#3f2a91                in a store; KEY is as much of a key, or of a digest, as is needed
    /mnt/caches#                           in a store that holds bundles of one key only
    3f2a91                                 in this host's own shelf; six digits at least

Of several bundles with one key, the newest is meant.
"""

import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from runtime.cache.cli.failures import Refused
from runtime.cache.cli.options import store_url
from runtime.cache.cli.places import OwnShelf, opened, scratch
from runtime.cache.cli.terminal import Line
from runtime.cache.stores.base import HEX64, BundleRef, Store, newest_of

_PREFIX = re.compile(r"[0-9a-f]{6,64}")
_ANY_PREFIX = re.compile(r"[0-9a-f]{0,64}")


@dataclass(frozen=True, slots=True)
class InStore:
    """A bundle in the store at `url` whose key or digest begins with `prefix`; `ref` where it was seen already."""

    url: str
    prefix: str
    ref: BundleRef | None = None


@dataclass(frozen=True, slots=True)
class Here:
    """A bundle as a file here. `ref`: what its store said of it, None for a file that was named."""

    file: Path
    ref: BundleRef | None
    place: str


def parse(text: str, own: OwnShelf) -> Path | InStore:
    """What `text` names. Raises Refused."""
    place, hash_sign, prefix = text.rpartition("#")
    if Path(text).is_file():
        return Path(text)
    if hash_sign:
        if not _ANY_PREFIX.fullmatch(prefix):
            raise Refused(f"{text}: {prefix!r} is no key: give its hex digits in lower case, as `ls` shows them")
        return InStore(store_url(place) if place else own.needed_url(), prefix)
    if _PREFIX.fullmatch(text):
        return InStore(own.needed_url(), text)
    raise Refused(f"{text}: no such file: name a file, STORE#KEY, or a key of this host's shelf (six digits or more)")


async def find(store: Store, prefix: str) -> BundleRef:
    """The newest bundle whose key or digest begins with `prefix`. Raises Refused, StoreFault."""
    if HEX64.fullmatch(prefix) and (ref := await store.newest(prefix)):
        return ref
    found = [ref for ref in await store.list() if ref.key.startswith(prefix) or ref.digest.startswith(prefix)]
    keys = sorted({ref.key for ref in found})
    if len(keys) > 1:
        some = ", ".join(key[:12] for key in keys[:4])
        more = " …" if len(keys) > 4 else ""
        raise Refused(f"{store.place}#{prefix}: {len(keys)} keys begin so ({some}{more}): give more digits")
    newest = newest_of(tuple(found))
    if newest is None:
        raise Refused(f"{store.place}#{prefix}: no bundle with such a key: `pilotlight cache ls` shows what is there")
    return newest


@contextlib.asynccontextmanager
async def here(named: Path | InStore, line: Line) -> AsyncIterator[Here]:
    """The bundle as a file: itself, or fetched to a place that is gone afterwards. Raises Refused, StoreFault."""
    if isinstance(named, Path):
        yield Here(named, None, str(named))
        return
    async with opened(named.url) as store:
        ref = named.ref or await find(store, named.prefix)
        with scratch() as folder:
            yield await fetched(store, ref, folder, line)


async def fetched(store: Store, ref: BundleRef, folder: Path, line: Line) -> Here:
    """The bundle `ref`, copied into `folder`. Raises StoreFault."""
    file = folder / ref.name
    await store.fetch(ref, file, lambda done, total: line.bytes(f"fetching {ref.key[:12]}", done, total))
    return Here(file, ref, f"{store.place}#{ref.key[:12]}")
