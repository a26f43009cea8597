"""Gathers the facts that `preflight.findings` decides on."""

from collections.abc import Mapping
from pathlib import Path

from runtime.weights.here import has_cuda
from runtime.weights.memory import read_memory
from runtime.weights.place import Place, read_place
from runtime.weights.preflight import Facts

SHM = Path("/dev/shm")  # noqa: S108  (where POSIX shared memory lies on Linux; looked at, never written)


def read_facts(
    directory: Path | None,
    weight_bytes: int | None,
    largest_tensor_bytes: int,
    ranks: int,
    env: Mapping[str, str],
) -> Facts:
    """Ask this machine. `directory` None: the model is streamed from a URL. Raises OSError."""
    # Where vLLM puts it by itself (envs.py, VLLM_ASSETS_CACHE): it does not follow VLLM_CACHE_ROOT.
    assets = env.get("VLLM_ASSETS_CACHE") or str(Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vllm")
    return Facts(
        weight_bytes=weight_bytes,
        memory=read_memory(),
        weights=None if directory is None else read_place(directory),
        shm=shared_memory(),
        scratch=read_place(Path(assets)) if directory is None else None,
        on_host=not has_cuda(),
        ranks=ranks,
        largest_tensor_bytes=largest_tensor_bytes,
    )


def shared_memory() -> Place | None:
    """`/dev/shm`, None where there is none."""
    return read_place(SHM) if SHM.is_dir() else None
