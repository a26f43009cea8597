"""How an end is named: by its exit code, its signal, its lines, and what the kernel counted."""

from pathlib import Path

import pytest

from runtime.contract import FailureCause, Stage
from runtime.engine.ending import End, died, failed_start

LOG = Path("engine.log")
ROOT = "(Worker pid=9) ERROR 11-30 00:00:00 [x.py:1] ValueError: shapes differ"
ECHO = (
    "(APIServer pid=7) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
)
WORKER = (
    "(EngineCore pid=8) ERROR 11-30 00:00:00 [m.py:1] Worker proc VllmWorker-0 died unexpectedly (exit code: -9), s"
)
CORE = "RuntimeError: Engine core initialization failed. Failed core proc(s): {'EngineCore': -11}"
OURS = 'PILOTLIGHT_DEATH {"process": "EngineCore", "code": -6}'
DEAD = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."


@pytest.mark.parametrize(
    ("code", "tail", "oom", "cause", "numbers", "words"),
    [
        pytest.param(1, (ROOT, ECHO), 0, FailureCause.EXITED, {"exit_code": 1}, "shapes differ", id="exception"),
        pytest.param(
            -9, (), 0, FailureCause.KILLED, {"signal": "SIGKILL", "oom_kills": 0}, "somebody sent the signal", id="kill"
        ),
        pytest.param(-9, (), 1, FailureCause.NO_MEMORY, {"signal": "SIGKILL", "oom_kills": 1}, "for memory", id="oom"),
        pytest.param(-9, (), None, FailureCause.KILLED, {"signal": "SIGKILL"}, "look for", id="nobody counts"),
        pytest.param(-15, (), 1, FailureCause.KILLED, {"signal": "SIGTERM"}, "by SIGTERM", id="no oom sends SIGTERM"),
        pytest.param(-4, (), 0, FailureCause.KILLED, {"signal": "SIGILL"}, "leave compilation on", id="SIGILL"),
        pytest.param(-63, (), 0, FailureCause.KILLED, {"signal": "signal 63"}, "by signal 63", id="a nameless signal"),
        pytest.param(
            1,
            (WORKER, ECHO),
            0,
            FailureCause.KILLED,
            {"signal": "SIGKILL", "process": "VllmWorker-0", "exit_code": 1},
            "process VllmWorker-0 was killed by SIGKILL",
            id="its worker, told by vLLM",
        ),
        pytest.param(
            1, (WORKER, ECHO), 2, FailureCause.NO_MEMORY, {"process": "VllmWorker-0"}, "for memory", id="worker's oom"
        ),
        pytest.param(
            1, (CORE,), 0, FailureCause.KILLED, {"signal": "SIGSEGV", "process": "EngineCore"}, "SIGSEGV", id="its core"
        ),
        pytest.param(
            0,
            (DEAD, OURS),
            0,
            FailureCause.KILLED,
            {"signal": "SIGABRT"},
            "EngineCore was killed by SIGABRT",
            id="ours",
        ),
        pytest.param(
            1, (ROOT, WORKER), 0, FailureCause.EXITED, {"exit_code": 1}, "shapes differ", id="taken down afterwards"
        ),
        pytest.param(
            1,
            ("OSError: [Errno 98] Address already in use",),
            0,
            FailureCause.PORT_TAKEN,
            {"exit_code": 1},
            "the next try takes another one",
            id="a cause of its own",
        ),
        pytest.param(
            3,
            ("WARNING: out of memory is near", "INFO:     bye"),
            0,
            FailureCause.EXITED,
            {},
            "code 3",
            id="no exception",
        ),
    ],
)
def test_a_start_that_ended(
    code: int,
    tail: tuple[str, ...],
    oom: int | None,
    cause: FailureCause,
    numbers: dict[str, float | str],
    words: str,
) -> None:
    fault = failed_start(End(code, tail, LOG, oom), Stage.COMPILE)
    assert fault.cause is cause
    assert numbers.items() <= fault.numbers.items()
    assert fault.numbers["stage"] == "compile"
    assert words in str(fault)
    assert str(fault).endswith("(log: engine.log)")


def test_a_ready_engine_that_died_says_how() -> None:
    fault = died(End(1, (WORKER,), LOG, 1))
    assert fault.cause is FailureCause.DIED_AFTER_READY
    assert fault.numbers["how"] == "no-memory"
    assert not fault.permanent


def test_a_sentence_has_one_full_stop_at_most() -> None:
    assert "..;" not in str(failed_start(End(2, ("x: error: argument --a: bad.",), LOG), None))
    assert ".;" not in str(failed_start(End(2, ("x: error: argument --a: bad.",), LOG), None))


def test_the_lines_around_the_cause_go_with_it() -> None:
    noise = [f" - leaked function {n}" for n in range(90)]
    before = [f"line {n}" for n in range(40)]
    fault = failed_start(End(1, (*before, ROOT, "after", *noise, "PILOTLIGHT_MARK {}", "last"), LOG), None)
    assert fault.tail[-3:] == (ROOT, "after", "last")
    assert len(fault.tail) <= 20
