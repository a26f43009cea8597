"""Bundles that nobody of ours would write, piece by piece."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import zstandard

from runtime.cache.archive import END, FILES, MANIFEST, SIGNATURES, header, padding
from runtime.cache.signing import Signature, SigningKey, encode_signatures
from tests.unit.runtime.cache.trees import FINGERPRINT, PROVENANCE, a_key

Member = tuple[bytes, bytes]
"""A header and its content; the padding is added."""


def sealed(tar: bytes) -> bytes:
    """One zstd frame as ours are: size stated, checksummed."""
    return zstandard.ZstdCompressor(level=3, write_checksum=True).compress(tar)


def tar_of(members: Iterable[Member], end: bytes = END) -> bytes:
    """A tar of these members."""
    return b"".join(head + content + padding(len(content)) for head, content in members) + end


def file_entry(path: str, content: bytes, **more: object) -> dict[str, object]:
    """A file as a manifest lists it; `more` overrides."""
    entry = {
        "path": path,
        "size": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "mode": 0o644,
        "mtime_ns": None,
        "relocated": False,
    }
    return entry | more


def manifest_of(files: list[dict[str, object]], **more: object) -> bytes:
    """A manifest in canonical form that lists these files, right or wrong; `more` overrides."""
    value = {
        "schema_version": 1,
        "key": FINGERPRINT.key,
        "inputs": dict(FINGERPRINT.inputs),
        "provenance": PROVENANCE.model_dump(mode="json"),
        "total_bytes": sum(size for file in files if isinstance(size := file["size"], int)),
        "files": files,
    }
    return json.dumps(value | more, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode(
        errors="surrogatepass"
    )


def signatures_of(manifest: bytes, key: SigningKey | None = None) -> bytes:
    """What `key` says of a manifest."""
    signer = key or a_key()
    return encode_signatures((Signature(signer.public.id, signer.sign(manifest)),))


def bundle_of(manifest: bytes, members: Iterable[Member], signatures: bytes | None = None, end: bytes = END) -> bytes:
    """A bundle of a manifest, validly signed unless told otherwise, and any members after it."""
    signed = signatures_of(manifest) if signatures is None else signatures
    first = [(header(MANIFEST, len(manifest)), manifest), (header(SIGNATURES, len(signed)), signed)]
    return sealed(tar_of([*first, *members], end))


def bundle_with(files: dict[str, bytes], **more: object) -> bytes:
    """A signed bundle that lists and holds these files, whatever their names."""
    entries = [file_entry(path, content) for path, content in files.items()]
    members = [(header_of(path, len(content)), content) for path, content in files.items()]
    return bundle_of(manifest_of(entries, **more), members)


def header_of(path: str, size: int) -> bytes:
    """The header of a file, also of a name that has no UTF-8."""
    return header(FILES + path.encode(errors="replace").decode(), size)


def written(tmp: Path, data: bytes) -> Path:
    """A file of these bytes."""
    path = tmp / "hostile.bundle"
    path.write_bytes(data)
    return path
