"""`make bench-portal`: the portal beside HAProxy and Caddy, in one run. README.md beside this file says how."""

import argparse
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from portal.findings import as_json, last_line
from portal.machine import BenchFailed
from portal.plan import QUICK, Plan
from portal.report import tables
from portal.run import run


def main(argv: list[str] | None = None) -> int:
    """The exit status: 0 measured; 1 not, or not all (wrong route, broken answer, missing program); 130 stopped."""
    parser = argparse.ArgumentParser(
        prog="make bench-portal",
        description="Requests/s, added latency and 1,000 open streams: the portal, HAProxy, Caddy and no proxy.",
        epilog="Tables go to stdout, and its last line is for programs; progress goes to stderr.",
    )
    parser.add_argument("--quick", action="store_true", help="under a minute, to see that all works; compare nothing")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write every round's figures there too")
    given = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, _interrupt)
    began = time.monotonic()

    def tell(text: str) -> None:
        print(f"[{time.monotonic() - began:4.0f} s] {text}", file=sys.stderr, flush=True)

    try:
        found = run(QUICK if given.quick else Plan(), tell)
        if given.json:
            given.json.write_text(as_json(found), encoding="utf-8")
    except (BenchFailed, OSError) as error:
        print(f"bench-portal: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nbench-portal: stopped; nothing is left running", file=sys.stderr)
        return 130
    print(tables(found))
    print(last_line(found))
    return 1 if found.broken else 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
