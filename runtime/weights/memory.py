"""How much memory this process may still use: the machine's, and that of every memory cgroup it is in (v2 and v1).

What a cgroup's inactive file pages hold counts as free: the kernel gives them up before it kills.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

UNLIMITED_BYTES = 2**62
"""cgroup v1 says "no limit" with a number near 2^63, rounded to a page."""


@dataclass(frozen=True, slots=True)
class Memory:
    """`free_bytes` is the least of what machine and cgroups leave; `limit_bytes` the tightest cgroup's (None: none).

    `limited_by`: the cgroup directory with the least left, None where it is the machine. None for `free_bytes` means
    that the kernel does not tell.
    """

    free_bytes: int | None
    limit_bytes: int | None = None
    limited_by: str | None = None


def read_memory(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> Memory:
    """Ask the kernel; what it does not tell is left out."""
    machine = _available(proc)
    limits = [found for directory in _directories(proc, cgroups) if (found := _limit(directory)) is not None]
    if not limits:
        return Memory(machine)
    left, _, where = min(limits)
    tightest = min(limit for _, limit, _ in limits)
    if machine is not None and machine <= left:
        return Memory(machine, tightest)
    return Memory(left, tightest, where)


def _available(proc: Path) -> int | None:
    try:
        for line in (proc / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return None
    return None


def _directories(proc: Path, cgroups: Path) -> Iterator[Path]:
    """This process's memory cgroup and all above it; in a container the mount itself may be the cgroup."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, inside = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        root = cgroups / "memory" if controllers else cgroups
        place = root / inside.lstrip("/")
        yield from (each for each in (place, *place.parents) if each.is_relative_to(root))


def _limit(directory: Path) -> tuple[int, int, str] | None:
    """(left, limit, where) of one cgroup, None where it sets no limit."""
    for limit_name, used_name, inactive in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        limit = _number(directory / limit_name)
        used = _number(directory / used_name)
        if limit is None or used is None or limit >= UNLIMITED_BYTES:
            continue
        return max(0, limit - used + _stat(directory / "memory.stat", inactive)), limit, str(directory)
    return None


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # `max` means no limit
        return None


def _stat(path: Path, name: str) -> int:
    try:
        fields = dict(line.split(None, 1) for line in path.read_text().splitlines())
        return int(fields.get(name, "0"))
    except (OSError, ValueError):
        return 0
