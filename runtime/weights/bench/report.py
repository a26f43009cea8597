"""The bench's result: a table for people, one JSON object for programs."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from runtime.weights.bench.run import Bench, Outcome, Row
from runtime.weights.finding import gib
from runtime.weights.memory import Memory
from runtime.weights.place import Place


def facts(bench: Bench, outcome: Outcome, place: Place | None, memory: Memory) -> Iterator[str]:
    """What the numbers are about, a line each."""
    bound = outcome.bound
    files = f" in {len(bench.files)} files" if bench.files else ""
    yield f"model    {bench.model}" + (f", {gib(bound.bytes)}{files}" if bound else "")
    if place is not None:
        yield f"place    {place}"
    limit = "" if memory.limit_bytes is None else f", cgroup limit {gib(memory.limit_bytes)}"
    yield f"memory   {gib(memory.free_bytes or 0)} free{limit}"
    state = "not in the way (a bucket)" if bench.here.url else "dropped before each load" if bench.cold else "warm"
    yield f"cache    page cache {state}; ranks at once: {bench.ranks}"
    if bench.cold and outcome.left_bytes:
        yield f"         {gib(outcome.left_bytes)} stayed in it: another process has the files mapped"
    if bound is not None:
        how = (
            "from the bucket"
            if bench.here.url
            else "past the page cache"
            if bound.direct
            else "by way of the page cache"
        )
        speed = f"{gib(bound.bytes_per_s)}/s {how}, {bound.readers} readers"
        yield f"bound    {bound.seconds:.2f} s: the same bytes at the path's measured {speed}"


def table(outcome: Outcome) -> Table:
    """One line for each loader, fastest first."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    made.add_column("loader")
    for heading in ("median s", "range s", "GiB/s", "× bound", "major faults", "peak"):
        made.add_column(heading, justify="right")
    for row in outcome.rows():
        if row.why_not is not None:
            made.add_row(row.name, "not run", row.why_not, style="dim")
        elif row.median_s is None:
            made.add_row(row.name, "failed", row.error)
        else:
            made.add_row(row.name, *_numbers(row, outcome))
    return made


def _numbers(row: Row, outcome: Outcome) -> Iterator[str]:
    middle = row.median_s or 0.0
    last = row.results[-1]
    yield f"{middle:.2f}"
    yield f"{min(row.seconds):.2f}–{max(row.seconds):.2f}"
    yield f"{last.bytes / middle / 2**30:.2f}"
    yield f"{middle / outcome.bound.seconds:.1f}" if outcome.bound else ""
    yield str(max(each.major_faults for each in row.results))
    yield gib(max(each.peak_bytes for each in row.results))


def show(console: Console, bench: Bench, outcome: Outcome, place: Place | None, memory: Memory) -> None:
    """Print all of it. What was not run and what failed says why on a line of its own."""
    for line in facts(bench, outcome, place, memory):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    console.print()
    ran = Outcome(bound=outcome.bound, results=outcome.results)
    console.print(table(ran))
    for name, why in outcome.refused.items():
        console.print(f"{name}: not run: {why}", highlight=False, markup=False, soft_wrap=True, style="dim")


def as_json(bench: Bench, outcome: Outcome, place: Place | None, memory: Memory) -> dict[str, Any]:
    """The same for programs; sizes in bytes, durations in seconds."""
    bound = outcome.bound
    return {
        "bench": "weights",
        "model": bench.model,
        "cold": bench.cold,
        "ranks": bench.ranks,
        "rounds": bench.rounds,
        "versions": outcome.versions,
        "place": None if place is None else {**asdict(place), "path": str(place.path)},
        "memory": asdict(memory),
        "left_bytes": outcome.left_bytes,
        "bound": None if bound is None else {**asdict(bound), "bytes_per_s": bound.bytes_per_s},
        "loaders": [
            {
                "name": row.name,
                "median_s": row.median_s,
                "error": row.error,
                "why_not": row.why_not,
                "rounds": [asdict(each) for each in row.results],
            }
            for row in outcome.rows()
        ],
    }
