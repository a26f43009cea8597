"""Temporary files that name their owner, so that whoever comes later can tell the dead's from the living's.

A name is `.tmp~host~boot~pids~pid~started~random`: `boot` and `pids` (the PID namespace) tell two pods of one
host name apart, `started` a process from a later one of the same number. Rule: the owner is known to be dead, or it
cannot be asked (another host) and nothing has written to the file for STALE_S.
"""

import os
import secrets
import socket
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

PREFIX = ".tmp~"
STALE_S = 6 * 3600.0
"""Untouched for so long, a foreign owner's file is abandoned: no transfer may take longer (Patience is minutes), and
clocks of file server and hosts agree to far better than that."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, as another may recognise it. No field contains `~` or `/`."""

    host: str
    boot: str
    pids: str
    pid: int
    started: str

    def temp_name(self) -> str:
        """A new name for a temporary file of this owner."""
        parts = (self.host, self.boot, self.pids, str(self.pid), self.started, secrets.token_hex(4))
        return PREFIX + "~".join(parts)


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _started(pid: int) -> str:
    # proc(5): the 22nd field, counted after the parenthesised command, which may contain spaces.
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else ""


def this_process() -> Owner:
    """Who we are."""
    try:
        pids = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        pids = ""
    boot = _read("/proc/sys/kernel/random/boot_id").strip().replace("-", "")[:12]
    host = socket.gethostname().replace("~", "-").replace("/", "-")
    return Owner(host=host, boot=boot, pids=pids, pid=os.getpid(), started=_started(os.getpid()))


def owner_of(name: str) -> Owner | None:
    """Who made a file of this name. None: it is no temporary file of ours."""
    parts = name.removeprefix(PREFIX).split("~")
    if not name.startswith(PREFIX) or len(parts) != 6 or not parts[3].isdecimal():
        return None
    return Owner(host=parts[0], boot=parts[1], pids=parts[2], pid=int(parts[3]), started=parts[4])


def is_stale(owner: Owner, us: Owner, untouched_s: float) -> bool:
    """Whether the file of `owner`, which nobody wrote to for `untouched_s`, may be removed."""
    if owner.host == us.host and owner.boot == us.boot and owner.pids == us.pids and us.boot:
        return _started(owner.pid) != owner.started
    return untouched_s > STALE_S


def sweep(directory: Path, now: datetime) -> tuple[Path, ...]:
    """Remove the stale temporary files in `directory`; return them. What cannot be removed stays, without complaint."""
    us, gone = this_process(), []
    try:
        found = [path for path in directory.iterdir() if path.name.startswith(PREFIX)]
    except OSError:
        return ()
    for path in found:
        owner = owner_of(path.name)
        try:
            if owner is not None and is_stale(owner, us, now.timestamp() - path.lstat().st_mtime):
                path.unlink()
                gone.append(path)
        except OSError:
            continue
    return tuple(gone)
