"""T2 → T3: whether the model directory is whole, and its content digest.

Proves presence and shape (config, tokenizer, every shard that the index names, header against file size) before an
engine is started, because an engine finds a missing shard only after half a minute of imports. A URL is streamed by
the engine itself and is not looked at.
"""

import asyncio
import json
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from runtime.contract import FailureCause
from runtime.ready.fault import Fault
from runtime.weights import safetensors
from runtime.weights.digest import DigestCache, directory_digest

INDEX = "model.safetensors.index.json"
OTHER_WEIGHTS = ("*.bin", "*.pt", "*.pth", "*.gguf", "*.npz")
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "tekken.json", "*.tiktoken")
COPY_AGAIN = "copy the model directory again, whole"


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """`digest` is sha256 over names and contents (None for a URL); `weight_bytes` the size of all weight files."""

    digest: str | None
    weight_bytes: int | None


@dataclass(frozen=True, slots=True)
class Needs:
    """What the engine will read from the directory; dummy weights and a foreign tokenizer need less."""

    weights: bool = True
    tokenizer: bool = True

    @classmethod
    def of(cls, args: Iterable[str]) -> "Needs":
        """Read the needs from vLLM arguments (`--load-format dummy`, `--tokenizer X`, `--skip-tokenizer-init`)."""
        words = [word for arg in args for word in arg.split("=", 1)]
        flags = {word.replace("_", "-") for word in words if word.startswith("--")}
        return cls(
            weights="dummy" not in words,
            tokenizer=not flags & {"--tokenizer", "--skip-tokenizer-init"},
        )


def is_url(model: str) -> bool:
    """Whether vLLM streams the model itself (`s3://…`, `gs://…`, `https://…`)."""
    return "://" in model


async def prove_model(model: str, needs: Needs, digests: Path) -> ModelFacts:
    """Check and hash `model` in a thread; cancelling stops the thread within one read of 4 MiB.

    `digests` is the JSON file that remembers digests by size, mtime and inode. Raises Fault (MODEL_MISSING,
    MODEL_INCOMPLETE).
    """
    if is_url(model):
        return ModelFacts(digest=None, weight_bytes=None)
    stop = threading.Event()
    try:
        return await asyncio.to_thread(check_model, Path(model), needs, digests, stop)
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
        _check_config(directory)
        if needs.tokenizer:
            _check_tokenizer(directory)
        weights = _check_weights(directory) if needs.weights else ()
        digest = directory_digest(directory, DigestCache(digests), stop)
    except OSError as error:
        if isinstance(error, InterruptedError):
            raise
        raise _incomplete(Path(error.filename or directory), f"cannot be read ({error.strerror})") from error
    return ModelFacts(digest=digest, weight_bytes=sum(path.stat().st_size for path in weights))


def _check_config(directory: Path) -> None:
    path = directory / "config.json"
    if not path.is_file():
        raise _incomplete(path, "is missing")
    _read_object(path)


def _check_tokenizer(directory: Path) -> None:
    if not any(found for pattern in TOKENIZERS for found in directory.glob(pattern)):
        raise _incomplete(directory / "tokenizer.json", "is missing and no other tokenizer is there")


def _check_weights(directory: Path) -> tuple[Path, ...]:
    index = directory / INDEX
    if index.is_file():
        return _check_shards(directory, index)
    files = tuple(sorted(directory.glob("*.safetensors")))
    for path in files:
        _tensors(path)
    others = files or tuple(sorted(path for pattern in OTHER_WEIGHTS for path in directory.glob(pattern)))
    if not others:
        raise _incomplete(directory / "model.safetensors", "is missing and no other weights are there")
    return others


def _check_shards(directory: Path, index: Path) -> tuple[Path, ...]:
    weight_map = _read_object(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise _incomplete(index, "has no weight_map")
    shards = tuple(directory / name for name in sorted(set(weight_map.values())))
    for shard in shards:
        if not shard.is_file():
            raise _incomplete(shard, f"is missing ({INDEX} names it)")
        wanted = {tensor for tensor, name in weight_map.items() if directory / name == shard}
        absent = sorted(wanted - _tensors(shard))
        if absent:
            raise _incomplete(shard, f"lacks tensor {absent[0]} ({INDEX} names it)")
    return shards


def _tensors(path: Path) -> frozenset[str]:
    try:
        return safetensors.tensor_names(path)
    except safetensors.BadFileError as error:
        raise _incomplete(path, str(error)) from error


def _read_object(path: Path) -> dict[str, object]:
    try:
        value = json.loads(path.read_bytes())
    except ValueError as error:
        raise _incomplete(path, f"is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise _incomplete(path, "is not a JSON object")
    return value


def _incomplete(path: Path, what: str) -> Fault:
    return Fault(FailureCause.MODEL_INCOMPLETE, f"{path} {what}: {COPY_AGAIN}", {"file": str(path)}, permanent=True)
