"""One restore: an image becomes a running engine, a child of a keeper that this process can wait for and kill."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
from pathlib import Path
from typing import Final

import psutil

from runtime.engine.snapshot import system
from runtime.engine.snapshot.criu import RESTORE_LOG, Criu, complaint
from runtime.engine.snapshot.images import Place
from runtime.engine.snapshot.keeper import SIGNALLED, Order
from runtime.engine.snapshot.manifest import SnapshotManifest
from runtime.ready.gate_seal import MOST_BYTES, SEAL_SOCKET

RESTORE_S: Final = 120.0
"""The longest restore, in which all memory is read; 0.8 s for 1.4 GB that the page cache holds."""
RENEW_S: Final = 10.0
"""How long a restored engine may take to accept its host; some milliseconds."""


class NotRestoredError(Exception):
    """No engine came of it, and nothing of the try is left; `str()` says why."""


class Restored:
    """The leader of a restored engine. Has what an `asyncio.subprocess.Process` has, as far as it is used."""

    def __init__(self, keeper: asyncio.subprocess.Process, pid: int) -> None:
        """Raises OSError if `pid` does not live."""
        self.pid = pid
        self._keeper = keeper
        self._fd = os.pidfd_open(pid)

    @property
    def returncode(self) -> int | None:
        """As in `subprocess`: negative is a signal; None while it lives."""
        code = self._keeper.returncode
        return code if code is None or code <= SIGNALLED else SIGNALLED - code

    async def wait(self) -> int:
        """Wait until it and all that lived with it have ended."""
        code = await self._keeper.wait()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        return code if code <= SIGNALLED else SIGNALLED - code

    def send_signal(self, number: int) -> None:
        """Send the leader a signal; nothing happens once it has ended."""
        if self._fd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._fd, number)


async def restore(place: Place, manifest: SnapshotManifest, criu: Criu, run: Path, output: int) -> Restored:
    """Restore with the working directory `run`, which exists, and its output to the descriptor `output`.

    Raises NotRestoredError; cancelled, it leaves nothing.
    """
    read_end, write_end = os.pipe()
    try:
        try:
            _fill(run, place.start)
            order = Order(
                host_pid=os.getpid(),
                told_fd=write_end,
                fds=(output,),
                restore=criu.restore(place.images, run, manifest.output, output),
                leader=manifest.leader,
                above_pid=manifest.highest_pid + 1,
                shm=str(place.shm),
                run=str(run),
                run_at=str(place.run),
                cache=str(place.cache),
            )
            keeper = await asyncio.create_subprocess_exec(
                *system.command("keeper", order.text()),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(write_end, output),
                start_new_session=True,
            )
        except OSError as error:
            raise NotRestoredError(f"no keeper can be begun: {error}") from error
        finally:
            os.close(write_end)
        return await _restored(keeper, read_end, manifest, run)
    finally:
        os.close(read_end)


def _fill(run: Path, start: Path) -> None:
    """What the engine had in its working directory; an earlier engine of this replica may have left its own there."""
    for entry in start.iterdir():
        if entry.is_symlink():
            (run / entry.name).unlink(missing_ok=True)
    shutil.copytree(start, run, dirs_exist_ok=True, symlinks=True)


async def _restored(
    keeper: asyncio.subprocess.Process, told_fd: int, manifest: SnapshotManifest, run: Path
) -> Restored:
    try:
        try:
            async with asyncio.timeout(RESTORE_S):
                told = await _told(told_fd)
        except TimeoutError:
            told = {"error": f"it takes longer than {RESTORE_S:.0f} s"}
        if "restored" not in told:
            why = str(told.get("error", "the keeper ended"))
            raise NotRestoredError(f"{why}: {complaint(run / RESTORE_LOG)}" if why.startswith("criu") else why)
        try:
            return Restored(keeper, _outer_pid(keeper.pid, manifest.leader))
        except (OSError, psutil.Error, LookupError) as error:
            raise NotRestoredError("the engine ended as soon as it was restored") from error
    except BaseException:
        _end(keeper)
        await asyncio.shield(keeper.wait())
        raise


def _end(keeper: asyncio.subprocess.Process) -> None:
    """End what it keeps, so that its own end tells that nothing of that is left; itself where it keeps nothing yet."""
    with contextlib.suppress(ProcessLookupError, psutil.Error):
        keeper.send_signal(signal.SIGSTOP)  # it begins nothing more
        kept = psutil.Process(keeper.pid).children()
        for first in kept:
            first.kill()
        keeper.send_signal(signal.SIGCONT if kept else signal.SIGKILL)


async def _told(fd: int) -> dict[str, object]:
    """What the keeper says; empty if it ends without a word."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[bytes] = loop.create_future()

    def readable() -> None:
        if not done.done():
            done.set_result(os.read(fd, 65536))

    loop.add_reader(fd, readable)
    try:
        data = await done
    finally:
        loop.remove_reader(fd)
    return dict(json.loads(data)) if data else {}


def _outer_pid(keeper: int, leader: int) -> int:
    """The pid that the engine's leader has out here. Raises LookupError, OSError, psutil.Error."""
    for first in psutil.Process(keeper).children():
        for child in first.children():
            status = Path(f"/proc/{child.pid}/status").read_text()
            inner = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[-1]
            if int(inner) == leader:
                return child.pid
    raise LookupError(leader)


async def renew(run: Path, credential: str, listener: socket.socket) -> None:
    """Become the host of the sealed engine whose working directory is `run`: it listens on `listener` from now on.

    Raises NotRestoredError.
    """
    try:
        async with asyncio.timeout(RENEW_S):
            answer = await asyncio.to_thread(_renew, run, credential, listener)
    except (OSError, ValueError, TimeoutError) as error:
        raise NotRestoredError(f"the restored engine takes no host: {error or type(error).__name__}") from error
    if answer:
        raise NotRestoredError(f"the restored engine takes no host: {answer}")


def _renew(run: Path, credential: str, listener: socket.socket) -> str:
    directory = os.open(run, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            channel.settimeout(RENEW_S)
            # By way of the descriptor: the whole path of a unix socket must fit into 108 bytes.
            channel.connect(f"/proc/self/fd/{directory}/{SEAL_SOCKET}")
            socket.send_fds(channel, [json.dumps({"credential": credential}).encode()], [listener.fileno()])
            return str(json.loads(channel.recv(MOST_BYTES) or b'{"error": "it ended"}')["error"])
    finally:
        os.close(directory)
