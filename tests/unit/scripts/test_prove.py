"""The table of the proofs: what a test told, its result where it told nothing, and no skip that looks like a proof."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.prove import proof_of

ROOT = Path(__file__).resolve().parents[3]

TESTS = """
import pytest

pytestmark = pytest.mark.prove

def test_that_tells(request):
    request.node.user_properties += [("done", "killed"), ("seed", 7), ("outcome", "first"), ("outcome", "served")]
    request.node.user_properties.append(("figure", "3 of 3"))

def test_that_says_nothing():
    pass
"""


def test_what_a_proof_told_stands_in_its_line() -> None:
    told = [("done", "killed"), ("seed", 7), ("outcome", "a"), ("outcome", "b"), ("figure", "3 s")]
    found = proof_of("tests/chaos/test_x.py::test_y[1]", "passed", told, 1.234)
    assert (found.proof, found.done, found.seed) == ("chaos/test_x.py::test_y[1]", "killed", "7")
    assert (found.outcome, found.figure, found.seconds) == ("b", "3 s", 1.2)


def test_one_that_failed_never_shows_an_outcome_that_it_told() -> None:
    found = proof_of("tests/a.py::test_b_c", "failed", [("outcome", "served")], 1, "assert 1 == 2")
    assert found.outcome == "FAILED: assert 1 == 2"
    assert found.done == "b c"


def run(tmp_path: Path, text: str) -> tuple[int, list[dict[str, object]], str]:
    """The exit status, the JSON and the output of proofs over one file."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = prove: a proof\n")
    (tmp_path / "test_proofs.py").write_text(text)
    written = tmp_path / "table.json"
    argv = [sys.executable, "-m", "scripts.prove", "--json", str(written), "-c", str(tmp_path / "pytest.ini")]
    done = subprocess.run([*argv, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, json.loads(written.read_text()), done.stdout


def test_the_proofs_that_hold(tmp_path: Path) -> None:
    status, rows, printed = run(tmp_path, TESTS)
    assert status == 0
    assert [(row["outcome"], row["seed"], row["figure"]) for row in rows] == [
        ("served", "7", "3 of 3"),
        ("holds", "", ""),
    ]
    assert "make prove: 2 passed, 0 failed, 0 skipped" in printed
    assert "that says nothing" in printed


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("assert 1 == 2", "FAILED: assert 1 == 2"),
        ("pytest.skip('no tmpfs')", "SKIPPED: no tmpfs"),
    ],
)
def test_one_that_shows_nothing_is_no_success(tmp_path: Path, body: str, outcome: str) -> None:
    status, rows, _ = run(tmp_path, f"{TESTS}\ndef test_last():\n    {body}\n")
    assert status == 1
    assert rows[-1]["outcome"] == outcome
    assert [row["result"] for row in rows[:-1]] == ["passed", "passed"]


def test_what_pytest_raises_at_its_end_does_not_lose_the_table(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("def pytest_unconfigure():\n    raise ExceptionGroup('late', [OSError()])\n")
    status, rows, printed = run(tmp_path, TESTS)
    assert status != 0
    assert len(rows) == 2
    assert "make prove: 2 passed" in printed
