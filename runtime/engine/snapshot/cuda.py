"""vLLM's own snapshots of an engine on one GPU: `vllm snapshot`, driven with our rules around it.

UNTESTED: no GPU was there. Written from vLLM 0.32's source (`vllm/snapshot`). vLLM refuses any middleware, so such an
engine has no gate and no host: it is restored to loopback only, and by a person. It wants a remote model with a
40-hex revision, one GPU, CRIU with its CUDA plugin, and cuda-checkpoint.
"""

import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from runtime.contract import EngineSpec
from runtime.engine.argv import LOOPBACK
from runtime.engine.snapshot.manifest import secrets_of

PLUGIN_ENV: Final = "CRIU_CUDA_PLUGIN_DIR"
_TOOLS: Final = ("criu", "cuda-checkpoint", "nvidia-smi")
_VLLM: Final = (sys.executable, "-P", "-m", "vllm.entrypoints.cli.main")
_REVISION: Final = re.compile(r"[0-9a-fA-F]{40}")


def create_argv(model: str, revision: str, directory: Path, args: tuple[str, ...]) -> tuple[str, ...]:
    """The command that makes one in `directory`. Raises ValueError."""
    if Path(model).exists() or not _REVISION.fullmatch(revision):
        raise ValueError("vLLM takes snapshots of a remote model with a --revision of 40 hex digits only")
    if any(arg.split("=", 1)[0] == "--middleware" for arg in args):
        raise ValueError("vLLM takes no snapshot of an engine with a --middleware")
    return (*_VLLM, "snapshot", "create", model, "--revision", revision, *args, "--snapshot-dir", str(directory))


def inspect_argv(directory: Path) -> tuple[str, ...]:
    """The command that prints what vLLM knows of one."""
    return (*_VLLM, "snapshot", "inspect", str(directory))


def restore_argv(directory: Path, port: int) -> tuple[str, ...]:
    """The command that restores one at `port` of loopback: nothing stands in front of it."""
    return (*_VLLM, "snapshot", "restore", str(directory), "--host", LOOPBACK, "--port", str(port))


def missing(environ: Mapping[str, str]) -> str | None:
    """What this machine lacks for it, None if it lacks nothing that can be told."""
    if lacks := [tool for tool in _TOOLS if shutil.which(tool, path=environ.get("PATH")) is None]:
        return (
            f"{', '.join(lacks)} is not to be found: install it (CRIU 4 with its CUDA plugin, NVIDIA's cuda-checkpoint)"
        )
    plugin = environ.get(PLUGIN_ENV)
    if not plugin or not (Path(plugin) / "cuda_plugin.so").is_file():
        return f"{PLUGIN_ENV} names no directory with CRIU's cuda_plugin.so"
    spec = EngineSpec(service="a/a", served_names=(), model="/")
    if secrets := secrets_of(spec, environ):
        return f"an image holds all memory of its engine: unset {', '.join(secrets)} first"
    return None
