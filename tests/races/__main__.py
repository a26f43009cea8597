"""`python -m tests.races --seeds 0:300`: play seeds, in several processes, and tell each breach with its seed.

Every seed replays exactly: `python -m tests.races --seeds 17:18 --story` tells all that happened, `--shrink` looks for
the fewest actions that still breach the same rule. The last line is JSON with the figures.
"""

import argparse
import gc
import json
import logging
import os
import subprocess
import sys
import time
from collections import Counter

from tests.races.run import Result, play
from tests.races.scenario import Scenario, draw


def main() -> int:
    """0: no breach."""
    parser = argparse.ArgumentParser(prog="python -m tests.races", description=__doc__)
    parser.add_argument("--seeds", default="0:300", metavar="FROM:TO")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--story", action="store_true")
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--most", type=int, default=10, help="end after so many seeds with breaches")
    args = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Sets of strings have another order in each process otherwise, and a seed would not replay exactly.
        os.execve(  # noqa: S606 — this program itself, once more
            sys.executable, [sys.executable, "-m", "tests.races", *sys.argv[1:]], os.environ | {"PYTHONHASHSEED": "0"}
        )
    logging.disable(logging.CRITICAL)
    begin, end = (int(part) for part in args.seeds.split(":"))
    if args.jobs > 1:
        return _spread(begin, end, args.jobs, args.most)
    return _play(range(begin, end), args)


def _play(seeds: range, args: argparse.Namespace) -> int:
    begun, figures, wrong = time.monotonic(), Counter[str](), []
    gc.disable()
    for number, seed in enumerate(seeds):
        scenario = draw(seed)
        result = play(scenario)
        figures += Counter(seeds=1, starts=result.starts, requests=result.requests, virtual_s=round(result.virtual_s))
        if args.story:
            print("\n".join(result.story))
        if result.breaches:
            wrong.append(seed)
            _tell(scenario, result, shrink=args.shrink)
            if len(wrong) >= args.most:
                break
        if number % 20 == 19:
            gc.collect()
    seconds = time.monotonic() - begun
    print(json.dumps({"races": dict(figures), "breaching": wrong, "seconds": round(seconds, 1)}), flush=True)
    return 1 if wrong else 0


def _tell(scenario: Scenario, result: Result, *, shrink: bool) -> None:
    print(f"seed {scenario.seed}: {len(result.breaches)} breaches; replay: python -m tests.races "
          f"--seeds {scenario.seed}:{scenario.seed + 1} --story --shrink")  # fmt: skip
    for breach in result.breaches[:5]:
        print(f"  {breach}")
    if shrink:
        small = shrunk(scenario, result.rule)
        print(f"  fewest actions found that still breach {result.rule}:")
        for action in small.actions:
            print(f"    {action}")
        for service in small.services:
            print(f"    {service}")
        again = play(small)
        print("\n".join(f"      {line}" for line in again.story))
        for breach in again.breaches[:5]:
            print(f"    {breach}")


def shrunk(scenario: Scenario, rule: str | None) -> Scenario:
    """With as few actions as a simple search finds that still breach the rule."""
    size = max(1, len(scenario.actions) // 2)
    while size:
        begin = 0
        while begin < len(scenario.actions):
            fewer = scenario.without(begin, begin + size)
            if play(fewer).rule == rule:
                scenario = fewer
            else:
                begin += size
        size //= 2
    return scenario


def _spread(begin: int, end: int, jobs: int, most: int) -> int:
    """Seeds dealt to several processes."""
    share = -(-(end - begin) // jobs)
    ranges = [(at, min(at + share, end)) for at in range(begin, end, share)]
    argv = [sys.executable, "-m", "tests.races", "--most", str(most), "--seeds"]
    working = [subprocess.Popen([*argv, f"{a}:{b}"], stdout=subprocess.PIPE, text=True) for a, b in ranges]
    figures, wrong, failed, seconds = Counter[str](), [], False, 0.0
    for process in working:
        said, _ = process.communicate()
        *lines, last = said.splitlines() or [""]
        print("\n".join(lines))
        failed = failed or process.returncode != 0
        if last.startswith("{"):
            told = json.loads(last)
            figures += Counter(told["races"])
            wrong += told["breaching"]
            seconds = max(seconds, told["seconds"])
        else:
            print(last)
    print(json.dumps({"races": dict(figures), "breaching": wrong, "seconds": seconds}), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
