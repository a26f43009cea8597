"""One process that `up` needs: spawned, or adopted from an `up` that died; replaced when it has ended."""

import asyncio
import contextlib
import os
import signal
import socket
import struct
from pathlib import Path

from activator_ext.app.pulse import Pulse, look

# How often something outside our control is looked at again.
_LOOK_S = 0.1


class ChildFailed(Exception):
    """The process ended or did not listen in time; the message holds the end of its log."""


class Child:
    """Keeps one process alive that listens on a unix socket.

    It lives while its socket takes connections, which the kernel does for it however busy it is, and while it runs at
    all (`pulse`): on a machine with more work than cores, a process that answers late is not replaced, for its open
    streams would end with it. The process gets a session of its own: the terminal's Ctrl-C reaches `up` alone, which
    then stops it in order.
    """

    def __init__(self, name: str, argv: list[str], *, log: Path, socket: Path, begin_s: float = 60.0) -> None:
        self.name = name
        self.adopted = False
        self._argv = argv
        self._log = log
        self._socket = socket
        self._begin_s = begin_s
        self._process: asyncio.subprocess.Process | None = None
        self._adopted_pid = 0
        self._log_begin = 0
        self._pulse = Pulse()

    def standstill(self) -> str | None:
        """What is the matter with one that does not run any more; None: it runs, or patience is not at its end.

        Asked again and again, a few seconds apart: each time knocks at the socket, which a sound process wakes up for.
        """
        pid = self._listener() or self._pid()
        return self._pulse.feel(pid, look(pid), asyncio.get_running_loop().time())

    def listens(self) -> bool:
        """Whether one is there, ours or to be adopted."""
        return self._listener() is not None

    def begun_otherwise(self) -> bool:
        """Whether who listens now was begun with other arguments than ours."""
        try:
            words = Path(f"/proc/{self._listener() or 0}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        # The interpreter may be called by another path.
        return words[1:-1] != [os.fsencode(word) for word in self._argv[1:]]

    def stopped(self) -> bool:
        """Whether who listens now was stopped by a signal: nobody will answer there."""
        seen = look(self._listener() or 0)
        return seen is not None and seen.state == "T"

    async def ensure(self) -> bool:
        """Have it running; True if it had to be spawned. Raises ChildFailed."""
        listener = self._listener()
        if listener is not None:
            self.adopted = self._process is None
            self._adopted_pid = listener if self.adopted else 0
            return False
        if self._process is not None and self._process.returncode is None and not self._socket.exists():
            raise ChildFailed(
                f"{self._socket} was removed while the {self.name} runs: stop this `up` and begin it again"
            )
        # One that was spawned here and listens no more is on its way out: two hosts would fight over one directory.
        await self.kill()
        try:
            with self._log.open("ab") as log:
                self._log_begin = log.tell()
                self._process = await asyncio.create_subprocess_exec(
                    *self._argv, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
        except OSError as error:
            raise ChildFailed(f"the {self.name} cannot be begun: {error}") from error
        self.adopted, self._adopted_pid = False, 0
        await self._begun(self._process)
        return True

    async def ended(self) -> None:
        """Return when a spawned process has ended; an adopted one cannot be waited for, so never."""
        if self._process is None:
            await asyncio.Event().wait()
        else:
            await self._process.wait()

    async def wait_gone(self, timeout_s: float) -> bool:
        """Wait until it listens no more and has ended; False if it has not after `timeout_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                if self._process is not None:
                    await self._process.wait()
                while self._listener() is not None:  # noqa: ASYNC110 — another process sets no Event of ours
                    await asyncio.sleep(_LOOK_S)
                return True
        return False

    async def kill(self) -> None:
        """End it at once, however it came here. Raises ChildFailed if the kernel cannot: it hangs in a dead disk."""
        listener = self._listener()
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)
        elif listener is not None and (pid := listener or self._adopted_pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        else:
            return
        if not await self.wait_gone(self._begin_s):
            raise ChildFailed(f"the {self.name} (pid {self._pid()}) was killed and does not end: see its state in ps")

    def _pid(self) -> int:
        """Whom we keep, by what we know; 0 if nobody."""
        spawned = self._process is not None and self._process.returncode is None
        return self._process.pid if spawned and self._process is not None else self._adopted_pid

    def _listener(self) -> int | None:
        """The pid of who listens on the socket, None if nobody does (0: somebody whose queue is full).

        The kernel knows it (SO_PEERCRED, unix(7)) without asking a process that may be stopped.
        """
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            try:
                probe.connect(str(self._socket))
            except BlockingIOError:
                return 0
            except OSError:
                return None
            credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid: int = struct.unpack("3i", credentials)[0]
        return pid

    async def _begun(self, process: asyncio.subprocess.Process) -> None:
        deadline = asyncio.get_running_loop().time() + self._begin_s
        while self._listener() is None:
            if process.returncode is not None:
                raise ChildFailed(f"the {self.name} ended with {process.returncode} at its start:\n{self._tail()}")
            if asyncio.get_running_loop().time() > deadline:
                await self.kill()
                raise ChildFailed(f"the {self.name} did not listen within {self._begin_s:.0f} s:\n{self._tail()}")
            await asyncio.sleep(_LOOK_S)

    def _tail(self) -> str:
        """The last lines that this process wrote, not those of one before it."""
        with self._log.open("rb") as log:
            log.seek(self._log_begin)
            lines = log.read().decode(errors="replace").splitlines()[-10:]
        return "\n".join(lines) or "(it could write nothing to its log: is the disk full?)"
