"""A store in S3, GCS or Azure (and what speaks the same), by obstore.

    <prefix>/<key>/<key>-<digest>.bundle    the bytes
    <prefix>/<key>/<digest>.json            its record, put after the bytes: without it there is no bundle
    <prefix>/<key>/newest.json              a copy of the record of the newest

Endpoint and credentials come from the environment as obstore takes them (AWS_*, GOOGLE_*, AZURE_*), or from the pod's
identity. An object is there whole or not at all, so no put of ours can be seen half done.
"""

import os
from collections.abc import AsyncGenerator, Mapping
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import from_url

from runtime.cache.stores.base import (
    HEX64,
    BadStoreUrl,
    BundleRef,
    Progress,
    StoreCause,
    StoreFault,
    newest_of,
    proven_hex,
)
from runtime.cache.stores.files import proven_ref
from runtime.cache.stores.keep import Keep, to_delete
from runtime.cache.stores.objects_fault import fault_from, is_unsupported
from runtime.cache.stores.patience import Patience, bounded
from runtime.cache.stores.receive import receive
from runtime.cache.stores.record import MOST_BYTES, from_json, to_json
from runtime.cache.stores.several import ask_each

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Raw

CHUNK_BYTES = 512 * 1024
"""Small enough that a slow link shows progress within Patience's window."""
ONE_PUT_BYTES = 64 * 1024 * 1024
"""Up to this size an object is put in one request, on the condition that there is none; a larger one in parts."""
RETRIES = {
    "max_retries": 3,
    "retry_timeout": timedelta(seconds=15),
    "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=2), "base": 2},
}
CLOUDS = ("AWS", "GOOGLE", "AZURE")
NEWEST = "newest.json"


def connect(url: str, patience: Patience) -> "Raw":
    """The library's store at `url`, within our bounds. Nothing is asked of it yet. BadStoreUrl if they clash."""
    # With options of our own the library no longer looks for this one in the environment.
    plain = any(os.environ.get(f"{cloud}_ALLOW_HTTP", "").lower() in ("1", "true") for cloud in CLOUDS)
    options = {"connect_timeout": "5s", "timeout": timedelta(seconds=patience.total_s), "allow_http": plain}
    try:
        raw: Raw = from_url(url, client_options=options, retry_config=RETRIES)  # type: ignore[call-overload]  # TypedDicts
        return raw
    except (BaseError, ValueError) as error:
        raise BadStoreUrl(f"{url}: {str(error).splitlines()[0]}; check the URL and its environment") from error


class ObjectStore:
    """Bundles in a bucket or container, below a prefix."""

    def __init__(self, raw: "Raw", place: str, *, patience: Patience | None = None) -> None:
        self._raw = raw
        self._place = place
        self._patience = patience or Patience()

    @classmethod
    def at(cls, url: str, *, patience: Patience | None = None) -> "ObjectStore":
        """The store at an s3://, gs:// or az:// URL."""
        bounds = patience or Patience()
        return cls(connect(url, bounds), url, patience=bounds)

    @property
    def place(self) -> str:
        """Its URL."""
        return self._place

    async def newest(self, key: str) -> BundleRef | None:
        """By the pointer; where it is missing, damaged, or points at what was deleted, by the records."""
        proven_hex(key, "a bundle's key")
        pointed = await self._record(f"{key}/{NEWEST}")
        if pointed is not None and pointed.key == key and await self._size(_bytes(pointed)) == pointed.size_bytes:
            return pointed
        return newest_of(await self.list(key))

    async def fetch(self, ref: BundleRef, into: Path, progress: Progress | None = None) -> None:
        """See Store."""
        await receive(
            partial(self._read, ref), ref, into, place=self._place, patience=self._patience, progress=progress
        )

    async def publish(self, key: str, file: Path, digest: str, metadata: Mapping[str, str] | None = None) -> BundleRef:
        """See Store. Bytes under this name are told from ours by their size; what differs otherwise, `fetch` finds."""
        ref = await proven_ref(key, file, digest, metadata)
        record = to_json(ref)
        async with bounded(self._patience.total_s, self._place, f"publishing {file.name}"):
            if not await self._holds(ref):
                await self._put_bytes(file, ref)
            await self._put(f"{key}/{digest}.json", record)
            await self._put(f"{key}/{NEWEST}", record)
        return ref

    async def list(self, key: str | None = None) -> tuple[BundleRef, ...]:
        """See Store."""
        names = await self._names(proven_hex(key, "a bundle's key") + "/" if key is not None else None)
        records = [name for name in names if _is_record(name)]
        async with bounded(self._patience.total_s, self._place, "reading its records"):
            found = await ask_each(self._record, records)
        refs = [
            ref
            for name, ref in zip(records, found, strict=True)
            if ref is not None and name == f"{ref.key}/{ref.digest}.json" and names.get(_bytes(ref)) == ref.size_bytes
        ]
        return tuple(sorted(refs, key=lambda each: each.age_order))

    async def delete(self, ref: BundleRef) -> None:
        """The record goes first: from then on the bundle is not there."""
        pointed = await self._record(f"{ref.key}/{NEWEST}")
        await self._delete(f"{ref.key}/{ref.digest}.json")
        if pointed == ref:
            remaining = newest_of(await self.list(ref.key))
            if remaining is None:
                await self._delete(f"{ref.key}/{NEWEST}")
            else:
                await self._put(f"{ref.key}/{NEWEST}", to_json(remaining))
        await self._delete(_bytes(ref))

    async def gc(self, keep: Keep, now: datetime) -> tuple[BundleRef, ...]:
        """See Store. Parts of uploads that never ended are the bucket's own to expire (a lifecycle rule)."""
        gone = to_delete(await self.list(), keep, now)
        for ref in gone:
            await self.delete(ref)
        return gone

    async def close(self) -> None:
        """The library keeps its connections as long as the object lives."""

    async def _read(self, ref: BundleRef, offset: int) -> AsyncGenerator[bytes, None]:
        try:
            answer = await obstore.get_async(self._raw, _bytes(ref), options={"range": {"offset": offset}})
            if answer.meta["size"] != ref.size_bytes:
                said = f"{ref.name} has {answer.meta['size']} bytes, not the {ref.size_bytes} of its record"
                raise StoreFault(StoreCause.CORRUPT, self._place, said, "delete it there, and publish it again")
            async for chunk in answer.stream(min_chunk_size=CHUNK_BYTES):
                yield bytes(chunk)
        except (BaseError, OSError) as error:
            raise fault_from(error, self._place) from error

    async def _holds(self, ref: BundleRef) -> bool:
        size_bytes = await self._size(_bytes(ref))
        if size_bytes not in (None, ref.size_bytes):
            said = f"{ref.name} holds {size_bytes} bytes, not {ref.size_bytes}, and is left as it is"
            raise StoreFault(
                StoreCause.CORRUPT, self._place, said, "find out who wrote it; delete it, and publish again"
            )
        return size_bytes is not None

    async def _put_bytes(self, file: Path, ref: BundleRef) -> None:
        # Two publishers of one name bring the same bytes (the name has their digest), so the condition is a courtesy:
        # it keeps a good object from being written twice, and a store that does not know it loses nothing.
        name = _bytes(ref)
        try:
            if ref.size_bytes > ONE_PUT_BYTES:
                await obstore.put_async(self._raw, name, file)
                return
            try:
                await obstore.put_async(self._raw, name, file, mode="create", use_multipart=False)
            except AlreadyExistsError:
                await self._holds(ref)
            except (BaseError, NotImplementedError) as error:
                if not is_unsupported(error):
                    raise
                await obstore.put_async(self._raw, name, file, use_multipart=False)
        except (BaseError, OSError) as error:
            raise fault_from(error, self._place) from error

    async def _put(self, name: str, data: bytes) -> None:
        async with bounded(self._patience.window_s, self._place, f"writing {name}"):
            try:
                await obstore.put_async(self._raw, name, data)
            except (BaseError, OSError) as error:
                raise fault_from(error, self._place) from error

    async def _record(self, name: str) -> BundleRef | None:
        async with bounded(self._patience.window_s, self._place, f"reading {name}"):
            try:
                answer = await obstore.get_async(self._raw, name)
                return from_json(bytes(await answer.bytes_async())) if answer.meta["size"] <= MOST_BYTES else None
            except FileNotFoundError as error:
                if "NoSuchBucket" in str(error):
                    raise fault_from(error, self._place) from error
                return None
            except (BaseError, OSError) as error:
                raise fault_from(error, self._place) from error

    async def _size(self, name: str) -> int | None:
        async with bounded(self._patience.window_s, self._place, f"looking for {name}"):
            try:
                return (await obstore.head_async(self._raw, name))["size"]
            except FileNotFoundError:
                return None
            except (BaseError, OSError) as error:
                raise fault_from(error, self._place) from error

    async def _names(self, prefix: str | None) -> dict[str, int]:
        async with bounded(self._patience.total_s, self._place, "listing it"):
            try:
                return {each["path"]: each["size"] async for page in obstore.list(self._raw, prefix) for each in page}
            except (BaseError, OSError) as error:
                raise fault_from(error, self._place) from error

    async def _delete(self, name: str) -> None:
        async with bounded(self._patience.window_s, self._place, f"deleting {name}"):
            try:
                await obstore.delete_async(self._raw, name)
            except FileNotFoundError:
                return  # gone already
            except (BaseError, OSError) as error:
                raise fault_from(error, self._place) from error


def _bytes(ref: BundleRef) -> str:
    return f"{ref.key}/{ref.name}"


def _is_record(name: str) -> bool:
    folder, _, leaf = name.rpartition("/")
    return bool(HEX64.fullmatch(folder) and HEX64.fullmatch(leaf.removesuffix(".json")) and leaf.endswith(".json"))
