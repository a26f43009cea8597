"""An engine's log on disk, bounded: a full file is kept as `NAME.1`, in place of the one before, and begun anew.

An engine writes some 100 kB in a start and a line now and then while it serves; over months that fills a disk.
"""

import contextlib
from pathlib import Path

MAX_BYTES = 16 * 2**20
"""Of one file: the last hundred starts of a real engine, with their tracebacks. Two files are kept."""


class LogFile:
    """Appended to by one writer. To begin it raises OSError as a file does.

    What a full disk does not take later is lost to the log: no start fails because it could not be written down.
    Unbuffered, so that nothing is left to be written when it closes.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._file = path.open("ab", buffering=0)

    def write(self, data: bytes) -> None:
        """Append; where the file would grow over its bound, it is set aside first."""
        with contextlib.suppress(OSError):
            if self._file.tell() + len(data) > self._max_bytes and self._file.tell():
                self._path.replace(self._path.with_name(f"{self._path.name}.1"))
                fresh = self._path.open("ab", buffering=0)
                self._file.close()
                self._file = fresh
            self._file.write(data)

    def close(self) -> None:
        """Close; a second time is fine."""
        self._file.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._file.closed
