"""Runs the loaders round by round and gathers what they took, beside the bound of the storage.

Round by round and not loader by loader: what disturbs the machine for a minute then disturbs all alike.
"""

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from runtime.weights.bench.bound import Bound
from runtime.weights.bench.model import Load, Loaded
from runtime.weights.bench.process import Stage
from runtime.weights.loaders import LOADERS, Here, Loader, why_not
from runtime.weights.page_cache import drop, resident_bytes
from runtime.weights.plan import tensorizer_options

LOAD_TIMEOUT_S = 1800.0


@dataclass(frozen=True, slots=True)
class Row:
    """One loader. `why_not`: it was not run, and why; else its results, one a round."""

    name: str
    results: tuple[Loaded, ...] = ()
    why_not: str | None = None

    @property
    def seconds(self) -> tuple[float, ...]:
        """Of the rounds that came through."""
        return tuple(each.seconds for each in self.results if each.error is None)

    @property
    def error(self) -> str | None:
        """The first thing that went wrong."""
        return next((each.error for each in self.results if each.error is not None), None)

    @property
    def median_s(self) -> float | None:
        """None: no round came through, or one did not; a loader that fails now and then is no winner."""
        return median(self.seconds) if self.seconds and self.error is None else None


@dataclass(frozen=True, slots=True)
class Bench:
    """What to measure. `names`: loaders by name, all where empty. `cold`: drop the page cache before each load."""

    model: str
    files: tuple[Path, ...]
    here: Here
    rounds: int = 3
    cold: bool = True
    ranks: int = 1
    names: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    timeout_s: float = LOAD_TIMEOUT_S


@dataclass
class Outcome:
    """What came of it, also while it runs. `left_bytes`: the most that stayed cached after a drop."""

    bound: Bound | None = None
    versions: str = ""
    left_bytes: int = 0
    results: dict[str, list[Loaded]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def rows(self) -> list[Row]:
        """Fastest first, then what failed, then what was not run."""
        ran = [Row(name, tuple(each)) for name, each in self.results.items()]
        ran.sort(key=lambda row: (row.median_s is None, row.median_s or 0.0))
        return ran + [Row(name, why_not=why) for name, why in self.refused.items()]


def run(bench: Bench, outcome: Outcome, tell: Callable[[str], None]) -> None:
    """Measure into `outcome`. Raises BenchError, OSError, ValueError (an unknown name); KeyboardInterrupt passes."""
    chosen = _chosen(bench, outcome)
    with tempfile.TemporaryFile() as log, Stage(_environment(bench), log) as stage:
        outcome.versions = stage.versions
        for number in range(bench.rounds):
            for loader in chosen:
                tell(f"round {number + 1} of {bench.rounds}: {loader.name}")
                if bench.cold:
                    outcome.left_bytes = max(outcome.left_bytes, forget(bench.files))
                outcome.results.setdefault(loader.name, []).append(stage.load(_load(bench, loader), bench.timeout_s))


def forget(files: Iterable[Path]) -> int:
    """Drop the files from the page cache; how many bytes stayed there nevertheless."""
    paths = list(files)
    for path in paths:
        drop(path)
    return sum(resident_bytes(path) for path in paths)


def _chosen(bench: Bench, outcome: Outcome) -> Sequence[Loader]:
    unknown = sorted(set(bench.names) - {loader.name for loader in LOADERS})
    if unknown:
        raise ValueError(f"there is no loader {unknown[0]!r}: choose from {', '.join(each.name for each in LOADERS)}")
    chosen = []
    for loader in LOADERS:
        if bench.names and loader.name not in bench.names:
            continue
        reason = why_not(loader, bench.here)
        if reason is None:
            chosen.append(loader)
        else:
            outcome.refused[loader.name] = reason
    return chosen


def _load(bench: Bench, loader: Loader) -> Load:
    fields: dict[str, object] = {}
    for flag in loader.flags:
        name, _, value = flag.removeprefix("--").partition("=")
        fields[name.replace("-", "_")] = value
    streams = loader.load_format == "runai_streamer"
    options = {**loader.options, **(bench.options if streams else {})}
    if loader.layout == "tensorizer":
        options = tensorizer_options(str(bench.files[0]))
    if options:
        fields["model_loader_extra_config"] = options
    device = "cuda" if bench.here.cuda else "cpu"
    return Load(bench.model, loader.load_format, fields, bench.ranks, device)


def _environment(bench: Bench) -> dict[str, str]:
    """Ours and the engine's. No plugin of vLLM has a hand in it, and it says only what is wrong."""
    return {**os.environ, "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_PLUGINS": "", **bench.env}
