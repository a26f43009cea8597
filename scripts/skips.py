"""Fails if a test was skipped that is not on the list of those that may be.

python -m scripts.skips JUNIT_REPORT ALLOWED_LIST
"""

import sys
from pathlib import Path
from xml.etree import ElementTree


def skipped(report: str) -> list[str]:
    """`module::name` of each test that pytest's JUnit report calls skipped (expected failures are among them)."""
    cases = ElementTree.fromstring(report).iter("testcase")  # noqa: S314 — pytest wrote it a moment ago
    return sorted(f"{case.get('classname')}::{case.get('name')}" for case in cases if case.find("skipped") is not None)


def allowed(listed: str) -> set[str]:
    """The tests named in a list; blank lines and # comments say nothing."""
    lines = (line.split("#", 1)[0].strip() for line in listed.splitlines())
    return {line for line in lines if line}


def main(report: Path, listed: Path) -> int:
    """Say how many were skipped, and which of them may not be; the exit status."""
    found = skipped(report.read_text(encoding="utf-8"))
    refused = [test for test in found if test not in allowed(listed.read_text(encoding="utf-8"))]
    print(f"skipped: {len(found)}, of them {len(found) - len(refused)} for want of a GPU")
    for test in refused:
        print(f"  {test} was skipped: make it run here, or list it in {listed} if only a GPU can run it")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
