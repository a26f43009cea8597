"""A child that does not outlive its parent: the kernel kills it when the parent ends, however that ends.

Linux only (PR_SET_PDEATHSIG, prctl(2)); elsewhere nothing is done and only an orderly stop ends the engine. The
signal belongs to the parent *thread* that forked: the host starts engines from its main thread, and vLLM starts
EngineCore and Worker from theirs. The setting does not pass to children, so each process puts itself on the leash.
"""

import ctypes
import os
import signal
import sys

PARENT_ENV = "PILOTLIGHT_PARENT_PID"
"""The pid of the process that starts the engine; a parent that is gone already cannot send its signal any more."""

_PR_SET_PDEATHSIG = 1


def leash(parent_pid: int | None = None) -> None:
    """Have this process killed when its parent ends; exits at once if `parent_pid` is no longer the parent."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent_pid is not None and os.getppid() != parent_pid:
        os._exit(1)


def leash_to_starter() -> None:
    """`leash` to the process named by PILOTLIGHT_PARENT_PID, or to any parent without it."""
    named = os.environ.get(PARENT_ENV, "")
    leash(int(named) if named.isdigit() else None)
