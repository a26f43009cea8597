"""The bench's own three programs, compiled on the spot: null backend, latency client, stream client."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from portal.machine import BenchFailed

HERE = Path(__file__).resolve().parent
_FLAGS = ("-std=c++20", "-O2", "-Wall", "-Wextra")


@dataclass(frozen=True, slots=True)
class Programs:
    """Where each lies once it is built."""

    backend: Path
    latency: Path
    streams: Path


def build(into: Path) -> Programs:
    """Compile all three at once. Raises BenchFailed with what the compiler said."""
    compiler = os.environ.get("CXX", "g++")
    built = Programs(*(into / name for name in ("backend", "latency", "streams")))
    children: list[subprocess.Popen[bytes]] = []
    try:
        for target in (built.backend, built.latency, built.streams):
            source = HERE / "programs" / f"{target.name}.cpp"
            command = [compiler, *_FLAGS, "-o", str(target), str(source)]
            children.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE))
    except FileNotFoundError:
        raise BenchFailed(f"no C++ compiler `{compiler}`: apt-get install g++, or name another in CXX") from None
    finally:
        said = [child.communicate()[1] for child in children]
    for child, errors in zip(children, said, strict=True):
        if child.returncode != 0:
            raise BenchFailed(f"the compiler failed:\n{errors.decode(errors='replace')}")
    return built
