"""A process group: who lives in it, and how nothing of it stays."""

import asyncio
import contextlib
import os
import signal

import psutil

KILL_WAIT_S = 5.0
"""How long the kernel may take to end killed processes; one in uninterruptible sleep (a dead disk) takes longer."""

REAP_WAIT_S = 2.0
"""How long zombies may take to become this process's children; the kernel takes milliseconds."""


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


async def reap(pgid: int) -> None:
    """Have no zombies of the group, whose leader has been waited for: its orphans become children of this process.

    They become so one after another, each as its own parent ends, so that one look is not enough. Zombies that are not
    ours to reap are left after `REAP_WAIT_S`.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + REAP_WAIT_S
    while loop.time() < deadline:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-pgid, os.WNOHANG)[0]:  # noqa: ASYNC222  (WNOHANG does not block)
                pass
        try:
            os.killpg(pgid, 0)
        except ProcessLookupError:
            return
        await asyncio.sleep(0.02)


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
