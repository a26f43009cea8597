"""T2 → T3: whether the model directory is whole and as it was given, and its content digest.

Proven before an engine is started, which would find a missing shard only after half a minute of imports: config,
tokenizer, index, every shard that it names, each header against its file's size, each file against the digests that
came with it, no pickle that is not allowed by name, no link out of the directory. A URL is streamed by the engine
itself; `runtime/weights/remote.py` looks at it.
"""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from runtime.aside import aside
from runtime.contract import FailureCause
from runtime.ready.fault import Fault
from runtime.weights import safetensors
from runtime.weights.digest import DigestCache, Hashed, hash_directory
from runtime.weights.given import LIST_NAME, BadListError, Given, GivenDigests, given_digests, is_list
from runtime.weights.needs import Needs
from runtime.weights.remote import check_remote
from runtime.weights.weight_files import WeightFiles, absent_numbers, allowed, natural, unfinished, weight_files

__all__ = ["ModelFacts", "Needs", "check_model", "is_url", "prove_model"]

TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "tekken.json", "*.tiktoken")
COPY_AGAIN = "copy the model directory again, whole"
_NO_ENV: Mapping[str, str] = MappingProxyType({})
_POINTER_BYTES = 1024
"""A Git LFS pointer is about 130 bytes."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """`digest` is sha256 over names and contents, for a URL its stamp; `weight_bytes` the size of all weight files.

    `weights`: those files in the order in which an engine reads them. `read_bytes`: how much was read for the digest;
    that much is in the page cache now, as far as it fits. `compared`: files held against a digest that was given.
    `largest_tensor_bytes`: None where nobody looked.
    """

    digest: str | None
    weight_bytes: int | None
    weights: tuple[Path, ...] = ()
    read_bytes: int = 0
    compared: int = 0
    largest_tensor_bytes: int | None = None


def is_url(model: str) -> bool:
    """Whether vLLM streams the model itself (`s3://…`, `gs://…`, `https://…`)."""
    return "://" in model


async def prove_model(model: str, needs: Needs, digests: Path, env: Mapping[str, str] = _NO_ENV) -> ModelFacts:
    """Check and hash `model` in a thread; cancelling stops the thread within one read of 4 MiB.

    Nobody waits for that thread: a file system that does not answer holds it for ever, and no other start.

    `digests` is the JSON file that remembers digests by size, mtime and inode. A model in a bucket is looked at with
    `env`, the engine's own environment. Raises Fault (MODEL_MISSING, MODEL_INCOMPLETE).
    """
    if is_url(model):
        found = await check_remote(model, needs, env)
        return ModelFacts(found.stamp, found.weight_bytes, largest_tensor_bytes=found.largest_tensor_bytes)
    stop = threading.Event()
    try:
        return await aside(check_model, Path(model), needs, digests, stop)
    finally:
        stop.set()


def check_model(directory: Path, needs: Needs, digests: Path, stop: threading.Event) -> ModelFacts:
    """What `prove_model` runs in its thread. Raises Fault; raises InterruptedError once `stop` is set."""
    if not directory.is_dir():
        raise Fault(
            FailureCause.MODEL_MISSING,
            f"model directory {directory} does not exist on this host: copy the model there or correct the path",
            {"model": str(directory)},
            permanent=True,
        )
    try:
        weights = check_shape(directory, needs)
        given = _given(directory, needs)
        hashed = hash_directory(directory, DigestCache(digests), stop)
    except OSError as error:
        if isinstance(error, InterruptedError):
            raise
        raise _incomplete(Path(error.filename or directory), f"cannot be read ({error.strerror})") from error
    compared = compare(directory, given, hashed.files, weights)
    return _facts(weights, hashed, compared)


def check_shape(directory: Path, needs: Needs) -> tuple[Path, ...]:
    """Everything that needs no byte of a tensor; returns the weight files. Raises Fault, OSError."""
    if left := unfinished(directory):
        raise _incomplete(left, "tells of a download that is not over", "let it finish, or remove that file")
    _check_config(directory)
    if needs.tokenizer:
        _check_tokenizer(directory)
    weights = _check_weights(directory, needs) if needs.weights else ()
    _check_links(directory)
    return weights


def compare(directory: Path, given: GivenDigests, hashed: Mapping[str, str], weights: tuple[Path, ...] = ()) -> int:
    """Hold `hashed` (hex sha256 by name) against what was given; returns how many files were compared.

    Raises Fault that names the first file that differs, is missing, or is a weight that our own list does not know.
    """
    for name, each in sorted(given.files.items()):
        for entry in each:
            _compare_one(directory / name, entry, hashed.get(name))
    strangers = [path for path in weights if path.relative_to(directory).as_posix() not in given.files]
    if given.ours and strangers:
        raise _incomplete(strangers[0], f"is not in {LIST_NAME}", "remove it, or prepare the model again")
    return len(given.files)


def _compare_one(path: Path, given: Given, actual: str | None) -> None:
    if not path.is_file():
        raise _incomplete(path, f"is missing ({given.source} names it)")
    size = path.stat().st_size
    if given.size_bytes is not None and size != given.size_bytes:
        raise _incomplete(path, f"has {size} bytes, {given.source} says {given.size_bytes}")
    if actual is not None and actual != given.sha256:
        raise _incomplete(path, f"has sha256 {actual[:12]}…, {given.source} says {given.sha256[:12]}…")


def _facts(weights: tuple[Path, ...], hashed: Hashed, compared: int) -> ModelFacts:
    size = sum(path.stat().st_size for path in weights)
    return ModelFacts(hashed.digest, size, weights, hashed.read_bytes, compared)


def _given(directory: Path, needs: Needs) -> GivenDigests:
    try:
        given = given_digests(directory)
    except BadListError as error:
        raise _incomplete(error.path, str(error), "write the list again, or remove it") from error
    if needs.list_required and not given.ours:
        raise _incomplete(
            directory / LIST_NAME,
            "is missing: it is written last, so the copy is not complete, or the model was never prepared",
            "copy the model again, whole, or run `pilotlight weights prepare`",
        )
    return given


def _check_config(directory: Path) -> None:
    path = directory / "config.json"
    if not path.is_file():
        if (directory / "params.json").is_file():  # Mistral's own format has no config.json
            path = directory / "params.json"
        else:
            raise _incomplete(path, _missing(path))
    _read_object(path)


def _check_tokenizer(directory: Path) -> None:
    found = [path for pattern in TOKENIZERS for path in directory.glob(pattern) if path.is_file()]
    if not found:
        raise _incomplete(directory / "tokenizer.json", "is missing and no other tokenizer is there")
    for path in found:
        if path.suffix == ".json":
            _read_object(path)


def _check_weights(directory: Path, needs: Needs) -> tuple[Path, ...]:
    found = weight_files(directory, needs.load_format)
    _refuse_pickle(found, needs)
    if found.index is not None:
        return _check_shards(directory, found.index)
    absent = absent_numbers(found.files)
    if absent:
        raise _incomplete(directory / absent[0], "is missing (the other shards' names count it)")
    for path in found.files:
        if path.suffix == ".safetensors":
            _tensors(path)
        else:
            _refuse_pointer(path)
    if not found.files:
        raise _incomplete(directory / "model.safetensors", "is missing and no other weights are there")
    return found.files


def _refuse_pickle(found: WeightFiles, needs: Needs) -> None:
    refused = [path for path in found.pickled if not allowed(path, needs.pickle)]
    if refused:
        raise Fault(
            FailureCause.MODEL_INCOMPLETE,
            f"{refused[0]} is pickled: reading it can run code. Convert the model once "
            f"(`pilotlight weights prepare {refused[0].parent} OUT`), or allow the file by its name",
            {"file": str(refused[0])},
            permanent=True,
        )


def _check_shards(directory: Path, index: Path) -> tuple[Path, ...]:
    weight_map = _read_object(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise _incomplete(index, "has no weight_map")
    wanted: dict[str, set[str]] = {}
    for tensor, name in weight_map.items():
        if not isinstance(name, str) or Path(name).name != name or name in {"", ".", ".."}:
            raise _incomplete(index, f"names {name!r} for tensor {tensor}, which is no file of this directory")
        wanted.setdefault(name, set()).add(tensor)
    for name, tensors in sorted(wanted.items()):
        shard = directory / name
        if not shard.is_file():
            raise _incomplete(shard, f"{_missing(shard)} ({index.name} names it)")
        absent = sorted(tensors - _tensors(shard))
        if absent:
            raise _incomplete(shard, f"lacks tensor {absent[0]} ({index.name} names it)")
    return tuple(sorted((directory / name for name in wanted), key=natural))


def _check_links(directory: Path) -> None:
    """A link may lead anywhere inside the directory, or to a blob of a hub's cache, whose name tells its content.

    Downloads into a directory of one's own were such links, too, in earlier versions of the hub's client.
    """
    root = directory.resolve()
    for path in directory.iterdir():
        if not path.is_symlink() or path.name.startswith(".") or is_list(path.name):
            continue
        target = path.resolve()
        blob = target.parent.name == "blobs" and target.parent.parent.name.startswith("models--")
        if not blob and not target.is_relative_to(root):
            raise _incomplete(path, f"is a link to {target}, outside the model directory", "put the file in its place")


def _missing(path: Path) -> str:
    return f"is a link to {path.readlink()}, which is missing" if path.is_symlink() else "is missing"


def _tensors(path: Path) -> frozenset[str]:
    _refuse_pointer(path)
    try:
        return safetensors.tensor_names(path)
    except safetensors.BadFileError as error:
        raise _incomplete(path, str(error)) from error


def _refuse_pointer(path: Path) -> None:
    if not path.is_file():
        raise _incomplete(path, "is no file")  # a pipe, of which an open never returns
    if path.stat().st_size > _POINTER_BYTES:
        return
    text = path.read_bytes()
    if text.startswith(b"version ") and b"\noid sha256:" in text:
        raise _incomplete(path, "is a Git LFS pointer, not the weights", "run `git lfs pull` in the model directory")


def _read_object(path: Path) -> dict[str, object]:
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise _incomplete(path, f"is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise _incomplete(path, "is not a JSON object")
    return value


def _incomplete(path: Path, what: str, fix: str = COPY_AGAIN) -> Fault:
    return Fault(FailureCause.MODEL_INCOMPLETE, f"{path} {what}: {fix}", {"file": str(path)}, permanent=True)
