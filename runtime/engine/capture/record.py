"""One service's steps and sizes between its starts: a small file in the host's directory, of use and never needed."""

import contextlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runtime.engine.capture.sizes import CEILING

NAME = "shapes.json"
HALF_LIFE_S = 7 * 86400.0
"""After which a step counts half: a week, so that weekdays and weekends are both in what is chosen from."""
FORGOTTEN = 0.01
"""Steps below which an edge is no longer kept."""
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_VERSION = 1
_MOST_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Record:
    """`steps` as they counted at `at`. `sizes`: chosen for engines of `max_num_seqs`; None: vLLM's own."""

    steps: Mapping[int, float] = field(default_factory=dict)
    at: datetime = LONG_AGO
    max_num_seqs: int | None = None
    sizes: tuple[int, ...] | None = None

    def with_steps(self, new: Mapping[int, float], now: datetime) -> "Record":
        """`new` steps added to those of before, which count less the longer they are ago. A clock set back: as now."""
        share = 0.5 ** (max((now - self.at).total_seconds(), 0.0) / HALF_LIFE_S)
        faded = {tokens: count * share for tokens, count in self.steps.items()}
        added = {tokens: faded.get(tokens, 0.0) + new.get(tokens, 0.0) for tokens in {*faded, *new}}
        kept = {tokens: count for tokens, count in sorted(added.items()) if count >= FORGOTTEN}
        return Record(kept, now, self.max_num_seqs, self.sizes)


def read(path: Path) -> Record:
    """What the file says; an empty record where it is missing, damaged or of another version."""
    try:
        with path.open("rb") as file:
            return _parsed(json.loads(file.read(_MOST_BYTES)))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return Record()


def write(path: Path, record: Record) -> None:
    """Whole or not at all. Raises nothing: a full disk costs what was learned, and no start."""
    data = {
        "version": _VERSION,
        "at": record.at.isoformat(),
        "steps": {str(tokens): round(count, 3) for tokens, count in record.steps.items()},
        "max_num_seqs": record.max_num_seqs,
        "sizes": None if record.sizes is None else list(record.sizes),
    }
    draft = path.with_suffix(".draft")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(data), encoding="utf-8")
        draft.replace(path)


def _parsed(data: Any) -> Record:
    """Raises ValueError and what wrong types raise."""
    if data["version"] != _VERSION:
        raise ValueError("of another version")
    at = datetime.fromisoformat(data["at"])
    steps = {int(tokens): float(count) for tokens, count in data["steps"].items()}
    if at.tzinfo is None or not all(t >= 1 and math.isfinite(c) and c >= 0 for t, c in steps.items()):
        raise ValueError("no record of steps")
    return Record(steps, at, _limit(data["max_num_seqs"]), _sizes(data["sizes"]))


def _limit(value: Any) -> int | None:
    if value is not None and (type(value) is not int or value < 1):
        raise ValueError("no limit of sequences")
    return value


def _sizes(value: Any) -> tuple[int, ...] | None:
    """What goes onto a command line is proven to be sizes: ascending numbers from 1 on."""
    if value is None:
        return None
    sizes = tuple(value)
    sound = all(type(size) is int and 1 <= size <= CEILING for size in sizes) and sizes[:1] == (1,)
    if not sound or list(sizes) != sorted(set(sizes)):
        raise ValueError("no capture sizes")
    return sizes
