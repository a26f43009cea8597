"""When is a start stuck, when is an engine frozen: tables of cases over a clock that the test moves."""

import pytest

from runtime.engine.progress import (
    DEAF_AFTER_S,
    SILENT_AFTER_S,
    STOPPED_AFTER_S,
    Progress,
    Pulse,
    at_work,
)
from runtime.engine.vitals import Vitals

PATIENCE_S = 60.0
IDLE, LINE, BUSY, READS = "idle", "line", "busy", "reads"


def vitals(cpu_s: float = 0.0, read_bytes: int = 0, stopped: int | None = None) -> Vitals:
    return Vitals(cpu_s, read_bytes, stopped)


@pytest.mark.parametrize(
    ("what", "stuck_at"),
    [
        pytest.param([(IDLE, 100)], 60, id="nothing at all"),
        pytest.param([(IDLE, 59)], None, id="almost"),
        pytest.param([(IDLE, 59), (LINE, 1), (IDLE, 59)], None, id="a line begins the time anew"),
        pytest.param([(IDLE, 59), (LINE, 1), (IDLE, 70)], 120, id="and it runs again"),
        pytest.param([(BUSY, 500)], None, id="it computes without a word"),
        pytest.param([(BUSY, 500), (IDLE, 70)], 560, id="until it does no more"),
        pytest.param([(READS, 500)], None, id="it reads without a word"),
        pytest.param([(IDLE, 30), (READS, 1), (IDLE, 59)], None, id="a second of reading"),
        pytest.param([(LINE, 300)], None, id="it talks and does nothing"),
    ],
)
def test_a_start_is_stuck_when_it_shows_no_sign_of_life(what: list[tuple[str, int]], stuck_at: int | None) -> None:
    progress, now, used, read, found = Progress(0.0, PATIENCE_S), 0, 0.0, 0, None
    for kind, seconds in what:
        for _ in range(seconds):
            now += 1
            # Idle processes poll: half a percent of a core, a few kB a second.
            used += 0.5 if kind == BUSY else 0.005
            read += 2**20 if kind == READS else 4096
            if kind == LINE:
                progress.sign(now)
            progress.sample(now, vitals(used, read))
            if found is None and progress.stuck(now):
                found = now
    assert found == stuck_at


def test_what_ended_takes_no_time_back() -> None:
    """A child that is gone takes its CPU seconds out of the sum: that is no sign of life, and no negative one."""
    assert not at_work(vitals(90.0, 2**30), vitals(1.0, 0), 1.0)


def test_a_stopped_process_is_named() -> None:
    progress = Progress(0.0, PATIENCE_S)
    assert progress.stopped is None
    progress.sample(1.0, vitals(stopped=77))
    assert progress.stopped == 77


@pytest.mark.parametrize(
    ("answered", "busy", "stopped", "frozen_at", "words"),
    [
        pytest.param(True, False, False, None, "", id="idle and well"),
        pytest.param(False, False, False, SILENT_AFTER_S, "works at nothing", id="silent and idle"),
        pytest.param(
            False, True, False, DEAF_AFTER_S, "no answer for 300 s", id="silent and busy: only late, at first"
        ),
        pytest.param(True, False, True, STOPPED_AFTER_S, "77 is stopped (SIGSTOP)", id="stopped, though it answers"),
        pytest.param(False, False, True, STOPPED_AFTER_S, "77 is stopped (SIGSTOP)", id="stopped and silent"),
    ],
)
def test_a_ready_engine_is_frozen(
    answered: bool, busy: bool, stopped: bool, frozen_at: float | None, words: str
) -> None:
    pulse, found = Pulse(0.0), None
    for now in range(5, 601, 5):
        sample = vitals(now * 0.5 if busy else now * 0.005, 0, 77 if stopped else None)
        found = pulse.beat(float(now), answered=answered, vitals=sample)
        if found is not None:
            break
    assert (None if found is None else float(now)) == frozen_at
    assert words in ("" if found is None else found.text)


def test_what_cannot_be_looked_at_is_neither_stuck_nor_frozen() -> None:
    progress, pulse = Progress(0.0, PATIENCE_S), Pulse(0.0)
    for now in range(5, 600, 5):
        progress.sample(float(now), None)
        assert not progress.stuck(now)
        assert pulse.beat(float(now), answered=False, vitals=None) is None
    assert pulse.beat(600.0, answered=False, vitals=vitals()) is None


def test_one_answer_begins_the_time_anew() -> None:
    pulse = Pulse(0.0)
    for now in range(5, 200, 5):
        assert pulse.beat(float(now), answered=now % 25 == 0, vitals=vitals()) is None
