"""The page of a start's faults cannot rot: each row names tests that are there, and each such test has its row."""

from pathlib import Path

import pytest

from scripts.faults import Row
from scripts.start_faults import FILES, SECTIONS, page
from tests.unit.scripts.test_faults import functions_of

ROOT = Path(__file__).resolve().parents[3]
ROWS = [row for _, rows in SECTIONS for row in rows]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.fault[:40])
def test_a_row_names_tests_that_are_there(row: Row) -> None:
    assert row.tests
    for test in row.tests:
        path, _, name = test.partition("::")
        assert name in functions_of(ROOT / path), f"{path} has no {name}"


def test_each_test_of_a_starts_faults_has_its_row() -> None:
    named = {test for row in ROWS for test in row.tests}
    there = {file + name for file in FILES for name in functions_of(ROOT / file.removesuffix("::"))}
    assert there - named == set()


def test_each_line_is_a_row_of_the_table() -> None:
    for line in page().splitlines():
        if line.startswith("|"):
            assert line.replace("\\|", "").count("|") == 4, line
