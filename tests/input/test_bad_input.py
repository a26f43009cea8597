"""Every case of docs/reference/bad-input.md is answered, at a line of the file, on one line, with a fix."""

from pathlib import Path

import pytest

from scripts.bad_input import CASES, POLICY, RUNTIME, SERVICE, Case, answers

NAMED = {f"{title}: {case.shown}": case for title, cases in CASES.items() for case in cases}


@pytest.mark.parametrize("name", NAMED)
def test_bad_input_is_answered(name: str, tmp_path: Path) -> None:
    found = answers(NAMED[name], tmp_path)
    assert found
    for finding in found:
        assert str(finding).isprintable()
        assert finding.line >= 1
        assert finding.message
        assert finding.fix.endswith((".", "?"))


def test_what_the_cases_vary_is_good(tmp_path: Path) -> None:
    """Else a case could be answered for what it does not show."""
    assert answers(Case("", f"{SERVICE}---\n{POLICY}".encode()), tmp_path) == ()
    assert "ClusterServingRuntime" in RUNTIME
