"""Signs of life of a process group, from /proc: CPU used, bytes read, and whether a process of it is stopped.

Linux only, as the rest of the engine room.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Vitals:
    """`cpu_s` and `read_bytes` only grow while the same processes live. `stopped`: a process in state T, or None."""

    cpu_s: float
    read_bytes: int
    stopped: int | None = None


def vitals_of(pgid: int) -> Vitals | None:
    """What the living processes of the group (or session, for those that made a group of their own) have used.

    None: nobody could be looked at; nobody lives, or this process has no descriptor left to look with.
    """
    try:
        members = tuple(_members(pgid))
    except OSError:
        return None
    return _sum(members) if members else None


def _sum(members: tuple[tuple[int, list[str]], ...]) -> Vitals:
    cpu_s, read_bytes, stopped = 0.0, 0, None
    for pid, fields in members:
        # Ended children's time is their parent's from then on: it stays counted.
        cpu_s += sum(int(ticks) for ticks in fields[11:15]) / _TICKS_PER_S
        read_bytes += _read_bytes(pid)
        if fields[0] == "T":
            stopped = pid
    return Vitals(cpu_s, read_bytes, stopped)


def _members(pgid: int) -> Iterator[tuple[int, list[str]]]:
    """Pid and the fields of /proc/PID/stat after the name, of each living member (proc_pid_stat(5))."""
    wanted = str(pgid)
    for entry in os.scandir(_PROC):
        if not entry.name.isdigit():
            continue
        try:
            text = Path(entry.path, "stat").read_text()
        except OSError:  # it has ended meanwhile
            continue
        fields = text.rpartition(")")[2].split()
        if wanted in fields[2:4] and fields[0] not in "ZX":
            yield int(entry.name), fields


def _read_bytes(pid: int) -> int:
    """Bytes that its reads gave it, from the page cache or a disk; 0 where it may not be asked."""
    try:
        text = (_PROC / str(pid) / "io").read_text()
        return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith(("rchar:", "read_bytes:")))
    except (OSError, ValueError, IndexError):
        return 0
