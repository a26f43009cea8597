"""Rewrites weights as safetensors of even size, in the order in which a model is built; in a process of its own.

    python -m runtime.weights.prepare.convert   a `Conversion` as JSON on stdin → one JSON line a file on stdout

Pickle is read by torch's restricted reader (`weights_only=True`), which makes tensors and nothing else, and here, not
in the caller: what it is fed comes from elsewhere. Memory: one tensor at a time, whatever the model's size.
"""

import json
import os
import re
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from runtime.engine.leash import leash_to_starter
from runtime.weights.weight_files import INDEX, PICKLE_SUFFIXES

_NAMES = {
    f"torch.{torch_name}": name
    for torch_name, name in (
        *(("float64", "F64"), ("float32", "F32"), ("float16", "F16"), ("bfloat16", "BF16")),
        *(("int64", "I64"), ("int32", "I32"), ("int16", "I16"), ("int8", "I8"), ("uint8", "U8"), ("bool", "BOOL")),
        *(("float8_e4m3fn", "F8_E4M3"), ("float8_e5m2", "F8_E5M2")),
    )
}
_WRAPPERS = ("state_dict", "model_state_dict", "module", "model")


class ConversionError(Exception):
    """The weights cannot be converted; `str()` names the file and says why."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """What to do. `dtype`: of every floating-point tensor then, None: as it is. `shard_bytes`: a file's at most.

    A single tensor that is larger has a file of its own.
    """

    files: tuple[str, ...]
    out: str
    dtype: str | None
    shard_bytes: int


@dataclass(frozen=True, slots=True)
class Item:
    """A tensor to write: where it comes from, what it will be."""

    name: str
    file: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int


def shards(items: list[Item], shard_bytes: int) -> list[list[Item]]:
    """Consecutive parts of about equal bytes, as few as `shard_bytes` allows. Pure."""
    total = sum(item.size_bytes for item in items)
    count = max(1, -(-total // shard_bytes))
    parts: list[list[Item]] = [[]]
    before, size, part = 0, 0, 0
    for item in items:
        # The part that the item's middle falls into, were all parts of one size.
        due = min(count - 1, int((before + item.size_bytes / 2) * count / max(1, total)))
        if parts[-1] and (due > part or size + item.size_bytes > shard_bytes):
            parts.append([])
            size = 0
        part = due
        parts[-1].append(item)
        size += item.size_bytes
        before += item.size_bytes
    return parts


def convert(work: Conversion) -> Iterator[dict[str, object]]:
    """Do it; yields what was written, a file at a time. Raises ConversionError, OSError."""
    with _opened(work.files) as sources:
        items = sorted(_items(work, sources), key=lambda item: _order(item.name))
        parts = shards(items, work.shard_bytes)
        places: dict[str, str] = {}
        for number, part in enumerate(parts, start=1):
            one = len(parts) == 1
            name = "model.safetensors" if one else f"model-{number:05d}-of-{len(parts):05d}.safetensors"
            _write(Path(work.out) / name, part, work.dtype, sources)
            places |= dict.fromkeys((item.name for item in part), name)
            yield {"file": name, "bytes": sum(item.size_bytes for item in part), "number": number, "of": len(parts)}
        if len(parts) > 1:
            total = sum(item.size_bytes for item in items)
            index = {"metadata": {"total_size": total}, "weight_map": places}
            (Path(work.out) / INDEX).write_text(json.dumps(index, indent=1, sort_keys=True) + "\n")


def _order(name: str) -> tuple[int, list[tuple[int, int | str]]]:
    """Embeddings first, then layer by layer with 10 after 9, what follows the layers last."""
    place = 1 if re.search(r"\.\d+\.", name) else 0 if "embed" in name else 2
    return place, [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name)]


@contextmanager
def _opened(files: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    """Each file as something that gives tensors by name (`keys()`, `[name]`)."""
    from contextlib import ExitStack  # noqa: PLC0415  (torch's import takes seconds; this process only)

    with ExitStack() as stack:
        yield {path: _source(path, stack) for path in files}


def _source(path: str, stack: Any) -> Any:
    import torch  # noqa: PLC0415
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415

    if Path(path).suffix not in PICKLE_SUFFIXES:
        try:
            return _Opened(stack.enter_context(safe_open(path, framework="pt")))
        except SafetensorError as error:
            raise ConversionError(f"{path} is no safetensors file: {error}") from error
    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError:  # the format of before torch 1.6 cannot be mapped
        found = _unpickled(path)
    except Exception as error:
        raise _refused(path, error) from error
    return _tensors(path, found)


def _unpickled(path: str) -> Any:
    import torch  # noqa: PLC0415

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise _refused(path, error) from error


def _refused(path: str, error: Exception) -> ConversionError:
    said = str(error)
    if "Unsupported" in said or "not allowed" in said or "Unpickl" in type(error).__name__:
        found = re.search(r"GLOBAL (\S+)|(?:class|function) (\S+)", said)
        what = f" ({found[1] or found[2]})" if found else ""
        return ConversionError(f"{path} holds more than tensors{what}: it is refused, for reading it could run code")
    return ConversionError(
        f"{path} cannot be read: {type(error).__name__}: {said.splitlines()[0][:200] if said else ''}"
    )


def _tensors(path: str, found: Any) -> dict[str, Any]:
    import torch  # noqa: PLC0415

    for name in _WRAPPERS:
        inner = found.get(name) if isinstance(found, dict) else None
        if isinstance(inner, dict):
            found = inner
            break
    if not isinstance(found, dict) or not found:
        raise ConversionError(f"{path} holds a {type(found).__name__}, not tensors by name")
    others = [name for name, value in found.items() if not isinstance(value, torch.Tensor)]
    if others:
        raise ConversionError(f"{path} holds {others[0]!r}, which is no tensor: it is no checkpoint that vLLM serves")
    return {str(name): value for name, value in found.items()}


class _Opened:
    """A safetensors file with the two methods of a dict that are used here."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def keys(self) -> list[str]:
        """The names in it."""
        return list(self._file.keys())

    def __getitem__(self, name: str) -> Any:
        return self._file.get_tensor(name)


def _items(work: Conversion, sources: Mapping[str, Any]) -> Iterator[Item]:
    seen: set[str] = set()
    for path in work.files:
        for name in sources[path].keys():  # noqa: SIM118  (not a dict where it is a safetensors file)
            if name in seen:
                raise ConversionError(f"{path} holds tensor {name}, which another file holds, too")
            seen.add(name)
            tensor = sources[path][name]
            dtype = str(_dtype(tensor, work.dtype))
            if dtype not in _NAMES:
                raise ConversionError(f"{path} holds tensor {name} of {dtype}, which safetensors cannot hold")
            size = tensor.numel() * _dtype(tensor, work.dtype).itemsize
            yield Item(name, path, _NAMES[dtype], tuple(tensor.shape), size)


def _dtype(tensor: Any, wanted: str | None) -> Any:
    """Only what is computed in changes its type; 8-bit floats are quantized values, which a scale belongs to."""
    import torch  # noqa: PLC0415

    computed = tensor.is_floating_point() and tensor.dtype.itemsize > 1
    return getattr(torch, wanted) if wanted is not None and computed else tensor.dtype


def _write(path: Path, part: list[Item], dtype: str | None, sources: Mapping[str, Any]) -> None:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for item in part:
        begin, end = end, end + item.size_bytes
        header[item.name] = {"dtype": item.dtype, "shape": list(item.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for item in part:
            _write_tensor(file, sources[item.file][item.name], dtype)
        file.flush()
        os.fsync(file.fileno())


def _write_tensor(file: IO[bytes], tensor: Any, dtype: str | None) -> None:
    import torch  # noqa: PLC0415

    wanted = _dtype(tensor, dtype)
    ready = tensor.to(wanted).contiguous()
    if wanted != tensor.dtype and not bool(torch.isfinite(ready).all()) and bool(torch.isfinite(tensor).all()):
        raise ConversionError(f"a tensor of {tensor.dtype} has values that {wanted} cannot hold: convert to bfloat16")
    # numpy knows no bfloat16: the bytes are looked at as bytes.
    file.write(ready.reshape(-1).view(torch.uint8).numpy().data)


def main() -> None:
    """The process."""
    leash_to_starter()
    asked = json.load(sys.stdin)
    with os.fdopen(os.dup(1), "w", buffering=1) as answers:
        os.dup2(2, 1)
        try:
            for told in convert(Conversion(**{**asked, "files": tuple(asked["files"])})):
                answers.write(json.dumps(told) + "\n")
        except ConversionError as error:
            answers.write(json.dumps({"error": str(error)}) + "\n")
        except OSError as error:
            said = f"{error.filename or asked['out']} cannot be written ({error.strerror})"
            answers.write(json.dumps({"error": said, "errno": error.errno}) + "\n")


def as_json(work: Conversion) -> str:
    """What the process reads on stdin."""
    return json.dumps(asdict(work))


if __name__ == "__main__":
    main()
