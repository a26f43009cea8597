"""The file of results: one JSON line for each finished step, so that a run that was cut off goes on where it ended."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.engine.capture.sizes import Steps
from start.measured import BenchFailed


@dataclass(frozen=True, slots=True)
class Result:
    """One step that was taken. `error` None: it was measured. `setup`: what it was measured with."""

    step: str
    setup: str
    took_s: float
    figures: Mapping[str, Any]
    error: str | None = None

    @property
    def line(self) -> str:
        """Itself as a line of the file."""
        return json.dumps(
            {
                "step": self.step, "setup": self.setup, "took_s": round(self.took_s, 1), "error": self.error,
                "figures": self.figures,
            }
        )  # fmt: skip


def setup_of(versions: Mapping[str, str], args: Sequence[str], histogram: Steps, model_digest: str) -> str:
    """What must be alike for results to stand beside each other, as a short name."""
    told = [sorted(versions.items()), list(args), sorted(histogram.items()), model_digest]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:12]


def read(path: Path, setup: str) -> tuple[Result, ...]:
    """The results of earlier runs, the last of each step. A last line that was cut off is none.

    Raises BenchFailed where the file is of another setup, or no such file at all.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return ()
    found: dict[str, Result] = {}
    for number, line in enumerate(lines, 1):
        result = _parsed(line)
        if result is None:
            if number == len(lines):
                break
            raise BenchFailed(f"{path}:{number} is no result of this bench: name another file with --out")
        if result.setup != setup:
            raise BenchFailed(
                f"{path}:{number} was measured with another GPU, version, model, histogram or arguments"
                f" ({result.setup}, now {setup}): name another file with --out"
            )
        found[result.step] = result
    return tuple(found.values())


def append(path: Path, result: Result) -> None:
    """One more line, behind a whole one. Raises OSError."""
    before = path.read_bytes() if path.exists() else b""
    whole = before[: before.rfind(b"\n") + 1]
    if whole != before:  # a run was cut off within its line
        path.write_bytes(whole)
    with path.open("a", encoding="utf-8") as file:
        file.write(result.line + "\n")


def _parsed(line: str) -> Result | None:
    try:
        data = json.loads(line)
        return Result(
            str(data["step"]), str(data["setup"]), float(data["took_s"]), dict(data["figures"]), data["error"]
        )
    except (ValueError, KeyError, TypeError):
        return None
