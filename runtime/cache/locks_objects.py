"""A publisher's lock in an object store: one object, put on the condition that it is still the one that was read.

    <prefix>/locks/<key>.json

The first put asks for absence (If-None-Match), each later one for the ETag that was read (If-Match); for GCS it is the
generation, which obstore carries as the version.
"""

import json
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError

from runtime.cache.locks import LockUnsupported, Seen, from_json, to_json
from runtime.cache.publisher import LockRecord
from runtime.cache.stores.base import StoreCause, StoreFault, proven_hex
from runtime.cache.stores.objects import connect
from runtime.cache.stores.objects_fault import fault_from, is_condition, is_unsupported
from runtime.cache.stores.patience import Patience, bounded
from runtime.cache.stores.record import MOST_BYTES

if TYPE_CHECKING:
    from obstore import PutMode
    from obstore.store import ObjectStore as Raw


class ObjectLock:
    """The lock of `key` in a bucket or container."""

    def __init__(self, raw: "Raw", place: str, key: str, *, patience: Patience | None = None) -> None:
        self._raw = raw
        self._name = "locks/" + proven_hex(key, "the key of a lock") + ".json"
        self._place = f"{place}/{self._name}"
        self._patience = patience or Patience()

    @classmethod
    def at(cls, url: str, key: str, *, patience: Patience | None = None) -> "ObjectLock":
        """The lock in the store at an s3://, gs:// or az:// URL."""
        return cls(connect(url, patience or Patience()), url, key, patience=patience)

    async def read(self) -> Seen | None:
        """See Lock."""
        async with bounded(self._patience.window_s, self._place, "reading the lock"):
            try:
                answer = await obstore.get_async(self._raw, self._name)
                small = answer.meta["size"] <= MOST_BYTES
                record = from_json(bytes(await answer.bytes_async())) if small else None
            except FileNotFoundError as error:
                if "NoSuchBucket" in str(error):
                    raise fault_from(error, self._place) from error
                return None
            except (BaseError, OSError) as error:
                raise fault_from(error, self._place) from error
        if record is None:
            raise StoreFault(StoreCause.CORRUPT, self._place, "this is no lock of ours", "delete the object")
        marks = {"e_tag": answer.meta["e_tag"], "version": answer.meta["version"]}
        return Seen(record, json.dumps({name: mark for name, mark in marks.items() if mark is not None}))

    async def write(self, record: LockRecord, over: Seen | None) -> bool:
        """See Lock. LockUnsupported if this store puts nothing on a condition."""
        mode: PutMode = "create" if over is None else json.loads(over.version)
        async with bounded(self._patience.window_s, self._place, "writing the lock"):
            try:
                await obstore.put_async(self._raw, self._name, to_json(record), mode=mode, use_multipart=False)
            except (AlreadyExistsError, FileNotFoundError):
                return False
            except (BaseError, NotImplementedError, OSError) as error:
                if is_condition(error):
                    return False
                if is_unsupported(error):
                    fix = "nothing is lost: whoever compiles publishes; or let a Lease or a directory be the lock"
                    said = "it cannot put on a condition"
                    raise LockUnsupported(StoreCause.DENIED, self._place, said, fix) from error
                raise fault_from(error, self._place) from error
        return True
