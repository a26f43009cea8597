"""One engine process tree: its own process group, its output line by line, its end.

Knows nothing of vLLM. Start it from the thread that lives as long as this process does (`leash` says why).
"""

import asyncio
import contextlib
import os
import re
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Protocol

from runtime.engine import group
from runtime.engine.log_file import LogFile

TAIL_LINES = 400
"""Lines kept to explain a failure. A loader's exception is told through three processes, and their libraries tell of
leaks after it: 215 lines from the cause to the end."""
MAX_LINE_BYTES = 256 * 1024
"""A longer line is cut into pieces; vLLM's longest, its configuration, has about 6 kB."""
READ_BYTES = 64 * 1024
_BREAK = re.compile(rb"[\r\n]+")

LineCallback = Callable[[datetime, str], None]


class Leader(Protocol):
    """What an `asyncio.subprocess.Process` and a process forked for us have in common."""

    pid: int

    @property
    def returncode(self) -> int | None:
        """As in `subprocess`; None while it lives."""

    async def wait(self) -> int:
        """Wait for its end."""

    def send_signal(self, signal: int) -> None:
        """Send a signal; ProcessLookupError once it has ended."""


Fork = Callable[[int], Awaitable[Leader]]
"""Makes the leader of an engine's session, which writes to the given descriptor."""


class EngineProcess:
    """A running or ended process tree. Create it by `spawn` or `fork`."""

    def __init__(self, process: Leader, output: "_Output") -> None:
        self._process = process
        self._output = output
        self._gone = False

    @classmethod
    async def spawn(
        cls,
        argv: tuple[str, ...],
        *,
        env: Mapping[str, str],
        cwd: Path,
        log: Path,
        on_line: LineCallback,
        clock: Callable[[], datetime],
    ) -> "EngineProcess":
        """Start `argv` as the leader of a new session; `on_line` gets each line of its output. Raises OSError."""

        def make(output: int) -> Awaitable[Leader]:
            return asyncio.create_subprocess_exec(
                *argv,
                env=dict(env),
                cwd=cwd,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                umask=0o077,  # sockets and files of an engine are its user's alone
            )

        return await cls.fork(make, log=log, on_line=on_line, clock=clock)

    @classmethod
    async def fork(
        cls, make: Fork, *, log: Path, on_line: LineCallback, clock: Callable[[], datetime]
    ) -> "EngineProcess":
        """As `spawn`, of a leader that somebody else makes. Raises what `make` raises."""
        read_end, write_end = os.pipe()
        try:
            process = await make(write_end)
        except BaseException:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        return cls(process, _Output(read_end, LogFile(log), on_line, clock))

    @property
    def pid(self) -> int:
        """The leader's pid, which is also the group's id."""
        return self._process.pid

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines of output."""
        return tuple(self._output.tail)

    @property
    def returncode(self) -> int | None:
        """As in `subprocess`: negative is a signal; None while the leader lives."""
        return self._process.returncode

    async def wait(self) -> int:
        """Wait for the leader's end."""
        return await self._process.wait()

    def terminate(self) -> None:
        """SIGTERM to the leader alone: it ends its children itself."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to the whole group, at once."""
        if not self._gone:
            group.kill(self.pid)

    async def clear(self) -> None:
        """Leave no process of the group and no open file; may be called twice."""
        if self._gone:
            return
        left = await group.kill_and_wait(self.pid)
        await self._process.wait()
        await group.reap(self.pid)
        # From here on the number may belong to somebody else's group.
        self._gone = not left
        await self._output.finish()


class _Output:
    """Reads the pipe as it fills, splits lines, appends them to the log with the instant of their reading."""

    def __init__(self, fd: int, log: LogFile, on_line: LineCallback, clock: Callable[[], datetime]) -> None:
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._fd, self._log, self._on_line, self._clock = fd, log, on_line, clock
        self._rest = b""
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._ready)

    async def finish(self, timeout_s: float = 1.0) -> None:
        """Read what is left, then close. A foreign holder of the pipe's other end is waited for `timeout_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._ended.wait()
        self._close()

    def _ready(self) -> None:
        try:
            chunk = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return
        if not chunk:
            self._close()
            return
        *lines, self._rest = _BREAK.split(self._rest + chunk)
        if len(self._rest) > MAX_LINE_BYTES:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            self._take(line)

    def _take(self, raw: bytes) -> None:
        text = raw.decode(errors="replace").rstrip()
        if not text:
            return
        at = self._clock()
        self._log.write(f"{at.isoformat(timespec='milliseconds')} {text}\n".encode())
        self.tail.append(text)
        self._on_line(at, text)

    def _close(self) -> None:
        if self._log.closed:
            return
        self._ended.set()
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._take(self._rest)
        self._rest = b""
        self._log.close()
