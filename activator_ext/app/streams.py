"""Standard streams that are closed, full, or whose reader has gone: said in one line where that can be read.

Nobody wants a traceback because of `| head`, and no server ends because nobody reads its lines any more.
"""

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Iterator

# What a write to a terminal, pipe or file can fail with through no fault of ours.
_CANNOT_WRITE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE})


def open_closed() -> None:
    """Give /dev/null to each standard descriptor that is closed.

    Else the next file that opens, the lock or a socket, becomes descriptor 2, and every warning is written into it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            _null(number)
            # Python has set it to None already.
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def tell(text: str) -> None:
    """A line to stderr, lost where it cannot be written: a full disk may have room again for the next."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError as error:
        if error.errno == errno.EPIPE:
            _null(2)


@contextlib.contextmanager
def told_if_unwritten() -> Iterator[None]:
    """End with status 1 and one line if the output cannot be written; at once and silently if its reader has left."""
    try:
        try:
            yield
        finally:
            # What is still in the buffer: at exit it would fail without anybody to tell.
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in _CANNOT_WRITE or error.filename is not None:
            raise
        _null(1)
        if error.errno != errno.EPIPE:
            tell(f"error: the output cannot be written: {os.strerror(error.errno)}")
        sys.exit(1)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Have Ctrl-C raise KeyboardInterrupt meanwhile."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _null(number: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null != number:
        os.dup2(null, number)
        os.close(null)
