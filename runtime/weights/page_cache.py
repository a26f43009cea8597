"""What of a file is in the page cache: asked, dropped, or read in ahead of the loader.

`mincore` answers truly only to who owns the file or may write it (Linux 5.1 on); to others it says that all is there.
"""

import ctypes
import mmap
import os
from pathlib import Path

WINDOW_BYTES = 256 * 2**20
"""Mapped at once while asking; one byte of answer for each page of it."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
_FAILED = ctypes.c_void_p(-1).value


def resident_bytes(path: Path) -> int:
    """How many bytes of `path` are in the page cache, in whole pages but no more than its size. Raises OSError."""
    size = path.stat().st_size
    with path.open("rb") as file:
        spans = range(0, size, WINDOW_BYTES)
        pages = sum(_resident_pages(file.fileno(), begin, min(WINDOW_BYTES, size - begin)) for begin in spans)
    return min(size, pages * mmap.PAGESIZE)


def span_is_resident(fd: int, begin: int, length: int) -> bool:
    """Whether all of a span of a file (`begin` at a page's start) is in the page cache. Raises OSError."""
    return _resident_pages(fd, begin, length) * mmap.PAGESIZE >= length


def drop(path: Path) -> None:
    """Have the kernel forget the clean pages of `path`; what others have mapped stays. Raises OSError."""
    with path.open("rb") as file:
        os.fsync(file.fileno())  # a dirty page is not dropped
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _resident_pages(fd: int, begin: int, length: int) -> int:
    address = _libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, fd, begin)
    if address == _FAILED:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    try:
        answer = (ctypes.c_ubyte * -(-length // mmap.PAGESIZE))()
        if _libc.mincore(address, length, answer) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return sum(page & 1 for page in answer)
    finally:
        _libc.munmap(address, length)
