"""The host's side of one fork server: begins it, waits for its imports, asks it for engines, ends it."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Mapping
from typing import Any

from runtime.engine.adopted import Adopted, adopt_orphans
from runtime.engine.fork.wire import ForkAnswer, ForkRequest, Ready, receive, send

COMMAND = (sys.executable, "-P", "-m", "runtime.engine.fork.server")
"""The platform and the channel's descriptor follow."""

ANSWER_S = 10.0
"""How long a fork may take; it takes 20 ms, of which most is copying page tables (0.6 GB of imports)."""


IMPORTS_S = 120.0
"""The longest that a start waits for imports, which take 6 to 20 s: beyond that they hang (a dead file system)."""


class NoForkError(Exception):
    """The fork server made no engine; `str()` says why. The caller spawns one instead."""


class ForkServer:
    """One process with vLLM imported, in one environment. Create it by `begin`; `close` it."""

    def __init__(self, process: asyncio.subprocess.Process, channel: socket.socket) -> None:
        self._process = process
        self._channel = channel
        self._asking = asyncio.Lock()
        self._imports = asyncio.create_task(self._import(), name="fork server imports")

    @classmethod
    async def begin(cls, env: Mapping[str, str], command: tuple[str, ...]) -> "ForkServer":
        """Start one; its imports go on in the background. `env` is what engines import in. Raises OSError."""
        adopt_orphans()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                str(theirs.fileno()),
                env=dict(env),
                pass_fds=(theirs.fileno(),),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,  # a Ctrl-C in the terminal is the host's to answer
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        return cls(process, ours)

    @property
    def pid(self) -> int:
        """The server's pid."""
        return self._process.pid

    @property
    def imported(self) -> bool:
        """Whether a fork can be had at once."""
        return self.alive and self._imports.done()

    @property
    def gone(self) -> bool:
        """Whether its process has ended."""
        return self._process.returncode is not None

    @property
    def alive(self) -> bool:
        """Whether it may yet give engines."""
        failed = self._imports.done() and (self._imports.cancelled() or self._imports.exception() is not None)
        return not self.gone and not failed

    async def ready(self) -> Ready:
        """Wait until its imports are done. Raises NoForkError."""
        return await asyncio.shield(self._imports)

    async def fork(self, argv: tuple[str, ...], *, env: Mapping[str, str], cwd: str, output: int) -> Adopted:
        """An engine that runs `vllm` with `argv` and writes to the descriptor `output`. Raises NoForkError."""
        try:
            async with asyncio.timeout(IMPORTS_S):
                await self.ready()
        except TimeoutError as error:
            raise NoForkError(f"vLLM was not imported within {IMPORTS_S:g} s") from error
        async with self._asking:
            try:
                async with asyncio.timeout(ANSWER_S):
                    send(self._channel, ForkRequest(argv, env, cwd, os.getpid()), output)
                    answer = ForkAnswer(**await self._receive())
            except (TimeoutError, OSError, ValueError) as error:
                # What it may answer later would be taken for the answer to the next request.
                await self.close()
                raise NoForkError(f"the fork server gave no answer ({type(error).__name__}: {error})") from error
        if answer.pid is None:
            raise NoForkError(f"the fork server made no engine: {answer.error}")
        try:
            return Adopted(answer.pid)
        except OSError as error:
            raise NoForkError(f"the forked engine has ended at once ({error.strerror})") from error

    async def close(self) -> None:
        """End it; engines that it made live on. May be called twice."""
        self._imports.cancel()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        self._channel.close()

    async def _import(self) -> Ready:
        try:
            ready = Ready(**await self._receive())
        except (OSError, ValueError) as error:
            code = self._process.returncode
            raise NoForkError(f"the fork server ended while it imported (exit {code}: {error})") from error
        if ready.unsafe is not None:
            raise NoForkError(f"a fork would not be safe: {ready.unsafe}")
        return ready

    async def _receive(self) -> dict[str, Any]:
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._channel, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._channel)
        received = receive(self._channel)
        if received is None:
            raise ConnectionResetError("the server has closed its end")
        return received[0]
