"""The bytes of a bundle: one zstd frame around one tar, each in exactly one form.

A bundle is `manifest.json`, `manifest.sig`, then the manifest's files in its order. The manifest and the signatures
say every byte that is not content, so a reader does not interpret tar: it makes the header that has to come and
compares. Links, devices, doubled or foreign members, odd paddings and trailing bytes cannot pass, known or not.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO

import zstandard

BLOCK = 512
"""Tar's unit: a header is one, contents are padded to it."""

END = b"\0" * (2 * BLOCK)
"""Two empty blocks end a tar."""

MANIFEST = "manifest.json"
SIGNATURES = "manifest.sig"
FILES = "files/"
"""What stands before each file's path, so that no file can be taken for the manifest."""

LEVEL = 3
"""zstd's default. Measured (docs/adr/0006-bundle-format.md): with level 1 packing takes 0.7 times as long and gives
13 % more, with level 9 three times as long and 9 % less."""

FILE_BYTES = 8**11 - 1
"""The most a tar header can state: 8 GiB less one byte."""

WINDOW_BYTES = 8 * 2**20
"""zstd memory that a reader grants; level 3 uses 2 MiB."""

SMALLEST_BLOCK_BYTES = 4096
"""Of contents; zstd 1.5.7 splits no finer than 8 KiB. A frame of empty blocks would be walked for minutes."""

SPARE_BLOCKS = 16
"""Blocks that a small frame may have beyond that."""

_NAME, _PREFIX = 100, 155
_MAGIC = b"\x28\xb5\x2f\xfd"
_CHECKSUM_BYTES = 4
_MAX_FRAME_HEADER = 18


def header(name: str, size: int, mode: int = 0o644) -> bytes:
    """The tar header of a plain file: mtime 0, owner 0. A name that ustar cannot hold stands in a pax record."""
    raw = name.encode()
    split = _split(raw)
    if split is None:
        record = _pax_record(b"path", raw)
        pax = _ustar(b"", b"pax/path", len(record), 0o644, b"x") + record + padding(len(record))
        return pax + _ustar(b"", b"pax/file", size, mode, b"0")
    return _ustar(*split, size, mode, b"0")


def padding(size: int) -> bytes:
    """The zeros that fill the last block of `size` bytes of content."""
    return b"\0" * (-size % BLOCK)


def member_bytes(name: str, size: int) -> int:
    """What a file of this name and size takes in the tar."""
    return len(header(name, size)) + size + len(padding(size))


def tar_bytes(members: Iterable[tuple[str, int]]) -> int:
    """The size of the whole tar of these (name, size)."""
    return sum(member_bytes(name, size) for name, size in members) + len(END)


def _split(raw: bytes) -> tuple[bytes, bytes] | None:
    if len(raw) <= _NAME:
        return b"", raw
    cut = raw.rfind(b"/", 0, _PREFIX + 1)
    if cut > 0 and 0 < len(raw) - cut - 1 <= _NAME:
        return raw[:cut], raw[cut + 1 :]
    return None


def _pax_record(key: bytes, value: bytes) -> bytes:
    body = b" " + key + b"=" + value + b"\n"
    size = len(body) + 1
    while len(str(size)) + len(body) != size:
        size = len(str(size)) + len(body)
    return str(size).encode() + body


def _ustar(prefix: bytes, name: bytes, size: int, mode: int, kind: bytes) -> bytes:
    fields = (
        name.ljust(_NAME, b"\0"),
        b"%07o\0" % mode,
        b"%07o\0" % 0,  # uid
        b"%07o\0" % 0,  # gid
        b"%011o\0" % size,
        b"%011o\0" % 0,  # mtime
        b" " * 8,  # checksum, filled in below
        kind,
        b"\0" * 100,  # link
        b"ustar\x0000",
        b"\0" * 64,  # names of user and group
        b"%07o\0" % 0,  # device
        b"%07o\0" % 0,
        prefix.ljust(_PREFIX, b"\0"),
        b"\0" * 12,
    )
    block = b"".join(fields)
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


@dataclass(frozen=True, slots=True)
class Frame:
    """What the outer headers of a zstd frame say. `content_bytes`: of the tar; `window_bytes`: memory to decode it."""

    content_bytes: int
    window_bytes: int


class BadFrame(Exception):
    """The file is not one whole frame as `pack` writes it. `truncated`: it ends too early."""

    def __init__(self, why: str, *, truncated: bool = False) -> None:
        super().__init__(why)
        self.truncated = truncated


def read_frame(file: BinaryIO, file_bytes: int) -> Frame:
    """Walk the frame's block headers without decoding: it must be one, checksummed, and end where the file ends.

    Leaves `file` at its start. Raises BadFrame, OSError.
    """
    file.seek(0)
    head = file.read(_MAX_FRAME_HEADER)
    if not head or not _MAGIC.startswith(head[:4]):
        raise BadFrame("it is no zstd archive" if head else "it is empty", truncated=not head)
    try:
        parameters = zstandard.get_frame_parameters(head)
        at = zstandard.frame_header_size(head)
    except zstandard.ZstdError as error:
        raise BadFrame(f"its zstd header is broken ({error})", truncated=file_bytes < _MAX_FRAME_HEADER) from error
    unknown = parameters.content_size in {zstandard.CONTENTSIZE_UNKNOWN, zstandard.CONTENTSIZE_ERROR}
    if unknown or not parameters.has_checksum or parameters.dict_id:
        raise BadFrame("its zstd frame states no size or has no checksum")
    most = parameters.content_size // SMALLEST_BLOCK_BYTES + SPARE_BLOCKS
    end = _frame_end(file, at, file_bytes, most)
    if end > file_bytes:
        raise BadFrame(f"it has {file_bytes} bytes of at least {end}", truncated=True)
    if end < file_bytes:
        raise BadFrame(f"{file_bytes - end} bytes follow its end")
    file.seek(0)
    return Frame(parameters.content_size, parameters.window_size)


def _frame_end(file: BinaryIO, at: int, file_bytes: int, most: int) -> int:
    """Where the frame ends by its block headers (RFC 8878, 3.1.1.2); beyond `file_bytes` where it is cut off."""
    last, count = False, 0
    while not last:
        count += 1
        if count > most:
            raise BadFrame("its zstd frame has more blocks than its contents can fill")
        file.seek(at)
        raw = file.read(3)
        if len(raw) < 3:
            return max(at + 3, file_bytes + 1)
        block = int.from_bytes(raw, "little")
        last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
        if kind == 3:
            raise BadFrame("a block of its zstd frame is of no known kind")
        at += 3 + (1 if kind == 1 else size)
    return at + _CHECKSUM_BYTES


def compressor_threads() -> int:
    """Threads to compress with, at least one: then zstd's output is the same for any number of them."""
    return max(1, min(4, len(os.sched_getaffinity(0))))
