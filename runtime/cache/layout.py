"""Which caches an engine has below one root, and which environment variable puts each of them there.

Seen in the source of vLLM 0.32 (`envs.py`, `compilation/decorators.py`, `compilation/compiler_interface.py`,
`model_executor/models/registry.py`, `v1/worker/startup_plan.py`, `utils/deep_gemm.py`,
`model_executor/warmup/flashinfer_autotune_cache.py`), Triton 3.9 (`knobs.py`, `runtime/cache.py`), FlashInfer
(`jit/env.py`, `jit/core.py`), DeepGEMM (`csrc/jit/compiler.hpp`) and TileLang (`env.py`). Only the first four were
seen at work; the others need a GPU.

Not parts, on purpose: `assets/` and `xla_cache/` (models and other media), `dummy_cache/` (empty) and
`gpu_p2p_access_cache_for_*.json` (what the GPUs of one very machine can do with one another).
"""

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

CACHE_ROOT_ENV = "VLLM_CACHE_ROOT"
"""The variable that names the root itself."""


@dataclass(frozen=True, slots=True)
class Part:
    """One cache: `directory` below the root, and `env`, name → subdirectory of the root, that puts it there.

    `mtimes`: its builder compares file times (FlashInfer asks ninja at each load), so they are kept to the
    nanosecond; elsewhere they mean nothing and are left out, so that equal contents make equal bundles.
    `scratch`: subdirectories by name that hold work under way.
    """

    name: str
    directory: str
    env: tuple[tuple[str, str], ...] = ()
    mtimes: bool = False
    scratch: frozenset[str] = frozenset()


PARTS: tuple[Part, ...] = (
    Part("deep-gemm", "deep_gemm", (("DG_JIT_CACHE_DIR", "deep_gemm"),), scratch=frozenset({"tmp"})),
    Part(
        "flashinfer",
        "flashinfer",
        (("FLASHINFER_WORKSPACE_BASE", "flashinfer"),),
        mtimes=True,
        scratch=frozenset({"tmp"}),
    ),
    Part("flashinfer-autotune", "flashinfer_autotune_cache"),
    # What is compiled before vLLM points inductor at its own directory; else it lies under /tmp, shared by a user.
    Part("inductor", "inductor_cache", (("TORCHINDUCTOR_CACHE_DIR", "inductor_cache"),)),
    Part("model-infos", "modelinfos"),
    Part("startup-plan", "startup_plan"),
    Part(
        "tilelang",
        "tilelang",
        (("TILELANG_CACHE_DIR", "tilelang"), ("TILELANG_TMP_DIR", "tilelang/tmp")),
        scratch=frozenset({"tmp"}),
    ),
    Part("torch-compile", "torch_compile_cache", scratch=frozenset({"locks"})),
    Part("triton", "triton_cache", (("TRITON_CACHE_DIR", "triton_cache"),)),
)
"""Every part, by directory in byte order: the order of files in a bundle."""

_BY_DIRECTORY = {part.directory: part for part in PARTS}

_PASSING_NAMES = re.compile(
    r"""
      .*\.lock | lock | \.lock          # filelock, Triton
    | .*\.(?:tmp|draft|log|pyc)         # inductor's and our drafts; a log is no artifact; bytecode is made anew
    | tmp[a-z0-9_]{8}                   # tempfile's names, as vLLM's atomic_writer leaves them when killed
    | tmp\..*                           # Triton's and inductor's drafts: tmp.pid_7_…, tmp.<uuid>
    | \.nfs.*                           # removed, and still open somewhere
    | __pycache__
    """,
    re.VERBOSE,
)

_GROUP_FILE = re.compile(r"__grp__.*\.json")


def environment(root: Path) -> dict[str, str]:
    """The variables that put every part of an engine's caches below `root`."""
    moved = {name: str(root / where) for part in PARTS for name, where in part.env}
    return {CACHE_ROOT_ENV: str(root), **moved}


def part_of(path: str) -> Part | None:
    """The part that the relative path `path` belongs to, by its first component; None outside all of them."""
    return _BY_DIRECTORY.get(path.split("/", 1)[0])


def is_passing(part: Part, name: str, *, directory: bool) -> bool:
    """Whether an entry of this name is a lock, a draft or scratch: of no use to another process."""
    return _PASSING_NAMES.fullmatch(name) is not None or (directory and name in part.scratch)


def holds_paths(path: str) -> bool:
    """Whether this file names its neighbours by absolute path, which is rewritten to the place it is restored to.

    Triton's group files do; with a path that is gone Triton compiles again, and with one that exists on the new host
    it would read another engine's live cache.
    """
    return _GROUP_FILE.fullmatch(PurePosixPath(path).name) is not None
