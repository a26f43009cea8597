"""A store's URL → the store, and the order in which a start asks them.

baked:///opt/prebuilt-cache     what the image brings (`baked:` alone: that place)
file:///caches                  a directory; a plain absolute path means the same
s3://bucket/prefix              S3 and what speaks it; gs://bucket/prefix, az://container/prefix
oci://registry/repository       an OCI registry; oci+http:// without TLS, loopback only
"""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from runtime.cache.stores.baked import ROOT, BakedStore
from runtime.cache.stores.base import BadStoreUrl, Store
from runtime.cache.stores.directory import DirectoryStore
from runtime.cache.stores.patience import Patience

KINDS = "baked:, file:///dir, s3://, gs://, az://, oci://, or an absolute path"


def open_store(url: str, *, patience: Patience | None = None) -> Store:
    """The store at `url`; nothing is asked of it yet. BadStoreUrl if it can be none."""
    if url.startswith("/"):
        return DirectoryStore(_absolute(url, url), patience=patience)
    parts = urlsplit(url)
    if parts.password or (parts.username and parts.scheme != "az"):
        shown = f"{parts.scheme}://…@{parts.hostname}{parts.path}"
        raise BadStoreUrl(f"{shown}: credentials in a URL end up in logs; give them by environment or registry login")
    match parts.scheme:
        case "baked" if not parts.netloc:
            return BakedStore(_absolute(parts.path, url) if parts.path else ROOT, patience=patience)
        case "file" if parts.netloc in ("", "localhost"):
            return DirectoryStore(_absolute(unquote(parts.path), url), patience=patience)
        case "s3" | "gs" | "az":
            from runtime.cache.stores.objects import ObjectStore  # noqa: PLC0415  # 20 MB of library, only if needed

            return ObjectStore.at(url, patience=patience)
        case "oci" | "oci+http":
            from runtime.cache.stores.oci import OciStore  # noqa: PLC0415  # httpx, only if needed

            return OciStore.at(url, patience=patience)
        case _:
            raise BadStoreUrl(f"{url!r} is no store: use {KINDS}")


def open_stores(urls: Sequence[str], *, patience: Patience | None = None) -> tuple[Store, ...]:
    """The stores in the order of asking: what the image brings, this host's directories, then the others as given.

    Only the kind moves a store forward; within a kind the given order stays. The same URL twice is asked once.
    """
    stores = [open_store(url, patience=patience) for url in dict.fromkeys(urls)]
    return tuple(sorted(stores, key=_nearness))


def _nearness(store: Store) -> int:
    if isinstance(store, BakedStore):
        return 0
    return 1 if isinstance(store, DirectoryStore) else 2


def _absolute(path: str, url: str) -> Path:
    if not path.startswith("/") or ".." in Path(path).parts:
        raise BadStoreUrl(f"{url!r}: give an absolute path without '..'")
    return Path(path)
