"""Recorded starts as a tracker sees them."""

import json
from datetime import datetime
from pathlib import Path

from runtime.contract import Mark, Stage
from runtime.engine.lines import read_line
from runtime.engine.marker import parse
from runtime.engine.platforms import Platform, Span
from runtime.engine.stages import StageTracker

STARTS = Path(__file__).parents[3] / "data" / "starts"


def replay(name: str, platform: Platform) -> StageTracker:
    """A tracker that took the log of one recording."""
    tracker = StageTracker(platform)
    for line in (STARTS / f"{name}.log").read_text().splitlines():
        stamp, _, text = line.partition(" ")
        marker = parse(text)
        if marker is None:
            tracker.line(read_line(datetime.fromisoformat(stamp), text))
        else:
            tracker.marker(marker)
    return tracker


def spans_of(name: str) -> tuple[Span, ...]:
    """vLLM's own spans of one recording, in the order of their export."""
    rows = map(json.loads, (STARTS / f"{name}.spans.jsonl").read_text().splitlines())
    return tuple(
        Span(row["name"], datetime.fromisoformat(row["begin"]), datetime.fromisoformat(row["end"]), row["pid"])
        for row in rows
    )


def add_host(name: str, tracker: StageTracker) -> None:
    """What the host timed of one recording: its own stages and marks."""
    host = json.loads((STARTS / f"{name}.host.json").read_text())
    for mark, at in host["marks"].items():
        tracker.reach(Mark(mark), datetime.fromisoformat(at))
    for row in host["stages"]:
        begun = datetime.fromisoformat(row["begun_at"])
        tracker.begin(Stage(row["stage"]), begun)
        tracker.end(
            Stage(row["stage"]), datetime.fromtimestamp(begun.timestamp() + row["elapsed_ms"] / 1000, begun.tzinfo)
        )
