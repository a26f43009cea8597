"""A process that somebody else forked and that became this process's child: its end, and signals to it.

Has what an `asyncio.subprocess.Process` has, as far as `EngineProcess` uses it. Linux only (pidfd_open, subreaper).
"""

import asyncio
import contextlib
import ctypes
import os
import signal

_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """From now on this process becomes the parent of descendants that lose theirs (prctl(2))."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Adopted:
    """A child by adoption. `returncode` is as in `subprocess`: negative is a signal, None while it lives."""

    def __init__(self, pid: int) -> None:
        """Raises OSError if `pid` does not live."""
        self.pid = pid
        self.returncode: int | None = None
        self._fd = os.pidfd_open(pid)
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._loop.add_reader(self._fd, self._reap)

    async def wait(self) -> int:
        """Wait for its end; the return code."""
        await self._ended.wait()
        assert self.returncode is not None  # noqa: S101  (set before the event)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal; nothing happens once it has ended."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._fd, number)

    def _reap(self) -> None:
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid == 0:
                return
            self.returncode = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            # It ended before it was ours, and its first parent has the status.
            self.returncode = 255
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._ended.set()
