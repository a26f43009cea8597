"""Marker lines: what our own code inside the engine's processes says about them, one JSON object a line.

vLLM has neither a log line nor a span for interpreter start and imports, paid once in each of three processes.
Imports only the standard library: it runs before anything else does in each process.
"""

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

PREFIX = "PILOTLIGHT_MARK "
STAGES_ENV = "PILOTLIGHT_STAGES"
"""Markers are printed only where this is `1`."""

Point = Literal["main", "plugin"]
Role = Literal["api", "core", "worker", "other"]


@dataclass(frozen=True, slots=True)
class Marker:
    """One point that a process reached.

    `main`: the interpreter runs our first line. `plugin`: imports are done, vLLM calls its plugins. `begun` and `at`
    are seconds since the epoch; `begun` is when the kernel created the process (10 ms fine), None where unknown.
    """

    point: Point
    role: Role
    pid: int
    at: float
    begun: float | None = None


def role_of(process_name: str, main_module: str) -> Role:
    """The role of a process from its multiprocessing name and the module that it runs as main."""
    if process_name.startswith("EngineCore"):
        return "core"
    if process_name.startswith("VllmWorker"):
        return "worker"
    return "api" if process_name == "MainProcess" and main_module == "runtime.engine.serve" else "other"


def emit(point: Point, role: Role) -> None:
    """Write the marker to stderr in one `write`, which a pipe keeps whole (shorter than PIPE_BUF, 4096 bytes)."""
    if os.environ.get(STAGES_ENV) == "1":
        marker = Marker(point, role, os.getpid(), time.time(), process_begun())
        os.write(2, render(marker).encode() + b"\n")


def render(marker: Marker) -> str:
    """The line, without its end."""
    return PREFIX + json.dumps(asdict(marker))


def parse(line: str) -> Marker | None:
    """The marker in `line`, None if there is none; text before it (a progress bar) does no harm."""
    _, found, text = line.partition(PREFIX)
    if not found:
        return None
    try:
        return Marker(**json.loads(text))
    except (ValueError, TypeError):
        return None


def process_begun() -> float | None:
    """When this process was created, as seconds since the epoch; None without Linux's /proc."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        since_boot_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot_s
    except (OSError, AttributeError, ValueError, IndexError):
        return None
