"""`make bench-start`: our starts beside stock vLLM's, in one run. README.md beside this file says how."""

import argparse
import asyncio
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from start.findings import Findings, as_json, from_json, last_line, refuse_unlike
from start.measured import BenchFailed, Start
from start.plan import QUICK, Plan
from start.report import comparison, tables
from start.run import Tell, digest_of, facts, findings, make_models, play, workplace

EXAMPLES = """examples:
  make bench-start                                  tiny and big model, 3 rounds: about 25 minutes
  make bench-start ARGS=--quick                     tiny model, one round: about 3 minutes
  make bench-start ARGS='--models tiny --rounds 5 --json /tmp/now.json'
  make bench-start ARGS='--compare /tmp/before.json /tmp/now.json'
"""


def main(argv: list[str] | None = None) -> int:
    """The exit status: 0 measured; 1 not, or a start of ours did not use its bundle; 130 stopped."""
    parser = argparse.ArgumentParser(
        prog="make bench-start",
        description="Spawn → first token: stock vLLM cold and warm, ours with a bundle, ours by fork; interleaved.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="one round of the tiny model, to see that all works")
    parser.add_argument("--models", metavar="NAMES", help="sizes of demo.models, by comma (tiny,big)")
    parser.add_argument("--rounds", type=int, metavar="N", help="starts of each subject (3)")
    parser.add_argument("--keep-page-cache", action="store_true", help="leave the big model's files in the page cache")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write every start's figures there too")
    parser.add_argument("--compare", nargs=2, type=Path, metavar="PATH", help="two such files beside each other")
    given = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, _interrupt)
    began = time.monotonic()

    def tell(text: str) -> None:
        print(f"[{time.monotonic() - began:4.0f} s] {text}", file=sys.stderr, flush=True)

    try:
        if given.compare:
            first, second = (from_json(path.read_text(encoding="utf-8"), str(path)) for path in given.compare)
            refuse_unlike(first, second)
            print(comparison(first, second))
            return 0
        return _report(measure(_plan(given), tell), given.json)
    except (BenchFailed, OSError) as error:
        print(f"bench-start: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nbench-start: stopped; nothing is left running", file=sys.stderr)
        return 130


def measure(plan: Plan, tell: Tell) -> Findings:
    """Run the plan. Raises BenchFailed."""
    starts: list[Start] = []
    with workplace() as home:
        models = make_models(plan, home, tell)
        digests = {name: asyncio.run(digest_of(path)) for name, path in models.items()}
        known = facts()
        for start in play(plan, models, home, tell):
            starts.append(start)
    return findings(starts, plan, digests, known)


def _report(found: Findings, file: Path | None) -> int:
    if file:
        file.write_text(as_json(found), encoding="utf-8")
    print(tables(found))
    for start in found.unused:
        print(f"bench-start: {start.model} {start.subject} {start.round}: bundle {start.verdict}", file=sys.stderr)
    print(last_line(found))
    return 0 if found.identical and not found.unused else 1


def _plan(given: argparse.Namespace) -> Plan:
    plan = QUICK if given.quick else Plan()
    models = tuple(given.models.split(",")) if given.models else plan.models
    unknown = [name for name in models if name not in {"tiny", "wide", "big"}]
    if unknown or (given.rounds is not None and given.rounds < 1):
        raise BenchFailed(f"--models {unknown[0]} is none of tiny, wide, big" if unknown else "--rounds must be ≥ 1")
    dropped = () if given.keep_page_cache else tuple(name for name in plan.dropped if name in models)
    return Plan(models=models, dropped=dropped, rounds=given.rounds or plan.rounds, seed=plan.seed)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
