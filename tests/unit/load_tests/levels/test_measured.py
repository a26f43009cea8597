"""What a run of bench-levels says."""

import json
from dataclasses import replace

import pytest

from levels.__main__ import main
from levels.measured import LEVELS, Measured, Run, as_json, last_line
from levels.report import tables

OWN = Measured(
    level="O2", model="tiny", round=1, first_s=40.0, again_s=8.0, first_cpu_s=30.0, again_cpu_s=4.0,
    compile_s=(10.0, 2.0), kinds=("cold-node", "fork"), rates={1: 100.0, 8: 800.0},
)  # fmt: skip
EAGER = replace(OWN, level="eager", first_s=30.0, first_cpu_s=15.0, compile_s=(0.0, 0.0), rates={1: 50.0, 8: 400.0})


def test_vllm_s_own_level_is_measured_first() -> None:
    assert next(iter(LEVELS)) == "O2"
    assert LEVELS["O2"] == ()


def test_the_last_line_tells_levels_as_multiples_of_vllm_s_own() -> None:
    told = json.loads(last_line(Run((OWN, EAGER), {})))
    assert told == {
        "bench": "levels",
        "own": "O2",
        "beside_own": {
            "tiny": {
                "O2": {"first": 1.0, "first_cpu": 1.0, "again": 1.0, "again_cpu": 1.0, "rate_1": 1.0, "rate_8": 1.0},
                "eager": {
                    "first": 0.75, "first_cpu": 0.5, "again": 1.0, "again_cpu": 1.0, "rate_1": 0.5, "rate_8": 0.5,
                },
            }
        },
        "failed": [],
    }  # fmt: skip


def test_without_vllm_s_own_level_there_is_nothing_to_stand_beside() -> None:
    run = Run((EAGER,), {}, {"tiny O2": "the engine was killed"})
    assert json.loads(last_line(run))["beside_own"] == {"tiny": {}}
    assert json.loads(last_line(run))["failed"] == ["tiny O2"]
    assert "30.0" in tables(run)


def test_rounds_are_told_by_their_median() -> None:
    run = Run((OWN, replace(OWN, round=2, first_s=50.0), replace(OWN, round=3, first_s=400.0)), {})
    figures = run.of("tiny", "O2")
    assert figures is not None
    assert figures.first_s == 50.0
    assert run.of("tiny", "O0") is None


def test_a_batch_that_was_not_measured_each_time_is_left_out() -> None:
    run = Run((OWN, replace(OWN, round=2, rates={1: 120.0})), {})
    figures = run.of("tiny", "O2")
    assert figures is not None
    assert figures.rates == {1: 110.0}


def test_the_table_shows_figures_and_multiples() -> None:
    shown = tables(Run((OWN, EAGER), {}))
    eager = next(line for line in shown.splitlines() if "eager" in line)
    assert "30.0 (× 0.75)" in eager
    assert "50.0 (× 0.50)" in eager
    assert "vLLM's own" in shown


def test_every_figure_is_in_the_file() -> None:
    kept = json.loads(as_json(Run((OWN, EAGER), {"cpu": "x"})))
    assert [each["first_s"] for each in kept["measured"]] == [40.0, 30.0]
    assert kept["facts"] == {"cpu": "x"}


@pytest.mark.parametrize("argv", [["--models", "huge"], ["--levels", "O9"], ["--rounds", "0"]])
def test_wrong_arguments_are_refused(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert "error" in capsys.readouterr().err
