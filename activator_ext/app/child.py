"""One process that `up` needs: spawned, or adopted from an `up` that died; replaced when it has ended."""

import asyncio
import contextlib
import signal
from pathlib import Path

# How often something outside our control is looked at again.
_LOOK_S = 0.1


class ChildFailed(Exception):  # noqa: N818 — told to the user as it is
    """The process ended or did not listen in time; the message holds the end of its log."""


class Child:
    """Keeps one process alive that listens on a unix socket.

    It lives while its socket takes connections, which the kernel does for it however busy it is: on a machine with
    more work than cores, a process that answers late is not replaced, for its open streams would end with it.
    The process gets a session of its own: the terminal's Ctrl-C reaches `up` alone, which then stops it in order.
    """

    def __init__(self, name: str, argv: list[str], *, log: Path, socket: Path, begin_s: float = 60.0) -> None:
        self.name = name
        self.adopted = False
        self._argv = argv
        self._log = log
        self._socket = socket
        self._begin_s = begin_s
        self._process: asyncio.subprocess.Process | None = None

    async def ensure(self) -> bool:
        """Have it running; True if it had to be spawned. Raises ChildFailed."""
        if await self._listens():
            self.adopted = self._process is None
            return False
        # One that was spawned here and listens no more is on its way out: two hosts would fight over one directory.
        await self.kill()
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._argv, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.adopted = False
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
                while await self._listens():  # noqa: ASYNC110 — another process sets no Event of ours
                    await asyncio.sleep(_LOOK_S)
                return True
        return False

    async def kill(self) -> None:
        """End it at once, if it was spawned here."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)
            await self._process.wait()

    async def _listens(self) -> bool:
        try:
            _, writer = await asyncio.open_unix_connection(str(self._socket))
        except OSError:
            return False
        writer.close()
        return True

    async def _begun(self, process: asyncio.subprocess.Process) -> None:
        deadline = asyncio.get_running_loop().time() + self._begin_s
        while not await self._listens():
            if process.returncode is not None:
                raise ChildFailed(f"the {self.name} ended with {process.returncode} at its start:\n{self._tail()}")
            if asyncio.get_running_loop().time() > deadline:
                await self.kill()
                raise ChildFailed(f"the {self.name} did not listen within {self._begin_s:.0f} s:\n{self._tail()}")
            await asyncio.sleep(_LOOK_S)

    def _tail(self) -> str:
        return "\n".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-10:])
