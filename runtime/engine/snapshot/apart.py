"""Begins an engine of which an image will be made: with a /dev/shm of its own, which ends with it.

What its processes share there then is all that is there, and goes into the image; and an engine, or a CRIU, that is
killed at any instant leaves nothing in the machine's. Run by `system.command("apart", "--", COMMAND…)`.
"""

import os
import sys

from runtime.engine.snapshot import system


def main() -> None:
    """Become the command. Ends with 1 and a line on stderr where no namespace can be made."""
    command = sys.argv[3:]
    try:
        system.unshare(system.CLONE_NEWNS)
        system.mount_apart()
        # Opened anew: an open file belongs to the mounts that it was opened in, and CRIU sees those in here only.
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    except OSError as error:
        print(f"no engine for a snapshot: {error}", file=sys.stderr)
        sys.exit(1)
    os.execv(command[0], command)  # noqa: S606  (no shell is wanted)
