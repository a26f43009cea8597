"""`make bench-levels`: what -O0 … -O3 and eager cost a start, and what they give each answer, in one run."""

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import cast

import httpx

from demo.models import Size, make_model
from levels.measure import measure
from levels.measured import LEVELS, Measured, Run, as_json, last_line
from levels.report import tables
from start.measured import BenchFailed
from start.run import facts

EXAMPLES = """examples:
  make bench-levels                                          both models, every level: about 15 minutes
  make bench-levels ARGS='--models tiny'                     about 5 minutes
  make bench-levels ARGS='--models big --levels O2,eager --rounds 3 --json /tmp/levels.json'
"""


def main(argv: list[str] | None = None) -> int:
    """The exit status: 0 measured; 1 a level was not; 2 wrong arguments; 130 stopped."""
    parser = argparse.ArgumentParser(
        prog="make bench-levels",
        description="First start, next start and tokens a second of a real engine, by optimization level.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--models", metavar="NAMES", default="tiny,big", help="sizes of demo.models, by comma (tiny,big)"
    )
    parser.add_argument("--levels", metavar="NAMES", default=",".join(LEVELS), help=f"by comma ({','.join(LEVELS)})")
    parser.add_argument("--rounds", type=int, metavar="N", default=1, help="how often each is measured (1)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write every figure there too")
    given = parser.parse_args(argv)
    models, levels = given.models.split(","), given.levels.split(",")
    unknown = [name for name in models if name not in {"tiny", "wide", "big"}] + [n for n in levels if n not in LEVELS]
    if unknown or given.rounds < 1:
        parser.error(f"{unknown[0]!r} is no model and no level" if unknown else "--rounds must be at least 1")
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        run = play(models, levels, given.rounds)
    except KeyboardInterrupt:
        print("\nbench-levels: stopped; nothing is left running", file=sys.stderr)
        return 130
    if given.json:
        given.json.write_text(as_json(run), encoding="utf-8")
    print(tables(run))
    for level, why in run.failed.items():
        print(f"bench-levels: {level}: {why}", file=sys.stderr)
    print(last_line(run))
    return 1 if run.failed or not run.measured else 0


def play(models: list[str], levels: list[str], rounds: int) -> Run:
    """Measure; each round takes all levels in turn. A level that cannot be measured is told, and the others go on."""
    began, known = time.monotonic(), facts()
    measured: list[Measured] = []
    failed: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="bench-levels-") as home:
        for name in models:
            model = Path(home, "models", name)
            make_model(model, seed=1, size=cast("Size", name))
            for number, level in ((number, level) for number in range(1, rounds + 1) for level in levels):
                try:
                    measured.append(measure(level, model, name, number, Path(home, "host")))
                except (BenchFailed, httpx.HTTPError) as error:
                    failed[f"{name} {level}"] = str(error) or type(error).__name__
                told = f"{name} {level} {number}/{rounds}"
                print(
                    f"[{time.monotonic() - began:4.0f} s] {told}: {_told(measured, failed, name, level)}",
                    file=sys.stderr,
                )
    return Run(tuple(measured), known, failed)


def _told(measured: list[Measured], failed: dict[str, str], name: str, level: str) -> str:
    if why := failed.get(f"{name} {level}"):
        return why
    last = measured[-1]
    rates = ", ".join(f"{rate:.1f} tokens/s at {batch}" for batch, rate in last.rates.items())
    return f"first token {last.first_s:.1f} s, next time {last.again_s:.1f} s; {rates}"


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
