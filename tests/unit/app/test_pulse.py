"""Stopped is told from slow: by whether the kernel let a process run, never by how long it took."""

import os
from pathlib import Path

import pytest

from activator_ext.app.pulse import BLOCKED_S, STOPPED_S, Look, Pulse, look

PID = 7


def verdicts(*looks: tuple[float, Look | None], pid: int = PID) -> list[str | None]:
    pulse = Pulse()
    return [pulse.feel(pid, seen, at_s) for at_s, seen in looks]


@pytest.mark.parametrize(
    ("looks", "expect"),
    [
        pytest.param([(0, Look("T", 5)), (STOPPED_S, Look("T", 5))], "stopped by a signal", id="stopped"),
        pytest.param([(0, Look("T", 5)), (STOPPED_S - 1, Look("T", 5))], None, id="stopped a moment ago"),
        pytest.param([(0, Look("S", 5)), (STOPPED_S, Look("S", 5))], None, id="blocked for as long as a stall"),
        pytest.param([(0, Look("S", 5)), (BLOCKED_S, Look("S", 5))], "blocked, state S", id="blocked by a lock"),
        pytest.param([(0, Look("D", 5)), (BLOCKED_S, Look("D", 5))], "blocked, state D", id="blocked by a disk"),
        pytest.param([(0, Look("R", 5)), (9999, Look("R", 5))], None, id="no core free for it"),
        pytest.param([(0, Look("S", 5)), (9999, Look("S", 6))], None, id="idle, woken by the knock"),
        pytest.param([(0, Look("t", 5)), (BLOCKED_S - 1, Look("t", 5))], None, id="held by a debugger"),
        pytest.param([(0, None), (9999, None)], None, id="no Linux"),
        pytest.param([(0, Look("T", 5)), (9999, None)], None, id="gone"),
    ],
)
def test_what_is_the_matter(looks: list[tuple[float, Look | None]], expect: str | None) -> None:
    found = verdicts(*looks)
    assert found[:-1] == [None] * (len(looks) - 1)
    assert (found[-1] is None) if expect is None else (found[-1] is not None and expect in found[-1])


def test_patience_begins_anew_with_each_slice_and_each_process() -> None:
    still = Look("T", 5)
    assert verdicts((0, still), (6, still), (8, Look("T", 6)), (14, Look("T", 6))) == [None] * 4
    pulse = Pulse()
    assert pulse.feel(1, still, 0) is None
    assert pulse.feel(2, still, STOPPED_S) is None


def test_a_process_of_this_machine() -> None:
    first = look(os.getpid())
    assert first is not None
    assert first.state == "R"
    second = look(os.getpid())
    assert second is not None
    assert second.slices >= first.slices


@pytest.mark.parametrize("stat", [None, "", "7 (a b) ) S 1 2"])
def test_what_cannot_be_read_is_not_judged(tmp_path: Path, stat: str | None) -> None:
    (tmp_path / "7").mkdir()
    if stat is not None:
        (tmp_path / "7" / "stat").write_text(stat)
    assert look(7, tmp_path) is None
    assert look(0) is None
