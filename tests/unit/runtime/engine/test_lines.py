from datetime import UTC, datetime

import pytest

from runtime.engine.lines import EngineLine, cause_in, read_line

T = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "expect"),
    [
        pytest.param(
            "(EngineCore pid=7) INFO 11-29 20:45:47 [core.py:133] Initializing a V1",
            EngineLine(T, "Initializing a V1", "EngineCore", 7, "INFO"),
            id="whole",
        ),
        pytest.param(
            "(Worker_TP0 pid=8) WARNING 11-29 20:45:47 [x.py:1] a [b] c",
            EngineLine(T, "a [b] c", "Worker_TP0", 8, "WARNING"),
            id="worker of several",
        ),
        pytest.param("INFO 11-29 20:45:47 [x.py:1] early", EngineLine(T, "early", level="INFO"), id="unnamed process"),
        pytest.param("(APIServer pid=9) ", EngineLine(T, "", "APIServer", 9), id="empty"),
        pytest.param("INFO:     Started", EngineLine(T, "INFO:     Started"), id="uvicorn"),
        pytest.param("(no pid here) x", EngineLine(T, "(no pid here) x"), id="other brackets"),
    ],
)
def test_read_line(line: str, expect: EngineLine) -> None:
    assert read_line(T, line) == expect


ECHO = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
INVALID = "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig"
CORE = "(EngineCore pid=7) ERROR 11-29 20:45:47 [core.py:1]"
API = "(APIServer pid=1)"


@pytest.mark.parametrize(
    ("tail", "expect"),
    [
        pytest.param(["INFO:     Started"], None, id="all is well"),
        pytest.param([], None, id="nothing"),
        pytest.param(["INFO 11-29 20:45:47 [x.py:1] fine"], None, id="fine"),
        pytest.param(["terminate called after throwing"], "terminate called after throwing", id="last words"),
        pytest.param(
            [f"{CORE} Traceback:", f"{CORE} ValueError: too little memory", f"{API} {ECHO}"],
            "ValueError: too little memory",
            id="the root, not its echo",
        ),
        pytest.param([ECHO], ECHO, id="the echo where there is nothing else"),
        pytest.param(
            ["vllm serve: error: unrecognized arguments: --foo"],
            "vllm serve: error: unrecognized arguments: --foo",
            id="bad argument",
        ),
        pytest.param(
            [INVALID, "  Value error, no such model [type=value_error, x]"],
            f"{INVALID} Value error, no such model",
            id="validation takes the next line",
        ),
        pytest.param(["torch.OutOfMemoryError: no memory"], "torch.OutOfMemoryError: no memory", id="module"),
        pytest.param(["ValueError: first", "KeyError: 'second'"], "KeyError: 'second'", id="the last one"),
        pytest.param(["ValueError: " + "x" * 900], "ValueError: " + "x" * 388, id="cut"),
    ],
)
def test_cause_in(tail: list[str], expect: str | None) -> None:
    assert cause_in(tuple(tail)) == expect
