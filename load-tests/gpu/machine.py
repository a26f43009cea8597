"""What the run is measured on, and what of the shell's environment a CUDA process needs."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version

from start.measured import BenchFailed
from start.processes import environment

_QUERY = "name,driver_version,memory.total,compute_cap"
_CUDA = ("CUDA_", "NVIDIA_", "NCCL_")


def versions() -> dict[str, str]:
    """GPU, driver and software. Raises BenchFailed where there is no GPU or no vLLM for it."""
    try:
        asked = subprocess.run(
            ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader"],
            capture_output=True, text=True, check=True, timeout=15,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise BenchFailed(
            f"no NVIDIA GPU answers (nvidia-smi: {error}): run this where one is, or --dry-run"
        ) from error
    gpu, driver, memory, capability = (word.strip() for word in asked.stdout.splitlines()[0].split(","))
    try:
        known = {name: version(name) for name in ("vllm", "torch")}
    except PackageNotFoundError as error:
        raise BenchFailed(f"{error.name} is not installed: install pilotlight[gpu], or run in vLLM's image") from error
    if "cpu" in known["vllm"]:
        raise BenchFailed(f"vLLM {known['vllm']} is the CPU build: install pilotlight[gpu] instead")
    return {
        "gpu": gpu, "driver": driver, "memory": memory, "capability": capability,
        **known, "python": platform.python_version(), "kernel": platform.release(),
    }  # fmt: skip


def cuda_environment(**more: str) -> dict[str, str]:
    """As the benches on a CPU have it, and what tells a process its GPUs."""
    return environment(**{name: value for name, value in os.environ.items() if name.startswith(_CUDA)}, **more)
