"""Is a write-ahead log whole? SQLite passes over everything behind the first frame that is not, and says nothing.

Format: section 4 of SQLite's "Database File Format". A log is left behind only by a process that was killed; one that
ends in order writes it into the file and removes it.
"""

import struct
from pathlib import Path

_MAGIC_BIG_END, _MAGIC_LITTLE_END = 0x377F0683, 0x377F0682
_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24
_WORD = 2**32 - 1

Sums = tuple[int, int]


def damage(path: Path) -> str | None:
    """What is wrong with the log `path`, None where nothing is, or there is none.

    A frame that is not whole is damage only if a later one of the same log follows it: the last may be the one that the
    killed process was writing, of a transaction that nobody was told of. Damage of the very last frame is not seen.
    """
    try:
        log = path.read_bytes()
    except FileNotFoundError:
        return None
    if len(log) < _HEADER_BYTES:
        return "its header is cut off" if log else None
    magic, _, page_bytes = struct.unpack(">3I", log[:12])
    if magic not in (_MAGIC_BIG_END, _MAGIC_LITTLE_END):
        return "its header is not that of a log"
    order = ">" if magic == _MAGIC_BIG_END else "<"
    sums = _summed(log[:24], order, (0, 0))
    if sums != struct.unpack(">2I", log[24:32]):
        return "its header is damaged"
    size = _FRAME_HEADER_BYTES + page_bytes
    frames = [log[start : start + size] for start in range(_HEADER_BYTES, len(log) - size + 1, size)]
    # Frames with other salts are left from before the log was begun anew.
    frames = [frame for frame in frames if frame[8:16] == log[16:24]]
    for number, frame in enumerate(frames[:-1], 1):
        sums = _summed(frame[_FRAME_HEADER_BYTES:], order, _summed(frame[:8], order, sums))
        if sums != struct.unpack(">2I", frame[16:24]):
            return f"frame {number} of {len(frames)} is damaged"
    return None


def _summed(content: bytes, order: str, sums: Sums) -> Sums:
    first, second = sums
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & _WORD
        second = (second + odd + first) & _WORD
    return first, second
