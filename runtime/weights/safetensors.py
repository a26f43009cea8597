"""The header of one safetensors file, read without loading a tensor: the file must be as long as it says.

Layout (the format's own documentation): 8 bytes little-endian header length N, N bytes of JSON, then the data; each
tensor's `data_offsets` are relative to the end of the header, and the tensors fill the data without hole or overlap.
"""

import json
import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

PREFIX_BYTES = 8
MAX_HEADER_BYTES = 100_000_000
"""The format's own upper bound of N; a larger number means that this is no safetensors file."""

BITS = {
    name: bits
    for bits, names in {
        4: "F4",
        6: "F6_E2M3 F6_E3M2",
        8: "BOOL I8 U8 F8_E5M2 F8_E4M3 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ",
        16: "F16 BF16 I16 U16",
        32: "F32 I32 U32",
        64: "F64 C64 I64 U64",
    }.items()
    for name in names.split()
}
"""Bits of one element (the format's own list). A type that is not here is taken as the file says."""


class BadFileError(ValueError):
    """The file is cut short, too long or no safetensors file; `str()` says which, without the path."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One entry of a header. `begin` and `end` count from the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def size_bytes(self) -> int:
        """Bytes of its data."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class Header:
    """All tensors of one file by name, and the byte at which their data begins."""

    tensors: Mapping[str, Tensor]
    data_begin: int


def read_header(path: Path) -> Header:
    """The header of `path`; raises BadFileError when header and file size do not agree, OSError if unreadable."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = header_length(file.read(PREFIX_BYTES), size)
        return parse_header(file.read(length), size)


def tensor_names(path: Path) -> frozenset[str]:
    """Names of the tensors in `path`; raises as `read_header` does."""
    return frozenset(read_header(path).tensors)


def largest_tensor(files: Iterable[Path]) -> int:
    """Bytes of the largest tensor in safetensors files; 0 where no header can be read."""
    sizes = [0]
    for path in files:
        if path.suffix == ".safetensors":
            try:
                sizes += [tensor.size_bytes for tensor in read_header(path).tensors.values()]
            except (BadFileError, OSError):
                continue
    return max(sizes)


def header_length(prefix: bytes, size: int) -> int:
    """N from the first 8 bytes of a file of `size` bytes. Raises BadFileError."""
    if len(prefix) < PREFIX_BYTES:
        raise BadFileError(f"has {size} bytes, too few for a safetensors header")
    (length,) = struct.unpack("<Q", prefix)
    if length > MAX_HEADER_BYTES or PREFIX_BYTES + length > size:
        raise BadFileError(f"has {size} bytes, but its header alone would take {PREFIX_BYTES + length}")
    return int(length)


def parse_header(text: bytes, size: int) -> Header:
    """Parse the N bytes of JSON of a file of `size` bytes and hold them against it. Raises BadFileError."""
    entries = _object(text)
    entries.pop("__metadata__", None)
    tensors = {name: _tensor(name, entry) for name, entry in entries.items()}
    begin = PREFIX_BYTES + len(text)
    expected = begin + max((tensor.end for tensor in tensors.values()), default=0)
    if expected != size:
        raise BadFileError(f"has {size} bytes, its header says {expected}")
    _no_gap(tensors)
    return Header(tensors, begin)


def _object(text: bytes) -> dict[str, object]:
    try:
        header = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise BadFileError(f"has an unreadable safetensors header ({error})") from error
    if not isinstance(header, dict):
        raise BadFileError("has a safetensors header that is not an object")
    return header


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Which of two entries of one name a reader takes, nobody says."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands in it twice")
    return found


def _tensor(name: str, entry: object) -> Tensor:
    fields = entry if isinstance(entry, dict) else {}
    offsets = _counts(fields.get("data_offsets"))
    if offsets is None or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise BadFileError(f"has no data_offsets for tensor {name}")
    shape, dtype = _counts(fields.get("shape")), fields.get("dtype")
    if shape is None or not isinstance(dtype, str):
        raise BadFileError(f"has no shape or dtype for tensor {name}")
    tensor = Tensor(dtype, shape, *offsets)
    if dtype in BITS and math.prod(shape) * BITS[dtype] != 8 * tensor.size_bytes:
        raise BadFileError(f"gives tensor {name} {tensor.size_bytes} bytes, too few or many for {dtype} {list(shape)}")
    return tensor


def _counts(value: object) -> tuple[int, ...] | None:
    """A list of whole numbers from 0 on; None where it is anything else (JSON's `true` is a Python int, too)."""
    if not isinstance(value, list) or not all(type(item) is int and item >= 0 for item in value):
        return None
    return tuple(value)


def _no_gap(tensors: Mapping[str, Tensor]) -> None:
    end = 0
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)):
        if tensor.begin != end:
            raise BadFileError(f"has a header in which tensor {name} begins at {tensor.begin} instead of {end}")
        end = tensor.end
