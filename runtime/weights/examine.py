"""What about a model directory costs each start time, or safety, and how to mend it once. Reads headers, no tensor."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from runtime.ready.fault import Fault
from runtime.weights.finding import Code, Finding, gib
from runtime.weights.given import BadListError, given_digests
from runtime.weights.here import layout_of
from runtime.weights.integrity import check_shape
from runtime.weights.needs import Needs
from runtime.weights.safetensors import BadFileError, read_header
from runtime.weights.weight_files import PICKLE_SUFFIXES, weight_files

DTYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64"}
"""The dtypes that a service may be served in, as the file format names them."""

LARGE_SHARD_BYTES = 10 * 2**30
"""One file is one reader for most loaders; the hub's own tools cut at 5 GB."""

UNEVEN = 2.0
"""Largest shard over the mean: ranks and readers that take a file each then wait for one."""


def examine(directory: Path, needs: Needs, served_dtype: str | None = None) -> tuple[Finding, ...]:
    """All findings, errors first. `served_dtype` (`bfloat16` …): what the engine computes in; None: as config says."""
    try:
        weights = check_shape(directory, replace(needs, pickle=("*",)))
    except Fault as fault:
        return (Finding(Code.INCOMPLETE, "error", *_split(str(fault))),)
    except OSError as error:
        return (Finding(Code.INCOMPLETE, "error", f"{error.filename} cannot be read ({error.strerror})", "mend it"),)
    found = [
        *_pickle(directory, needs),
        *_dtype(directory, weights, served_dtype),
        *_shards(directory, weights),
        *_digests(directory),
    ]
    return tuple(sorted(found, key=lambda each: ("error", "warning", "note").index(each.level)))


def stored_dtypes(weights: tuple[Path, ...]) -> Counter[str]:
    """Bytes by dtype over all safetensors files. Raises BadFileError, OSError."""
    found: Counter[str] = Counter()
    for path in weights:
        if path.suffix == ".safetensors":
            for tensor in read_header(path).tensors.values():
                found[tensor.dtype] += tensor.size_bytes
    return found


def config_of(directory: Path) -> dict[str, object]:
    """The config as JSON; empty where there is none to read."""
    try:
        value = json.loads((directory / "config.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def served(directory: Path, asked: str | None) -> str | None:
    """The dtype that an engine serves in: as asked, else as the config says (vLLM's `--dtype auto`).

    That serves what is stored as float32 in bfloat16 on most machines; None: nobody says.
    """
    config = config_of(directory)
    said = asked if asked not in {None, "auto"} else config.get("dtype") or config.get("torch_dtype")
    if said in {"half"}:
        return "float16"
    if asked in {None, "auto"} and said in {"float32", "float"}:
        return "bfloat16"
    return said if isinstance(said, str) and said in DTYPES else None


def _split(text: str) -> tuple[str, str]:
    message, _, fix = text.rpartition(": ")
    return message, fix


def _pickle(directory: Path, needs: Needs) -> Iterator[Finding]:
    found = weight_files(directory, needs.load_format)
    if found.pickled:
        size = sum(path.stat().st_size for path in found.pickled)
        yield Finding(
            Code.PICKLE_ONLY,
            "warning",
            f"{directory} has its weights pickled only ({len(found.pickled)} files, {gib(size)}): reading them can run "
            "code, and no loader but the plain one reads them",
            "convert them once: pilotlight weights prepare",
        )
        return
    beside = [path for path in directory.iterdir() if path.suffix in PICKLE_SUFFIXES and path.is_file()]
    if beside and found.files:
        size = sum(path.stat().st_size for path in beside)
        yield Finding(
            Code.DUPLICATE_WEIGHTS,
            "note",
            f"{directory} holds pickled weights beside safetensors ({len(beside)} files, {gib(size)}), which no start "
            "reads",
            "remove them; each copy and each digest of the directory pays for them",
        )


def _dtype(directory: Path, weights: tuple[Path, ...], asked: str | None) -> Iterator[Finding]:
    wanted = served(directory, asked)
    if wanted is None or "quantization_config" in config_of(directory):
        return
    try:
        stored = stored_dtypes(weights)
    except (BadFileError, OSError):
        return  # check_shape has found the same
    floats = {name: size for name, size in stored.items() if name in DTYPES.values()}
    other = sum(size for name, size in floats.items() if name != DTYPES[wanted])
    if floats and other > sum(floats.values()) / 2:
        most = max(floats, key=lambda name: floats[name])
        yield Finding(
            Code.OTHER_DTYPE,
            "warning",
            f"{directory} is stored in {most} ({gib(other)}) and served in {wanted}: each start reads and converts all "
            "of it",
            f"convert it once: pilotlight weights prepare --dtype {wanted}",
        )


def _shards(directory: Path, weights: tuple[Path, ...]) -> Iterator[Finding]:
    sizes = {path: path.stat().st_size for path in weights}
    if not sizes or layout_of(directory) != "safetensors":
        return
    largest = max(sizes, key=lambda path: sizes[path])
    mean = sum(sizes.values()) / len(sizes)
    if len(sizes) == 1 and sizes[largest] > LARGE_SHARD_BYTES:
        yield Finding(
            Code.ONE_LARGE_SHARD,
            "warning",
            f"{largest} holds all weights in one file of {gib(sizes[largest])}: loaders that read a file each have one "
            "to read",
            "split it once: pilotlight weights prepare",
        )
    elif len(sizes) > 2 and sizes[largest] > UNEVEN * mean:
        yield Finding(
            Code.UNEVEN_SHARDS,
            "note",
            f"{largest} has {gib(sizes[largest])}, the mean of {len(sizes)} files is {gib(mean)}: readers wait for it",
            "even them out once: pilotlight weights prepare",
        )


def _digests(directory: Path) -> Iterator[Finding]:
    try:
        given = given_digests(directory)
    except BadListError as error:
        yield Finding(Code.INCOMPLETE, "error", f"{error.path} {error}", "write the list again, or remove it")
        return
    if not given.files:
        yield Finding(
            Code.NO_DIGESTS,
            "note",
            f"{directory} came without digests: a flipped bit in a file of the right size goes unseen",
            "write them where the files are known to be good: pilotlight weights digest",
        )
