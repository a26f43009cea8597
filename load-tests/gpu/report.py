"""Results as a table, and as one line for programs."""

import json
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

from rich.console import Console
from rich.table import Table

from gpu.plan import Step
from gpu.results import Result

OWN = "sizes-vllm"


def table(steps: Sequence[Step], results: Sequence[Result]) -> str:
    """Every step, what it showed or why it did not."""
    console = Console(width=150, record=True, file=StringIO())
    shown = Table(
        "step", "start, s", "init, s", "compile, s", "capture, s", "graphs", "GiB", "tokens/s by batch", "else"
    )
    found = {result.step: result for result in results}
    for step in steps:
        if step.name not in found:
            shown.add_row(step.name, *[""] * 7, "not measured")
            continue
        figures = found[step.name].figures
        cells = (
            _cell(figures.get(name)) for name in ("start_s", "init_s", "compile_s", "capture_s", "graphs", "graph_gib")
        )
        rates = "  ".join(f"{batch}: {rate:.0f}" for batch, rate in figures.get("rates", {}).items())
        shown.add_row(step.name, *cells, rates, found[step.name].error or _else(figures))
    console.print(shown)
    return console.export_text().rstrip()


def last_line(results: Sequence[Result]) -> str:
    """Ours beside vLLM's own, what the bundle came to, and what each level is beside vLLM's own."""
    found: Mapping[str, Mapping[str, Any]] = {r.step: r.figures for r in results if r.error is None}
    own = found.get(OWN, {})
    beside = {name: _beside(figures, own) for name, figures in found.items() if "start_s" in figures and name != OWN}
    shared = found.get("bundle-and-fork", {})
    names = ("verdict", "fork_verdict", "forked", "spawned_because", "identical")
    told = {name: shared[name] for name in names if name in shared}
    failed = sorted(r.step for r in results if r.error is not None)
    return json.dumps({"bench": "gpu", "beside_own": beside, **told, "failed": failed})


def _beside(figures: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, float]:
    told = {}
    for name in ("start_s", "init_s", "capture_s", "graphs", "graph_gib"):
        if figures.get(name) is not None and own.get(name):
            told[name] = round(figures[name] / own[name], 3)
    for batch, rate in figures.get("rates", {}).items():
        if own.get("rates", {}).get(batch):
            told[f"rate_{batch}"] = round(rate / own["rates"][batch], 3)
    return told


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


def _else(figures: Mapping[str, Any]) -> str:
    known = ("start_s", "init_s", "compile_s", "capture_s", "graphs", "graph_gib", "rates")
    return ", ".join(f"{name} {value}" for name, value in figures.items() if name not in known and value is not None)
