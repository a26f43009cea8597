"""One load in this process, by vLLM's own loader, every byte copied to where an engine would hold it.

A mapped file is not read until somebody looks, so a loader that only maps seems to take no time: the copy looks at each
byte. Several ranks read as tensor-parallel workers do: each copies its slice of every tensor, or its own file where
the model was prepared for that.
"""

import os
import resource
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil

from runtime.weights.bench.model import Load, Loaded


def run(load: Load, rank: int) -> Loaded:
    """Do it; what goes wrong comes back as `error`."""
    os.environ.update(load.env)
    faults, held = resource.getrusage(resource.RUSAGE_SELF).ru_majflt, psutil.Process().memory_info().rss
    begun = time.perf_counter()
    try:
        count, size = _copy(_tensors(load, rank), load, rank)
    except Exception as error:  # any loader may fail in any way; the bench goes on with the next
        return Loaded(error=f"{type(error).__name__}: {error}"[:400] or type(error).__name__)
    seconds = time.perf_counter() - begun
    return Loaded(
        seconds=seconds,
        bytes=size,
        tensors=count,
        major_faults=resource.getrusage(resource.RUSAGE_SELF).ru_majflt - faults,
        peak_bytes=max(0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - held),
    )


def _tensors(load: Load, rank: int) -> Any:
    """What vLLM's loader of this format hands out, each tensor when its turn comes."""
    from vllm.config.load import LoadConfig  # noqa: PLC0415  (seconds of imports, in the bench's processes only)
    from vllm.model_executor.model_loader import get_model_loader  # noqa: PLC0415

    loader: Any = get_model_loader(LoadConfig(load_format=load.load_format, use_tqdm_on_load=False, **load.fields))
    if load.load_format in {"sharded_state", "runai_streamer_sharded"}:
        # The loader itself wants a process group to learn its rank from.
        return _own_shards(loader, load.model, rank)
    if load.load_format == "tensorizer":
        return loader._get_weights_iterator()
    config = SimpleNamespace(model=load.model, revision=None, model_weights=None)
    return loader.get_all_weights(config, SimpleNamespace())


def _own_shards(loader: Any, model: str, rank: int) -> Any:
    paths = sorted(str(path) for path in Path(model).glob(f"model-rank-{rank}-part-*.safetensors"))
    if not paths:
        raise FileNotFoundError(f"{model} has no model-rank-{rank}-part-*.safetensors: it is prepared for fewer ranks")
    return loader.iterate_over_files(paths)


def _copy(tensors: Iterable[tuple[str, Any]], load: Load, rank: int) -> tuple[int, int]:
    """(tensors, bytes) copied. The copies are kept: a model keeps them, and memory is what many loads fail for."""
    import torch  # noqa: PLC0415  (as above)

    kept, size = [], 0
    sliced = load.load_format not in {"sharded_state", "runai_streamer_sharded"}
    for _, tensor in tensors:
        source = _slice(tensor, load.ranks, rank) if sliced else tensor
        target = torch.empty(source.shape, dtype=source.dtype, device=load.device)
        target.copy_(source)
        size += target.nbytes
        kept.append(target)
    if load.device != "cpu":
        torch.cuda.synchronize()
    return len(kept), size


def _slice(tensor: Any, ranks: int, rank: int) -> Any:
    """A worker's part of a matrix: its rows. Vectors are held whole by each."""
    if ranks == 1 or tensor.dim() < 2 or tensor.shape[0] < ranks:
        return tensor
    rows = tensor.shape[0] // ranks
    return tensor.narrow(0, rank * rows, rows)


def together(results: Iterator[Loaded]) -> Loaded:
    """Several ranks as one: the engine waits for the slowest."""
    each = list(results)
    failed = [one.error for one in each if one.error is not None]
    return Loaded(
        seconds=max(one.seconds for one in each),
        bytes=sum(one.bytes for one in each),
        tensors=sum(one.tensors for one in each),
        major_faults=sum(one.major_faults for one in each),
        peak_bytes=sum(one.peak_bytes for one in each),
        error=failed[0] if failed else None,
    )
