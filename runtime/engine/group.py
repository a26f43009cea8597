"""A process group: who lives in it, and how nothing of it stays."""

import asyncio
import contextlib
import os
import signal

import psutil

KILL_WAIT_S = 5.0
"""How long the kernel may take to end killed processes; one in uninterruptible sleep (a dead disk) takes longer."""


def members(pgid: int) -> tuple[int, ...]:
    """Pids of the living processes of the group; zombies are dead."""
    return tuple(process.pid for process in psutil.process_iter() if _belongs(process, pgid))


def _belongs(process: psutil.Process, pgid: int) -> bool:
    try:
        return os.getpgid(process.pid) == pgid and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, PermissionError, psutil.Error):
        return False


def kill(pgid: int) -> None:
    """SIGKILL to the whole group at once; an empty group is fine."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pgid, signal.SIGKILL)


def reap(pgid: int) -> None:
    """Have no zombies of the group: its orphans became children of this process, if it adopts them."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-pgid, os.WNOHANG)[0]:
            pass


async def kill_and_wait(pgid: int) -> tuple[int, ...]:
    """Kill until nobody of the group lives, 5 s at the most; who is left (nobody, as a rule)."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + KILL_WAIT_S
    while True:
        kill(pgid)
        left = members(pgid)
        if not left or loop.time() >= deadline:
            return left
        await asyncio.sleep(0.02)
