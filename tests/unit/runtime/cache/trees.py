"""A small cache root as an engine leaves it, and what the bundle tests say of it."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from runtime.cache.bundle import Packed, pack
from runtime.cache.fingerprint import Fingerprint
from runtime.cache.manifest import Provenance
from runtime.cache.signing import SigningKey
from runtime.cache.trust import TrustPolicy

FINGERPRINT = Fingerprint({"model.digest": "sha256:4f00", "version.vllm": "0.32.0"})
PROVENANCE = Provenance(
    made_by="0.1.0", made_at=datetime(2026, 11, 30, 3, 0, tzinfo=UTC), vllm="0.32.0", compile_s=21.5
)

COMPILE = "torch_compile_cache/torch_aot_compile/" + "20d1" * 16

FILES: dict[str, bytes] = {
    f"{COMPILE}/rank_0_0/model": bytes(range(256)) * 12,
    f"{COMPILE}/inductor_cache/aotautograd/{'a' * 52}/{'b' * 51}": b"graph" * 700,
    f"{COMPILE}/inductor_cache/3f/c3fmgm6z.main.so": b"\x7fELF" + bytes(5000),
    f"{COMPILE}/inductor_cache/3f/empty.cpp": b"",
    f"torch_compile_cache/1a2b3c4d5e/rank_0_0/backbone/{'n' * 140}": b"a name too long for ustar",
    "modelinfos/llama-LlamaForCausalLM.json": b'{"hash": "1"}',
    "startup_plan/startup_plan_0123456789abcdef.json": b'{"schema": 1}',
    "triton_cache/KEY/kernel.cubin": b"cubin",
    "deep_gemm/cache/kernel.gemm.0f/kernel.cubin": b"dg",
    "flashinfer/.cache/flashinfer/90a/cached_ops/op/op.so": b"op",
    "flashinfer/.cache/flashinfer/90a/cached_ops/op/.ninja_log": b"# ninja log v5",
    "tilelang/0.1/kernel.so": b"tl",
}
EXECUTABLE = frozenset(name for name in FILES if name.endswith(".so"))

LEFT_OUT = (
    f"{COMPILE}/inductor_cache/locks/c3fmgm6z.lock",
    f"{COMPILE}/inductor_cache/3f/.7.1.tmp",
    "triton_cache/KEY/lock",
    "triton_cache/KEY/tmp.pid_7_0f/kernel.cubin",
    "deep_gemm/tmp/0f/kernel.cu",
    "flashinfer/.cache/flashinfer/90a/cached_ops/tmp/op.lock",
    "modelinfos/tmpab12cd_9",
    "assets/weights.safetensors",
    "pilotlight-compiled.json",
)

BUILT_NS = 1_700_000_000_123_456_789


FEW = {name: FILES[name] for name in FILES if name.startswith(("torch_compile_cache/1", "modelinfos", "flashinfer"))}
"""One of each kind, for what is done hundreds of times."""


def make_tree(root: Path, files: Mapping[str, bytes] | None = None) -> Path:
    """A cache root with FILES (or `files`), and LEFT_OUT beside them."""
    for name, content in {**(files or FILES), **dict.fromkeys(LEFT_OUT, b"passing")}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o700 if name in EXECUTABLE else 0o600)
        os.utime(path, ns=(BUILT_NS, BUILT_NS))
    return root


def read_tree(root: Path) -> dict[str, bytes]:
    """Every file below `root` and its content."""
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def left_behind(directory: Path) -> list[str]:
    """Drafts that are still in `directory`."""
    return sorted(path.name for path in directory.iterdir() if path.name.startswith("."))


@cache
def a_key(seed: int = 1) -> SigningKey:
    """The same key for the same seed."""
    return SigningKey(Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32))


def trust(seed: int = 1) -> TrustPolicy:
    """Takes what `a_key(seed)` signed."""
    return TrustPolicy.own(a_key(seed).public)


def a_bundle(tmp: Path, signer: SigningKey | None = None, files: Mapping[str, bytes] | None = None) -> Packed:
    """The bundle of `make_tree`, signed by `a_key()`."""
    tree = make_tree(tmp / "made", files)
    return pack(tree, tmp / "a.bundle", fingerprint=FINGERPRINT, provenance=PROVENANCE, signer=signer or a_key())
