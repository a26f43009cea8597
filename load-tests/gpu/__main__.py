"""`PYTHONPATH=load-tests python -m gpu`: what no CPU can show. At most 8 minutes. Untested: it has never run on a GPU.

README.md beside this file says what each step shows. Results are appended to a file, one JSON line for each finished
step, so that a run that was cut off or ran out of time goes on where it ended.
"""

import argparse
import asyncio
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import httpx

from demo.models import make_model
from gpu import machine, plan, shared, stock
from gpu.limit import limited
from gpu.report import last_line, table
from gpu.results import Result, append, read, setup_of
from runtime.engine.capture.record import read as read_record
from runtime.engine.capture.sizes import Steps
from start.measured import BenchFailed
from start.run import digest_of

HISTOGRAM = Path(__file__).with_name("steps.json")
Measure = Callable[[plan.Step, Path], dict[str, Any]]


def main(argv: list[str] | None = None) -> int:
    """The exit status: 0 all steps measured; 1 not all; 2 wrong arguments; 130 stopped."""
    parser = argparse.ArgumentParser(prog="python -m gpu", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", type=Path, default=Path("gpu.jsonl"), metavar="FILE", help="results (gpu.jsonl)")
    parser.add_argument("--histogram", type=Path, default=HISTOGRAM, metavar="FILE", help="a service's shapes.json")
    parser.add_argument("--only", metavar="NAMES", help="these steps, by comma")
    parser.add_argument("--dry-run", action="store_true", help="print the plan; needs no GPU")
    given = parser.parse_args(argv)
    histogram = read_record(given.histogram).steps
    if not histogram:
        parser.error(f"--histogram {given.histogram} holds no steps: give a service's shapes.json")
    steps = plan.steps(histogram)
    chosen = given.only.split(",") if given.only else [step.name for step in steps]
    if unknown := [name for name in chosen if name not in {step.name for step in steps}]:
        parser.error(f"--only {unknown[0]}: the steps are {', '.join(step.name for step in steps)}")
    steps = tuple(step for step in steps if step.name in chosen)
    if given.dry_run:
        print(dry_run(steps, histogram))
        return 0
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        results = _run(steps, histogram, given.out)
    except (BenchFailed, OSError) as error:
        print(f"gpu: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ngpu: stopped; nothing is left running. The same command goes on.", file=sys.stderr)
        return 130
    print(table(steps, results))
    print(last_line(results))
    measured = {result.step for result in results if result.error is None}
    return 0 if {step.name for step in steps} <= measured else 1


def dry_run(steps: Sequence[plan.Step], histogram: Steps) -> str:
    """The plan as text: what each step runs, and for how long at most."""
    batches = " ".join(map(str, plan.observed_batches(histogram)))
    lines = [f"at most {plan.TOTAL_S:.0f} s in all; tokens/s at batches of {batches}; with {shlex.join(plan.ARGS)}"]
    for step in steps:
        lines.append(f"{step.name:16} at most {step.limit_s:3.0f} s  {step.shows}")
        if step.args:
            lines.append(f"{'':16} vllm serve MODEL … {shlex.join(step.args)}")
    return "\n".join(lines)


def take(
    steps: Sequence[plan.Step],
    done: Sequence[Result],
    setup: str,
    out: Path,
    measure: Measure,
    home: Path,
    begun: float,
) -> tuple[Result, ...]:
    """Take each step that is not done while time is left since `begun`; a result is in the file once it is known."""
    results = {result.step: result for result in done}
    finished = {result.step for result in done if result.error is None}
    for step in steps:
        turn = plan.turn(step, finished, plan.TOTAL_S - (time.monotonic() - begun))
        if turn.skipped:
            _tell(begun, f"{step.name}: {turn.skipped}")
            continue
        _tell(begun, f"{step.name}: at most {turn.limit_s:.0f} s")
        result = _taken(turn, setup, measure, home / step.name)
        results[step.name] = result
        append(out, result)
        _tell(begun, f"{step.name}: {result.error or f'done in {result.took_s:.0f} s'}")
    return tuple(results.values())


def _taken(turn: plan.Turn, setup: str, measure: Measure, home: Path) -> Result:
    home.mkdir(parents=True)
    begun, figures, error = time.monotonic(), {}, None
    try:
        with limited(turn.limit_s, turn.step.name):
            figures = measure(turn.step, home)
    except (BenchFailed, httpx.HTTPError, OSError) as failed:
        error = str(failed) or type(failed).__name__
    return Result(turn.step.name, setup, time.monotonic() - begun, figures, error)


def _run(steps: Sequence[plan.Step], histogram: Steps, out: Path) -> tuple[Result, ...]:
    begun, known = time.monotonic(), machine.versions()
    with tempfile.TemporaryDirectory(prefix="gpu-") as name:
        home = Path(name)
        model = home / "model"
        make_model(model, seed=1, size="big")
        setup = setup_of(known, plan.ARGS, histogram, asyncio.run(digest_of(model)))
        batches = plan.observed_batches(histogram)

        def measure(step: plan.Step, place: Path) -> dict[str, Any]:
            return _measured(step, place, model, known, batches)

        return take(steps, read(out, setup), setup, out, measure, home, begun)


def _measured(
    step: plan.Step, place: Path, model: Path, known: Mapping[str, str], batches: Sequence[int]
) -> dict[str, Any]:
    if step.name == "versions":
        return dict(known)
    if step.args is None:
        return shared.measure(place, model)
    return stock.measure(place, model, step.args, batches)


def _tell(begun: float, text: str) -> None:
    print(f"[{time.monotonic() - begun:4.0f} s] {text}", file=sys.stderr, flush=True)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
