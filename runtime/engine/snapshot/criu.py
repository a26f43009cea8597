"""CRIU: where it is, whether it may work here, and the arguments that an engine needs.

Seen with CRIU 4.2.1 on Linux 6.18; Debian 12's 3.17 cannot dump under kernels of today.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CRIU_ENV: Final = "PILOTLIGHT_CRIU"
"""Names the program; unset: `criu` of the PATH."""
LEAST: Final = (4, 0)
CHECK_S: Final = 10.0
DUMP_LOG: Final = "dump.log"
RESTORE_LOG: Final = "restore.log"
_CAP_SYS_ADMIN: Final = 21
"""capabilities(7). Namespaces and mounts need it, whatever less (CAP_CHECKPOINT_RESTORE) CRIU itself may do with."""
_COMMON: Final = (
    *("--shell-job", "--ext-unix-sk", "--link-remap", "--file-locks"),
    # Both ends of every connection are in the image: none of them can send anything while it is made.
    *("--tcp-established", "--network-lock", "skip"),
    # A restored engine counts where its host does.
    "--manage-cgroups=ignore",
)
_GHOST_LIMIT: Final = "256M"
"""The largest deleted file that is saved; a queue of vLLM's has 240 MiB, most of it holes."""


class NoCriuError(Exception):
    """No image can be made or restored here; `str()` says why and what to do."""


@dataclass(frozen=True, slots=True)
class Criu:
    """A working CRIU. `version` as it tells it."""

    program: str
    version: str

    def dump(self, pid: int, images: Path) -> tuple[str, ...]:
        """The argv that saves the tree of `pid` to `images` and ends it."""
        where = ("--tree", str(pid), "--images-dir", str(images), "--log-file", DUMP_LOG)
        return (self.program, "dump", *where, *_COMMON, "--ghost-limit", _GHOST_LIMIT)

    def restore(self, images: Path, logs: Path, pipe: str, output: int) -> tuple[str, ...]:
        """The argv that restores `images`; what went to the pipe `pipe` (`pipe:[N]`) then goes to the fd `output`."""
        where = ("--images-dir", str(images), "--work-dir", str(logs), "--log-file", RESTORE_LOG)
        inherits = ("--inherit-fd", f"fd[{output}]:{pipe}")
        return (self.program, "restore", *where, *_COMMON, *inherits, "--restore-detached", "--restore-sibling")


def find_criu(environ: Mapping[str, str]) -> Criu:
    """The CRIU of this machine. Raises NoCriuError."""
    named = environ.get(CRIU_ENV) or "criu"
    program = shutil.which(named)
    if program is None:
        raise NoCriuError(
            f"{named} is not to be found: install CRIU {_text(LEAST)} or newer (scripts/get-criu fetches it"
            f" from a newer Debian into a folder of your own) and name it by {CRIU_ENV}"
        )
    if not _privileged():
        raise NoCriuError("CRIU needs root here, or CAP_SYS_ADMIN and CAP_CHECKPOINT_RESTORE: give the host both")
    try:
        told = subprocess.run(
            (program, "--version"), capture_output=True, text=True, timeout=CHECK_S, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoCriuError(f"{program} does not run: {error}") from error
    found = re.search(r"Version:\s*(\d+)\.(\d+)(\S*)", told)
    if found is None:
        raise NoCriuError(f"{program} tells no version: it is no CRIU")
    if (int(found[1]), int(found[2])) < LEAST:
        raise NoCriuError(f"{program} is CRIU {found[1]}.{found[2]}{found[3]}: {_text(LEAST)} or newer is needed")
    return Criu(os.path.abspath(program), f"{found[1]}.{found[2]}{found[3]}")


def complaint(log: Path) -> str:
    """The first error in CRIU's log, or what else it says of its end."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return f"it wrote no {log.name}"
    errors = [line for line in lines if "Error" in line and "rlimit" not in line]
    told = (errors or lines or ["it wrote nothing"])[0]
    return re.sub(r"^\([\d.]+\)\s*", "", told)[:300]


def _privileged() -> bool:
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return False
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return found is not None and bool(int(found[1], 16) >> _CAP_SYS_ADMIN & 1)


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
