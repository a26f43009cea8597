"""What each of our processes holds, sampled over time, and whether any of it grows."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil

from tests.serving import Up


@dataclass(frozen=True)
class Held:
    """What one process holds at one moment. `uss_bytes` is memory that it shares with nobody."""

    uss_bytes: int
    descriptors: int
    threads: int
    children: int


def processes(up: Up) -> dict[str, psutil.Process]:
    """`up`, portal and host."""
    assert up.process is not None
    found = {"up": psutil.Process(up.process.pid)}
    for process in up.processes():
        line = " ".join(process.cmdline())
        for name, module in (("portal", "activator_ext.portal"), ("host", "runtime.host")):
            if f"-m {module} " in line:
                found[name] = process
    return found


def held(process: psutil.Process) -> Held:
    """What it holds now."""
    return Held(
        uss_bytes=process.memory_full_info().uss,
        descriptors=process.num_fds(),
        threads=process.num_threads(),
        children=len(process.children()),
    )


def size_bytes(directory: Path) -> int:
    """Of all files below."""
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file() and not file.is_symlink())


def growth(values: Iterable[float]) -> float:
    """How much the median of the last third is above that of the second: the first third warms up.

    Worked: 10, 20, 30 | 31, 30, 31 | 33, 31, 32 grows by 32 − 31 = 1.
    """
    known = list(values)
    third = len(known) // 3
    return median(known[2 * third :]) - median(known[third : 2 * third])
