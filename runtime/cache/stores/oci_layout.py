"""How a bundle looks in a registry: one artifact manifest, its layer the bundle's bytes as they are (ADR 0007).

manifest   artifactType BUNDLE_TYPE, the empty config, one layer: digest of the layer = digest of the bundle
tags       `<key>.<first 32 digits of the digest>` for each bundle; `<key>` for the newest
annotation RECORD: the record that other stores keep beside the bytes
"""

import hashlib
import json
import re

from runtime.cache.stores.base import BundleRef
from runtime.cache.stores.record import from_json, to_json

BUNDLE_TYPE = "application/vnd.pilotlight.cache.bundle.v1"
LAYER_TYPE = "application/vnd.pilotlight.cache.bundle.v1.tar+zstd"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
EMPTY = b"{}"
EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
RECORD = "dev.pilotlight.cache.record"
TAG = re.compile(r"([0-9a-f]{64})\.[0-9a-f]{32}", re.ASCII)


def digest_string(data: bytes) -> str:
    """As registries write digests."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def tag_of(ref: BundleRef) -> str:
    """The tag of one bundle. A tag has at most 128 characters, two whole digests would have 129."""
    return f"{ref.key}.{ref.digest[:32]}"


def to_manifest(ref: BundleRef) -> bytes:
    """The manifest of `ref`."""
    layer = {
        "mediaType": LAYER_TYPE,
        "digest": f"sha256:{ref.digest}",
        "size": ref.size_bytes,
        "annotations": {"org.opencontainers.image.title": ref.name},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "artifactType": BUNDLE_TYPE,
        "config": {"mediaType": EMPTY_TYPE, "digest": digest_string(EMPTY), "size": len(EMPTY)},
        "layers": [layer],
        "annotations": {
            "org.opencontainers.image.created": ref.published_at.isoformat(),
            RECORD: to_json(ref).decode(),
        },
    }
    return json.dumps(manifest, indent=1, sort_keys=True).encode()


def from_manifest(data: bytes) -> BundleRef | None:
    """The bundle that a manifest holds. None: it is no bundle of ours, or its record and its layer differ."""
    try:
        manifest = json.loads(data)
        ref = from_json(manifest["annotations"][RECORD].encode())
        (layer,) = manifest["layers"]
        if ref is None or (layer["digest"], layer["size"]) != (f"sha256:{ref.digest}", ref.size_bytes):
            return None
        return ref
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
