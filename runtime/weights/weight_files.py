"""Which files of a model directory hold the weights that vLLM would load, and whether loading them runs pickle.

The order is vLLM's own (model_loader/default_loader.py, `_prepare_weights`): Mistral's consolidated file first, then
safetensors, then pickle; a load format named by argument narrows it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePath

INDEX = "model.safetensors.index.json"
CONSOLIDATED_INDEX = "consolidated.safetensors.index.json"
PICKLE_SUFFIXES = frozenset({".bin", ".pt", ".pth", ".ckpt", ".pkl"})
"""Files that `torch.load` reads; what is in them may run code as it is read."""

_ANY = ("consolidated*.safetensors", "*.safetensors", "*.bin", "*.pt", "*.gguf")
_PATTERNS: dict[str, tuple[str, ...]] = {
    "dummy": (),
    "hf": ("*.safetensors", "*.bin", "*.pt"),
    "safetensors": ("*.safetensors",),
    "fastsafetensors": ("*.safetensors",),
    "instanttensor": ("*.safetensors",),
    "runai_streamer": ("*.safetensors",),
    "mistral": ("consolidated*.safetensors",),
    "pt": ("*.pt",),
    "npcache": ("*.bin",),
    "sharded_state": ("*-part-*.safetensors",),
    "runai_streamer_sharded": ("*-part-*.safetensors",),
    "tensorizer": ("*.tensors",),
    "gguf": ("*.gguf",),
}
# Files that training leaves beside pickled weights; vLLM passes over them
# (weight_utils.py, filter_files_not_needed_for_inference).
_NO_WEIGHTS = ("training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "scaler.pt")
_NUMBERED = re.compile(r"(.+)-(\d{5})-of-(\d{5})(\.[a-z]+)")
_UNFINISHED = (".aria2", ".incomplete", ".part", ".partial", ".crdownload", ".download")


@dataclass(frozen=True, slots=True)
class WeightFiles:
    """The files in the order in which they are loaded. `index`: the index that names them, where there is one."""

    files: tuple[Path, ...]
    index: Path | None = None

    @property
    def pickled(self) -> tuple[Path, ...]:
        """Those that are read by unpickling."""
        return tuple(path for path in self.files if path.suffix in PICKLE_SUFFIXES)


def weight_files(directory: Path, load_format: str) -> WeightFiles:
    """What vLLM would load of `directory` with `--load-format`; no file where there is none."""
    for pattern in _PATTERNS.get(load_format, _ANY):
        files = [path for path in directory.glob(pattern) if not path.name.endswith(_NO_WEIGHTS)]
        if files:
            index = _index_of(directory, pattern)
            return WeightFiles(tuple(sorted(files, key=natural)), index)
    index = directory / INDEX
    return WeightFiles((), index if load_format != "dummy" and index.is_file() else None)


def natural(path: Path) -> list[int | str]:
    """Sort key that puts shard 10 after shard 9."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.name)]


def allowed(path: Path, patterns: Iterable[str]) -> bool:
    """Whether the name of `path` matches one of the patterns (`pytorch_model*.bin`)."""
    return any(fnmatch(path.name, pattern) for pattern in patterns)


def absent_numbers(files: Iterable[PurePath]) -> tuple[str, ...]:
    """Names that are missing from `model-00001-of-00004.safetensors` and its like."""
    names = {path.name for path in files}
    missing: set[str] = set()
    for found in filter(None, map(_NUMBERED.fullmatch, names)):
        stem, _, last, suffix = found.groups()
        missing |= {f"{stem}-{n:05d}-of-{last}{suffix}" for n in range(1, int(last) + 1)} - names
    return tuple(sorted(missing))


def unfinished(directory: Path) -> Path | None:
    """A file that tells that a download into `directory` is not over, or None."""
    return min((path for path in directory.iterdir() if path.name.endswith(_UNFINISHED)), default=None)


def _index_of(directory: Path, pattern: str) -> Path | None:
    name = {"*.safetensors": INDEX, "consolidated*.safetensors": CONSOLIDATED_INDEX}.get(pattern)
    path = directory / name if name else None
    return path if path is not None and path.is_file() else None
