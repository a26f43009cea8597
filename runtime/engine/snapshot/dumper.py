"""Runs CRIU's dump where the engine's own /dev/shm is, and saves what lies there: an image without it is none.

CRIU saves the memory of the processes and reopens files by path; what they share by files in /dev/shm is neither's.
Run by `system.command("dumper", NAMESPACE_FD, SHM_DIRECTORY, HOST_PID, "--", CRIU…)`. Ends with CRIU's exit code.
"""

import os
import subprocess
import sys
from pathlib import Path

from runtime.engine.snapshot import system


def main() -> None:
    """Enter the engine's mounts, dump it, copy what it shared."""
    fd, shm, host_pid, _, *criu = sys.argv[2:]
    system.end_with_parent(int(host_pid))
    system.enter(int(fd), system.CLONE_NEWNS)
    os.umask(0o077)
    done = subprocess.run(criu, stdin=subprocess.DEVNULL, preexec_fn=system.end_with_parent, check=False)
    if done.returncode == 0:
        for file in Path(system.SHM).iterdir():
            if file.is_file():
                system.copy_with_holes(file, Path(shm, file.name))
    sys.exit(done.returncode)
