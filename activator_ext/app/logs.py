"""Bounds the logs of host and portal: those write them by themselves, into a file that stays open for months."""

import os
import shutil
from pathlib import Path

MAX_BYTES = 16 * 2**20
"""Of one file. The host writes about 3 kB in a start; two files are kept."""


def bound(log: Path, max_bytes: int = MAX_BYTES) -> bool:
    """Set a log that is over its bound aside as `NAME.1` and empty it; True if it was. Raises OSError.

    It is emptied in place, not renamed: the writer appends (O_APPEND) and goes on at the new end. What it writes
    between copy and emptying, some milliseconds, is lost; where the disk is too full for the copy, all of it is.
    """
    if not log.exists() or log.stat().st_size <= max_bytes:
        return False
    aside = log.with_name(f"{log.name}.1")
    try:
        shutil.copyfile(log, aside)
    except OSError:
        aside.unlink(missing_ok=True)
    os.truncate(log, 0)
    return True
