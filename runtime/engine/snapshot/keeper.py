"""Process 1 of the namespaces that one restored engine lives in.

A restored process has the pid it had, so it needs a world of pids of its own, whose first process lives as long as it
does: this one. It gives the engine a network of loopback only (its processes speak to each other at the ports they had;
the one socket that clients reach comes from the host), its own /dev/shm, and its replica's working directory at the
place of the one in the image. It reaps what the engine leaves, and ends with the engine's own exit code. When it ends,
however that comes, the kernel ends everything in its namespaces.

Run by `system.command("keeper", ORDER)`, with an `Order` as JSON. Standard library only.
"""

import contextlib
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from runtime.engine.snapshot import system

_SIOCGIFFLAGS: Final = 0x8913
_SIOCSIFFLAGS: Final = 0x8914
_IFF_UP: Final = 1
"""netdevice(7)."""
SIGNALLED: Final = 128
"""What a shell adds to a signal's number; the first process of a namespace cannot end itself by one."""


@dataclass(frozen=True, slots=True)
class Order:
    """One restore. `restore`: CRIU's argv; `fds`: what it inherits; `told_fd`: where the outcome is written to.

    `leader`: the engine's first pid. `above_pid`: what runs beside it takes pids above this one. `shm`: a directory
    with what goes to /dev/shm; `run`: the replica's working directory, mounted at `run_at`; `cache`: its compile cache,
    whose files are mapped and which it changes for itself alone.
    """

    host_pid: int
    told_fd: int
    fds: tuple[int, ...]
    restore: tuple[str, ...]
    leader: int
    above_pid: int
    shm: str
    run: str
    run_at: str
    cache: str

    def text(self) -> str:
        """As `main` reads it."""
        return json.dumps(asdict(self))


def main() -> None:
    """Make the namespaces and go on as their process 1; this process waits and ends as that one does."""
    order = Order(**json.loads(sys.argv[2]))
    try:
        system.end_with_parent(order.host_pid)
        system.unshare(system.CLONE_NEWNS | system.CLONE_NEWPID | system.CLONE_NEWNET)
        first = os.fork()
        if not first:
            _keep(order)
    except BaseException as error:
        _tell(order.told_fd, {"error": str(error) if isinstance(error, OSError) else repr(error)})
        os._exit(1)
    os.close(order.told_fd)
    _, status = os.waitpid(first, 0)
    os._exit(_exit_code(status))


def _keep(order: Order) -> None:
    system.end_with_parent()
    system.mount_apart()
    system.mount_proc()
    for file in Path(order.shm).iterdir():
        system.copy_with_holes(file, Path(system.SHM, file.name))
    system.mount(order.run, order.run_at, None, system.MS_BIND)
    system.mount_changeable(order.cache, Path(system.SHM, ".pilotlight-cache"))
    _loopback_up()
    Path("/proc/sys/kernel/ns_last_pid").write_text(str(order.above_pid))
    done = subprocess.run(order.restore, stdin=subprocess.DEVNULL, pass_fds=order.fds, check=False)
    if done.returncode != 0:
        raise OSError(f"criu ended with {done.returncode}")
    for fd in order.fds:
        os.close(fd)
    _tell(order.told_fd, {"restored": order.leader})
    os._exit(_reap_until(order.leader))


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        asked = fcntl.ioctl(probe, _SIOCGIFFLAGS, struct.pack("16sh14x", b"lo", 0))
        flags = struct.unpack("16sh14x", asked)[1]
        fcntl.ioctl(probe, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))


def _reap_until(leader: int) -> int:
    """Reap every child until the engine's leader has ended; its exit code, as a shell tells it."""
    while True:
        pid, status = os.wait()
        if pid == leader:
            return _exit_code(status)


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else SIGNALLED - code


def _tell(fd: int, outcome: dict[str, object]) -> None:
    with contextlib.suppress(OSError):
        os.write(fd, json.dumps(outcome).encode())
        os.close(fd)
