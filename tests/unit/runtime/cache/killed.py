"""A process killed with SIGKILL just before its n-th act on files, and one without root's right to every file."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ACTS = frozenset({"open", "os.mkdir", "os.rename", "os.remove", "os.link"})
DAC_OVERRIDE, DAC_READ_SEARCH = 1, 2
CAPABILITIES_V3 = 0x20080522


def killed_before_act(number: int, below: str, work: Callable[[], object]) -> bool:
    """Run `work` in a forked child that kills itself before its act `number` (from 1) on a path below `below`.

    True: it was killed. False: the work was done before that.
    """
    child = os.fork()
    if child == 0:
        _work_until(number, below, work)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.waitstatus_to_exitcode(status) == 0, "the child failed by itself"
    return False


def _work_until(number: int, below: str, work: Callable[[], object]) -> None:
    acts = 0

    def count(event: str, args: tuple[object, ...]) -> None:
        nonlocal acts
        if event in ACTS and isinstance(args[0], str | os.PathLike) and str(args[0]).startswith(below):
            acts += 1
            if acts == number:
                os.kill(os.getpid(), signal.SIGKILL)

    code = 1
    try:
        sys.addaudithook(count)
        work()
        code = 0
    except BaseException as error:
        print(f"in the child: {error!r}", file=sys.stderr)  # seen with the failed test
    finally:
        os._exit(code)


@contextmanager
def bound_by_file_modes() -> Iterator[None]:
    """This thread, and those it starts, obey file modes even as root."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(CAPABILITIES_V3, 0)
    before = (ctypes.c_uint32 * 6)()
    if libc.capget(header, before) != 0:
        raise OSError(ctypes.get_errno(), "capget")
    less = (ctypes.c_uint32 * 6)(*before)
    less[0] &= ~(1 << DAC_OVERRIDE | 1 << DAC_READ_SEARCH)
    if libc.capset(header, less) != 0:
        raise OSError(ctypes.get_errno(), "capset")
    try:
        yield
    finally:
        libc.capset(header, before)
