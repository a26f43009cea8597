"""A compile cache as an image that KServe's KernelCache can mount (ADR 0007): an export, beside our own artifact.

Read from GKM's `mcv` (spec-compat, July to August 2026), whose labels KServe's KernelCache takes over:

    layer    one tar+gzip: `io.vllm.cache/…` the cache root, `io.vllm.manifest/manifest.json` what is in it
    labels   cache.vllm.image/{entry-count,cache-size-bytes,summary,format}
             io.kserve.km/{framework,cache-type,cache-hash,cache-mount-subpath,cache-root-env}
"""

import gzip
import hashlib
import json
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, cast

from runtime.aside import aside
from runtime.cache.stores.base import StoreCause, StoreFault
from runtime.cache.stores.files import digest_of, fault_of
from runtime.cache.stores.oci import OciStore
from runtime.cache.stores.oci_layout import MANIFEST_TYPE, digest_string

CACHE_DIR = "io.vllm.cache"
MANIFEST_FILE = "io.vllm.manifest/manifest.json"
COMPILE_DIR = "torch_compile_cache"
AOT_DIR = "torch_aot_compile"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
ROOT_ENV = "VLLM_CACHE_ROOT=/home/kserve/.cache/vllm"
"""Where KServe mounts it. Artifacts that name their own root only fit if they were made at this one."""

Entry = dict[str, object]


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of GPU that the cache is for, as mcv's summary has it: `cuda`, `sm_90`, 32."""

    backend: str
    arch: str
    warp_size: int
    cuda_version: str = ""


def entries_of(root: Path) -> list[Entry]:
    """What mcv says of the compile caches below a cache root: AOT artifacts and binary caches, by hash and rank."""
    found: dict[tuple[str, str], list[Entry]] = {}
    for model in sorted(root.glob(f"{COMPILE_DIR}/{AOT_DIR}/*/rank_*/model")):
        name, rank = model.parts[-3:-1]
        entry: Entry = {"hash": name, "rank": rank, "model_file": "model", "file_size": model.stat().st_size}
        found.setdefault((name, "aot_compile"), []).append(entry)
    for factors in sorted(root.glob(f"{COMPILE_DIR}/*/rank_*/*/cache_key_factors.json")):
        name, rank, prefix = factors.parts[-4:-1]
        if name != AOT_DIR:
            found.setdefault((name, "binary"), []).append(_binary(factors, rank, prefix))
    return [{"vllmHash": name, "cacheFormat": kind, kind: entries} for (name, kind), entries in found.items()]


def _binary(factors: Path, rank: str, prefix: str) -> Entry:
    artifacts = sorted(path.name for path in factors.parent.iterdir() if path != factors)
    known = json.loads(factors.read_bytes())
    hashes = {name: str(known.get(name, "")) for name in ("code_hash", "config_hash", "compiler_hash")}
    return {"rank": rank, "prefix": prefix, "artifact_count": len(artifacts), "artifact_names": artifacts, **hashes}


def labels_of(entries: Sequence[Entry], size_bytes: int, targets: Sequence[Target]) -> dict[str, str]:
    """The labels by which mcv and KServe choose, check and mount the image."""
    kinds = {str(entry["cacheFormat"]) for entry in entries}
    hashes = list(dict.fromkeys(str(entry["vllmHash"]) for entry in entries))
    summary = [{name: value for name, value in asdict(target).items() if value != ""} for target in targets]
    subpath = f"{COMPILE_DIR}/{AOT_DIR}" if kinds == {"aot_compile"} else COMPILE_DIR
    return {
        "cache.vllm.image/entry-count": str(len(entries)),
        "cache.vllm.image/cache-size-bytes": str(size_bytes),
        "cache.vllm.image/summary": json.dumps({"targets": summary}, separators=(",", ":")),
        "cache.vllm.image/format": ",".join(kind for kind in ("aot_compile", "binary") if kind in kinds),
        "io.kserve.km/framework": "vllm",
        "io.kserve.km/cache-type": "torch-compile",
        "io.kserve.km/cache-hash": ",".join(hashes),
        "io.kserve.km/cache-mount-subpath": subpath,
        "io.kserve.km/cache-root-env": ROOT_ENV,
    }


async def push_kernel_cache(
    store: OciStore, root: Path, tag: str, targets: Sequence[Target], *, architecture: str = "amd64"
) -> str:
    """Push the cache root `root` under `tag` into the store's repository; return the image's digest (`sha256:…`).

    ABSENT if there is no compile cache below `root`. Equal contents make an equal image.
    """
    with tempfile.TemporaryDirectory(prefix="pilotlight-kernel-cache-") as folder:
        layer = Path(folder, "layer.tar.gz")
        try:
            entries = await aside(entries_of, root)
            if not entries:
                said, fix = "there is no compile cache of vLLM in it", "give the cache root of an engine that compiled"
                raise StoreFault(StoreCause.ABSENT, str(root), said, fix)
            diff_id, size_bytes = await aside(_write_layer, root, entries, layer)
            digest, layer_bytes = await aside(digest_of, layer)
        except OSError as error:
            raise fault_of(error, str(root)) from error
        config = _config(labels_of(entries, size_bytes, targets), diff_id, architecture)
        manifest = _manifest(config, digest, layer_bytes)
        await store.push_image(layer, layer_bytes, f"sha256:{digest}", config, manifest, tag)
    return digest_string(manifest)


def _write_layer(root: Path, entries: Sequence[Entry], layer: Path) -> tuple[str, int]:
    """Write the layer; return the sha256 of its tar, and the bytes of cache in it."""
    size_bytes = 0
    with open(layer, "wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
        hashing = _Hashing(packed)
        with tarfile.open(fileobj=cast("BinaryIO", hashing), mode="w|", format=tarfile.PAX_FORMAT) as tar:
            _add(tar, MANIFEST_FILE, json.dumps({"vllm": list(entries)}, indent=1, sort_keys=True).encode())
            for path in _files(root):
                data = path.read_bytes()
                size_bytes += len(data)
                _add(tar, f"{CACHE_DIR}/{path.relative_to(root).as_posix()}", data, path.stat().st_mode & 0o755)
    return "sha256:" + hashing.digest, size_bytes


def _files(root: Path) -> Iterator[Path]:
    """Regular files, in an order that is the same everywhere; what else lies there is no cache."""
    yield from sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())


def _add(tar: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode | 0o444
    tar.addfile(info, BytesIO(data))


class _Hashing:
    """A file to write to that hashes what goes through it."""

    def __init__(self, sink: gzip.GzipFile) -> None:
        self._sink = sink
        self._hash = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        return self._sink.write(data)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


def _config(labels: Mapping[str, str], diff_id: str, architecture: str) -> bytes:
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Labels": dict(labels)},
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
        "history": [{"created_by": "pilotlight cache push"}],
    }
    return json.dumps(config, sort_keys=True).encode()


def _manifest(config: bytes, layer_digest: str, layer_bytes: int) -> bytes:
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": {"mediaType": CONFIG_TYPE, "digest": digest_string(config), "size": len(config)},
        "layers": [{"mediaType": LAYER_TYPE, "digest": f"sha256:{layer_digest}", "size": layer_bytes}],
        "annotations": {"cache.vllm.image/variant": "compat"},
    }
    return json.dumps(manifest, sort_keys=True).encode()
