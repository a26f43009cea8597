"""The page of faults cannot rot: each row names tests that are there, and no test of tests/chaos is without a row."""

import ast
from pathlib import Path

import pytest

from scripts.faults import SECTIONS, Row, page, path_of

ROOT = Path(__file__).resolve().parents[3]
ROWS = [row for _, rows in SECTIONS for row in rows]


def functions_of(path: Path) -> set[str]:
    """The test functions of a file."""
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.fault[:40])
def test_a_row_names_tests_that_are_there(row: Row) -> None:
    assert row.tests
    for test in row.tests:
        path, _, name = path_of(test).partition("::")
        assert name in functions_of(ROOT / path), f"{path} has no {name}"


def test_each_test_of_chaos_has_its_row() -> None:
    named = {path_of(test) for row in ROWS for test in row.tests}
    there = {
        f"tests/chaos/{path.name}::{name}"
        for path in (ROOT / "tests" / "chaos").glob("test_*.py")
        for name in functions_of(path)
    }
    assert there - named == set()


def test_a_pipe_in_a_cell_does_not_break_the_table() -> None:
    """A `|` inside back-quotes ends a cell all the same."""
    for line in page().splitlines():
        if line.startswith("|"):
            assert line.replace("\\|", "").count("|") == 4, line
