"""What the run on a GPU would do, and that it ends in eight minutes. Nothing here has a GPU."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.__main__ import HISTOGRAM, main, take
from gpu.plan import ENDING_S, LEAST_S, MAX_NUM_SEQS, TOTAL_S, Step, observed_batches, steps, turn
from gpu.results import Result, append, read, setup_of
from runtime.engine.capture.record import read as read_record
from runtime.engine.capture.sizes import own_sizes
from start.measured import BenchFailed

QUIET = {1: 6000.0, 4: 2000.0, 512: 50.0}
STEP = Step("one", 60.0, "something", ())


def test_all_steps_fit_into_eight_minutes() -> None:
    assert TOTAL_S == 480.0
    assert sum(step.limit_s for step in steps(QUIET)) + ENDING_S <= TOTAL_S + 10


def test_what_only_a_gpu_shows_comes_first() -> None:
    assert [step.name for step in steps(QUIET)][:4] == ["versions", "sizes-vllm", "sizes-ours", "bundle-and-fork"]


def test_sizes_are_those_of_the_histogram() -> None:
    ours = next(step for step in steps(QUIET) if step.name == "sizes-ours")
    assert ours.args == ("--cudagraph-capture-sizes", "1", "4", "256")


def test_the_recorded_histogram_has_fewer_sizes_than_vllm_s_own() -> None:
    recorded = read_record(HISTOGRAM).steps
    assert sum(recorded.values()) > 1000
    ours = next(step for step in steps(recorded) if step.name == "sizes-ours")
    assert ours.args is not None
    assert len(ours.args) - 1 < len(own_sizes(MAX_NUM_SEQS)) / 2


@given(left_s=st.floats(0, 480), limit_s=st.floats(1, 200))
def test_no_step_is_given_more_than_is_left(left_s: float, limit_s: float) -> None:
    found = turn(Step("x", limit_s, ""), (), left_s)
    if found.skipped is None:
        assert 0 < found.limit_s <= min(limit_s, left_s - ENDING_S)
        assert found.limit_s >= min(limit_s, LEAST_S)
    else:
        assert left_s - ENDING_S < min(limit_s, LEAST_S)


def test_a_step_that_is_done_is_not_taken_again() -> None:
    assert turn(STEP, {"one"}, 400.0).skipped == "done by an earlier run"


BATCHES: dict[str, tuple[dict[int, float], tuple[int, ...]]] = {
    "most tokens": ({1: 1000.0, 2: 10.0, 8: 500.0, 16: 400.0, 64: 300.0, 512: 9000.0}, (1, 8, 16, 64)),
    "fewer": ({3: 5.0}, (3,)),
    "prompts only": ({512: 5.0}, (1,)),
}


@pytest.mark.parametrize(("histogram", "batches"), BATCHES.values(), ids=BATCHES.keys())
def test_rates_are_measured_at_the_batches_that_were_seen(
    histogram: dict[int, float], batches: tuple[int, ...]
) -> None:
    assert observed_batches(histogram) == batches


def test_a_dry_run_needs_no_gpu_and_tells_every_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "at most 480 s in all" in said
    assert all(f"{step.name} " in said for step in steps(QUIET))
    assert "vllm serve MODEL … --cudagraph-capture-sizes 1 " in said


def test_without_a_gpu_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["--out", str(tmp_path / "out")]) == 1
    assert "no NVIDIA GPU answers" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("argv", [["--only", "everything"], ["--histogram", "/nowhere"]])
def test_wrong_arguments_are_refused(argv: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2


def result(step: str, error: str | None = None, setup: str = "s") -> Result:
    return Result(step, setup, 1.0, {"start_s": 2.0}, error)


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    out = tmp_path / "out"
    append(out, result("one", "failed"))
    append(out, result("two"))
    append(out, result("one"))
    assert read(out, "s") == (result("one"), result("two"))
    assert read(tmp_path / "none", "s") == ()


def test_a_line_that_was_cut_off_is_no_result_and_is_mended(tmp_path: Path) -> None:
    out = tmp_path / "out"
    append(out, result("one"))
    with out.open("a") as file:
        file.write(result("two").line[:20])
    assert read(out, "s") == (result("one"),)
    append(out, result("two"))
    assert read(out, "s") == (result("one"), result("two"))


def test_another_setup_or_file_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    append(out, result("one", setup="other"))
    with pytest.raises(BenchFailed, match="another GPU"):
        read(out, "s")
    out.write_text("a letter\nto somebody\n")
    with pytest.raises(BenchFailed, match=r"out:1 is no result"):
        read(out, "s")


def test_a_setup_is_all_that_must_be_alike() -> None:
    one = setup_of({"vllm": "1"}, ["--a"], {1: 2.0}, "d")
    others = (({"vllm": "2"}, ["--a"], {1: 2.0}, "d"), ({"vllm": "1"}, ["--b"], {1: 2.0}, "d"))
    assert one not in {setup_of(*other) for other in others}
    assert one == setup_of({"vllm": "1"}, ["--a"], {1: 2.0}, "d")


def test_a_run_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    """One step fails, two succeed; the next run takes only the one that failed."""
    asked: list[str] = []

    def measure(step: Step, _: Path) -> dict[str, Any]:
        asked.append(step.name)
        if step.name == "b" and asked.count("b") == 1:
            raise BenchFailed("vLLM: the process has ended")
        return {"start_s": 1.0}

    plan = [Step(name, 30.0, "") for name in ("a", "b", "c")]
    first = take(plan, (), "s", tmp_path / "out", measure, tmp_path / "1", time.monotonic())
    assert [r.error for r in first] == [None, "vLLM: the process has ended", None]
    second = take(plan, read(tmp_path / "out", "s"), "s", tmp_path / "out", measure, tmp_path / "2", time.monotonic())
    assert asked == ["a", "b", "c", "b"]
    assert [r.error for r in second] == [None, None, None]
    assert [json.loads(line)["step"] for line in (tmp_path / "out").read_text().splitlines()] == ["a", "b", "c", "b"]


def test_nothing_is_begun_once_the_time_is_over(tmp_path: Path) -> None:
    def measure(step: Step, _: Path) -> dict[str, Any]:
        raise AssertionError(step)

    assert take([STEP], (), "s", tmp_path / "out", measure, tmp_path, time.monotonic() - TOTAL_S) == ()


def test_a_step_that_takes_too_long_is_ended_by_its_limit(tmp_path: Path) -> None:
    def measure(_: Step, __: Path) -> dict[str, Any]:
        while True:
            pass

    (found,) = take([Step("slow", 0.05, "")], (), "s", tmp_path / "out", measure, tmp_path, time.monotonic())
    assert found.error == "slow: not done after 0 s"
