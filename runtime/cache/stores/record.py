"""The small JSON record that a store keeps beside each bundle, and as its pointer to the newest."""

import json
from collections.abc import Mapping
from datetime import datetime

from runtime.cache.stores.base import BundleRef

MOST_BYTES = 64 * 1024
"""A record is under 1 kB; more than this is none, and is not read."""
VERSION = 1


def to_json(ref: BundleRef) -> bytes:
    """The record of `ref`."""
    fields = {
        "version": VERSION,
        "key": ref.key,
        "digest": ref.digest,
        "size_bytes": ref.size_bytes,
        "published_at": ref.published_at.isoformat(),
        "metadata": dict(ref.metadata),
    }
    data = json.dumps(fields, indent=1, sort_keys=True).encode()
    if len(data) > MOST_BYTES:
        raise ValueError(f"a bundle's metadata must stay below {MOST_BYTES} bytes, with it the record has {len(data)}")
    return data


def from_json(data: bytes) -> BundleRef | None:
    """The bundle that a record names. None: this is no record of ours (half, damaged, or of a later version)."""
    try:
        fields = json.loads(data)
        if not isinstance(fields, Mapping) or fields["version"] != VERSION:
            return None
        metadata = fields["metadata"]
        if not all(isinstance(value, str) for value in metadata.values()):
            return None
        return BundleRef(
            key=fields["key"],
            digest=fields["digest"],
            size_bytes=int(fields["size_bytes"]),
            published_at=datetime.fromisoformat(fields["published_at"]),
            metadata=dict(metadata),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
