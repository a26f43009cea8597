"""The kernel's calls that Python 3.11 lacks, and a copy that keeps holes: for the small processes around CRIU.

Standard library only: those processes run without site-packages, so that they begin in 20 ms. Linux only.
"""

import ctypes
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import IO, Final

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000
"""sched.h; unshare(2), setns(2)."""
MS_BIND: Final = 4096
_MS_REC: Final = 16384
_MS_PRIVATE: Final = 1 << 18
_MS_NOSUID: Final = 2
_MS_NODEV: Final = 4
_PR_SET_PDEATHSIG: Final = 1
SHM: Final = "/dev/shm"  # noqa: S108  (a file system of the engine's own, mounted there)

_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def command(module: str, *arguments: str) -> tuple[str, ...]:
    """The argv that runs `main` of one of this folder's modules, by this interpreter without site-packages."""
    root = str(Path(__file__).parents[3])
    boot = f"import sys; sys.path.insert(0, sys.argv[1]); from runtime.engine.snapshot.{module} import main; main()"
    return (sys.executable, "-I", "-S", "-c", boot, root, *arguments)


def end_with_parent(parent: int | None = None) -> None:
    """Be killed when the parent ends; at once if it is no longer `parent`. Raises OSError."""
    _call("prctl", _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    if parent is not None and os.getppid() != parent:
        os._exit(1)


def unshare(what: int) -> None:
    """Leave the namespaces `what` for new ones. Raises OSError, which names the privilege."""
    _call("new namespaces (they need root, or CAP_SYS_ADMIN)", _LIBC.unshare(what))


def enter(fd: int, what: int) -> None:
    """Enter the namespace that `fd` stands for. Raises OSError."""
    _call("entering a namespace (it needs root, or CAP_SYS_ADMIN)", _LIBC.setns(fd, what))


def mount_apart() -> None:
    """From now on mounts are seen in this namespace alone, and /dev/shm is an empty one. Raises OSError."""
    mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    mount("tmpfs", SHM, "tmpfs", _MS_NOSUID | _MS_NODEV)
    os.chmod(SHM, 0o1777)  # noqa: S103  (as it is everywhere)


def mount_proc() -> None:
    """/proc of this world of pids. Raises OSError."""
    mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV)


def mount_changeable(directory: str, scratch: Path) -> None:
    """`directory` as it is; what is written to it from now on lies in `scratch`, a new directory. Raises OSError."""
    upper, work = scratch / "upper", scratch / "work"
    for each in (scratch, upper, work):
        each.mkdir(mode=0o700)
    mount("overlay", directory, "overlay", 0, f"lowerdir={directory},upperdir={upper},workdir={work}")


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """Mount as the kernel's call of this name does. Raises OSError, which names the target."""
    told = (source.encode(), target.encode(), kind.encode() if kind else None)
    data = options.encode() if options else None
    _call(f"mount on {target}", _LIBC.mount(*told, ctypes.c_ulong(flags), data))


def copy_with_holes(source: Path, target: Path) -> None:
    """The file's data; its holes, most of a ring buffer that was never full, stay holes. Raises OSError."""
    with source.open("rb") as read, target.open("wb") as write:
        size, at = os.fstat(read.fileno()).st_size, 0
        while at < size:
            try:
                at = os.lseek(read.fileno(), at, os.SEEK_DATA)
            except OSError:  # nothing but a hole is left
                break
            end = os.lseek(read.fileno(), at, os.SEEK_HOLE)
            read.seek(at)
            write.seek(at)
            _copy(read, write, end - at)
            at = end
        write.truncate(size)
        os.fchmod(write.fileno(), os.fstat(read.fileno()).st_mode & 0o7777)


def _copy(read: IO[bytes], write: IO[bytes], left: int) -> None:
    while left > 0 and (data := read.read(min(left, shutil.COPY_BUFSIZE))):  # type: ignore[attr-defined]  # not in typeshed
        write.write(data)
        left -= len(data)


def _call(what: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(f"{what}: {os.strerror(number)}")
