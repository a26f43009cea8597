"""What a publisher's lock must be able to do, and its record as JSON."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from runtime.cache.publisher import LockRecord
from runtime.cache.stores.base import StoreFault


@dataclass(frozen=True, slots=True)
class Seen:
    """A lock's record as it was read, and the mark by which the lock knows whether it has changed since."""

    record: LockRecord
    version: str


class LockUnsupported(StoreFault):
    """This store cannot write on a condition, so it can keep no lock: whoever compiles may publish."""


class Lock(Protocol):
    """The record of one fingerprint's publisher. Each method raises StoreFault and nothing else of the store's own."""

    async def read(self) -> Seen | None:
        """The record. None: nobody ever wrote one."""

    async def write(self, record: LockRecord, over: Seen | None) -> bool:
        """Write `record`, if what is there is still `over`. False: it is not, and nothing was written."""


def to_json(record: LockRecord) -> bytes:
    """The record as it is kept in files and objects."""
    fields: dict[str, object] = {
        "holder": record.holder,
        "token": record.token,
        "renewed_at": record.renewed_at.isoformat(),
        "ttl_s": record.ttl_s,
    }
    if record.begun_at is not None:
        fields["begun_at"] = record.begun_at.isoformat()
    return json.dumps(fields, sort_keys=True).encode()


def from_json(data: bytes) -> LockRecord | None:
    """The record in `data`. None: this is none."""
    try:
        fields = json.loads(data)
        if not isinstance(fields, Mapping) or not isinstance(fields["holder"], str | None):
            return None
        return LockRecord(
            holder=fields["holder"],
            token=int(fields["token"]),
            renewed_at=datetime.fromisoformat(fields["renewed_at"]),
            ttl_s=float(fields["ttl_s"]),
            begun_at=datetime.fromisoformat(fields["begun_at"]) if "begun_at" in fields else None,
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
