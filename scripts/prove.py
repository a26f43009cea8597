"""The long proofs, one after another, and the table of what they showed.

    python -m scripts.prove [--json FILE] [PYTEST ARGUMENTS]

A proof is a test marked `prove`. It may tell what was done, its seed, the outcome and a figure (properties of the
test: `done`, `seed`, `outcome`, `figure`); where it does not, its name and its result stand for them. Exit status:
pytest's; also 1 if a proof was skipped, for a proof that does not run shows nothing.
"""

import argparse
import json
import sys
import traceback
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

COLUMNS = ("proof", "done", "seed", "outcome", "figure", "seconds")


@dataclass(frozen=True, slots=True)
class Proof:
    """One line of the table. `result` is passed, failed or skipped; `seconds` the test's own time."""

    proof: str
    result: str
    done: str
    seed: str
    outcome: str
    figure: str
    seconds: float


def proof_of(node: str, result: str, properties: Iterable[tuple[str, object]], seconds: float, why: str = "") -> Proof:
    """What a test that ended tells; of what it told twice, the last word. `why` it failed or did not run."""
    told = {name: str(value) for name, value in properties}
    name = node.partition("::")[2]
    outcome = told.get("outcome", "holds") if result == "passed" else f"{result.upper()}: {why}"
    return Proof(
        proof=node.removeprefix("tests/"),
        result=result,
        done=told.get("done") or name.removeprefix("test_").replace("_", " "),
        seed=told.get("seed", ""),
        outcome=outcome,
        figure=told.get("figure", ""),
        seconds=round(seconds, 1),
    )


class Proofs:
    """A pytest plugin that keeps what each proof told."""

    def __init__(self) -> None:
        self.all: list[Proof] = []
        self._seconds = 0.0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A phase of a test has ended; the last that says something new ends the proof."""
        self._seconds += report.duration
        failed_around = report.when != "call" and report.outcome == "failed"
        if report.when == "call" or failed_around or (report.when == "setup" and report.outcome == "skipped"):
            self.all.append(
                proof_of(report.nodeid, report.outcome, report.user_properties, self._seconds, _first_line(report))
            )
        if report.when == "teardown":
            self._seconds = 0.0

    def table(self) -> Table:
        """For people."""
        table = Table(pad_edge=False)
        for name in COLUMNS:
            table.add_column(name, overflow="fold")  # a test's id is to be copied, never cut
        for each in self.all:
            cells = [str(value) for name, value in asdict(each).items() if name in COLUMNS]
            table.add_row(*cells, style="" if each.result == "passed" else "bold")
        return table

    def summary(self) -> str:
        """One line."""
        counts = {result: sum(each.result == result for each in self.all) for result in ("passed", "failed", "skipped")}
        seconds = sum(each.seconds for each in self.all)
        return f"{', '.join(f'{count} {result}' for result, count in counts.items())} in {seconds:.0f} s"


def _first_line(report: pytest.TestReport) -> str:
    """Why it failed or was skipped, in one line."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    message = getattr(getattr(report.longrepr, "reprcrash", None), "message", "") or ""
    return str(message).partition("\n")[0][:200]


def main(arguments: list[str]) -> int:
    """Run, print, write; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scripts.prove", description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table as JSON too")
    given, rest = parser.parse_known_args(arguments)
    proofs = Proofs()
    try:
        status = int(pytest.main(["-m", "prove", "-v", "--tb=short", *rest], plugins=[proofs]))
    except Exception:  # pytest raises what it finds at its very end; half an hour of proofs is shown all the same
        traceback.print_exc()
        status = int(pytest.ExitCode.INTERNAL_ERROR)
    out = Console(width=None if sys.stdout.isatty() else 200, markup=False, highlight=False)
    out.print(proofs.table())
    out.print(f"make prove: {proofs.summary()}")
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(each) for each in proofs.all], indent=1) + "\n", encoding="utf-8")
    skipped = any(each.result == "skipped" for each in proofs.all)
    return status or int(skipped)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
