"""The header of one safetensors file, read without loading a tensor: the file must be as long as it says.

Layout (the format's own documentation): 8 bytes little-endian header length N, N bytes of JSON, then the data; each
tensor's `data_offsets` are relative to the end of the header.
"""

import json
import struct
from pathlib import Path

MAX_HEADER_BYTES = 100_000_000
"""The format's own upper bound of N; a larger number means that this is no safetensors file."""


class BadFileError(ValueError):
    """The file is cut short, too long or no safetensors file; `str()` says which, without the path."""


def tensor_names(path: Path) -> frozenset[str]:
    """Names of the tensors in `path`; raises BadFileError when header and file size do not agree."""
    size = path.stat().st_size
    with path.open("rb") as file:
        prefix = file.read(8)
        if len(prefix) < 8:
            raise BadFileError(f"has {size} bytes, too few for a safetensors header")
        (length,) = struct.unpack("<Q", prefix)
        if length > MAX_HEADER_BYTES or 8 + length > size:
            raise BadFileError(f"has {size} bytes, but its header alone would take {8 + length}")
        header = _parse(file.read(length))
    tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
    expected = 8 + length + max((_end(name, entry) for name, entry in tensors.items()), default=0)
    if expected != size:
        raise BadFileError(f"has {size} bytes, its header says {expected}")
    return frozenset(tensors)


def _parse(text: bytes) -> dict[str, object]:
    try:
        header = json.loads(text)
    except ValueError as error:
        raise BadFileError(f"has an unreadable safetensors header ({error})") from error
    if not isinstance(header, dict):
        raise BadFileError("has a safetensors header that is not an object")
    return header


def _end(name: str, entry: object) -> int:
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(isinstance(o, int) for o in offsets):
        raise BadFileError(f"has no data_offsets for tensor {name}")
    end: int = offsets[1]
    return end
