"""The command as a user types it."""

import json
from datetime import UTC, datetime
from pathlib import Path

from typer.testing import CliRunner

from runtime.engine.capture.cli import app
from runtime.engine.capture.record import Record, write

NOW = datetime(2026, 11, 30, 9, tzinfo=UTC)
METRICS = """\
vllm:iteration_tokens_total_bucket{engine="0",le="1.0"} 6000.0
vllm:iteration_tokens_total_bucket{engine="0",le="8.0"} 8000.0
vllm:iteration_tokens_total_bucket{engine="0",le="+Inf"} 8000.0
"""


def shapes(*words: str | Path, stdin: str = "") -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(word) for word in words], input=stdin)
    return done.exit_code, done.stdout, done.stderr


def test_from_a_host_s_own_file(tmp_path: Path) -> None:
    write(tmp_path / "shapes.json", Record({1: 6000.0, 4: 2000.0}, NOW))
    code, out, said = shapes("choose", tmp_path / "shapes.json", "--max-num-seqs", "64")
    assert (code, out) == (0, "--cudagraph-capture-sizes 1 4 64\n")
    assert said == (
        "3 sizes for 8000 steps: 0.0% padded, 0.0% without a graph that have one with vLLM's own 19 sizes;"
        " those pad 0.0%\n"
    )


def test_from_metrics_on_standard_input() -> None:
    code, out, _ = shapes("choose", "-", "--max-num-seqs=64", stdin=METRICS)
    assert (code, out) == (0, "--cudagraph-capture-sizes 1 8 64\n")


def test_files_add_up(tmp_path: Path) -> None:
    (tmp_path / "one").write_text(METRICS)
    write(tmp_path / "two", Record({4: 2000.5}, NOW))
    code, out, _ = shapes("choose", tmp_path / "one", tmp_path / "two", "--max-num-seqs=64", "--json")
    assert code == 0
    assert json.loads(out) == {
        "sizes": [1, 4, 8, 64],
        "steps": 10000,
        "padded": 0.0,
        "without_graph": 0.0,
        "own": {"sizes": 19, "padded": 0.0},
    }


def test_files_that_tell_nothing_are_an_error_with_their_name(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("Dear vLLM,")
    code, out, said = shapes("choose", tmp_path / "letter", "--max-num-seqs=64")
    assert (code, out) == (1, "")
    assert (
        said == f"error: {tmp_path}/letter holds no steps: give shapes.json, or /metrics of an engine that answered\n"
    )
    assert (
        shapes("choose", tmp_path / "none", "--max-num-seqs=64")[2]
        == f"error: {tmp_path}/none: No such file or directory\n"
    )


def test_a_wrong_command_line_is_exit_code_2(tmp_path: Path) -> None:
    assert shapes("choose", tmp_path / "x")[0] == 2
    assert shapes("choose", tmp_path / "x", "--max-num-seqs=0")[0] == 2
