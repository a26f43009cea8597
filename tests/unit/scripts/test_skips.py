"""CI's rule that nothing is skipped unseen."""

from pathlib import Path

import pytest

from scripts.skips import main

REPORT = """<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest" tests="3">
<testcase classname="tests.unit.test_a" name="test_one" time="0.1" />
<testcase classname="tests.unit.test_a" name="test_gpu[l1]" time="0.1"><skipped type="pytest.skip" /></testcase>
{more}</testsuite></testsuites>"""
ANOTHER = (
    '<testcase classname="tests.unit.test_b" name="test_two"><skipped type="pytest.skip" message="m" /></testcase>'
)
LIST = "# GPU only\n\ntests.unit.test_a::test_gpu[l1]  # sleep level 1\n"


@pytest.mark.parametrize(
    ("more", "listed", "status", "said"),
    [
        ("", LIST, 0, ["skipped: 1, of them 1 for want of a GPU"]),
        ("", "", 1, ["skipped: 1, of them 0 for want of a GPU", "  tests.unit.test_a::test_gpu[l1] was skipped"]),
        (ANOTHER, LIST, 1, ["skipped: 2, of them 1 for want of a GPU", "  tests.unit.test_b::test_two was skipped"]),
    ],
    ids=["listed", "not-listed", "one-of-two"],
)
def test_skips(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str, listed: str, status: int, said: list[str]
) -> None:
    report, allowed = tmp_path / "report.xml", tmp_path / "gpu-only"
    report.write_text(REPORT.format(more=more))
    allowed.write_text(listed)

    assert main(report, allowed) == status
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": make")[0] for line in lines] == said
