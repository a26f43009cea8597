"""Hostile text becomes one line that draws nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator_ext.core.visible import visible, visible_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("floor 0 → 1: 1 waiting · über", "floor 0 → 1: 1 waiting · über", id="ordinary text"),
        pytest.param("a\nb\r\nc", r"a\nb\r\nc", id="line ends"),
        pytest.param("\x1b[31mred\x1b]0;title\x07", r"\x1b[31mred\x1b]0;title\x07", id="ANSI"),
        pytest.param("\x9b31m\x85", r"\x9b31m\x85", id="the same in one byte each"),
        pytest.param("abc\u202edcba\u2066", r"abc\u202edcba\u2066", id="text turned round"),
        pytest.param("a\u2028b\u2029c", r"a\u2028b\u2029c", id="line ends of Unicode"),
        pytest.param("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff", id="nothing to see"),
        pytest.param("\ud800", r"\ud800", id="half a surrogate"),
        pytest.param("\x00", r"\x00", id="NUL"),
    ],
)
def test_hostile_text(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_any_text_is_one_printable_line(text: str) -> None:
    shown = visible(text)
    assert shown.isprintable()
    assert len(shown.splitlines()) <= 1
    shown.encode()


def test_lines_of_a_trace_stay_and_pass_for_no_line_of_their_own() -> None:
    assert visible_lines("a decision failed:\nTraceback\n09:00:00 \x1b[2Kall is well") == (
        "a decision failed:\n    Traceback\n    09:00:00 \\x1b[2Kall is well"
    )
