"""vLLM's startup plan: taken for the arguments it was made with by a start that compiled nothing, else removed."""

import os
from pathlib import Path

import pytest

from runtime.cache.startup_plan import DIRECTORY, ENABLE_ENV, prepare, settle
from runtime.contract import Verdict

ARGS = ("--max-model-len=512", "--gpu-memory-utilization=0.9")


def saved(root: Path) -> Path:
    """What an engine with the variable leaves."""
    plan = root / DIRECTORY / "startup_plan_0123456789abcdef.json"
    plan.parent.mkdir(exist_ok=True)
    plan.write_text('{"schema": 1}')
    return plan


def test_a_start_that_compiles_makes_none(tmp_path: Path) -> None:
    assert prepare(tmp_path, ARGS, compiled=False) == {}


def test_a_start_with_compiled_code_makes_one_and_the_next_takes_it(tmp_path: Path) -> None:
    assert prepare(tmp_path, ARGS, compiled=True) == {ENABLE_ENV: "1"}
    plan = saved(tmp_path)
    settle(tmp_path, ARGS, Verdict.USED)
    assert prepare(tmp_path, ARGS, compiled=True) == {ENABLE_ENV: "1"}
    assert plan.exists()


def test_vllm_s_own_key_would_take_it_at_another_utilization_and_ours_does_not(tmp_path: Path) -> None:
    plan = saved(tmp_path)
    settle(tmp_path, ARGS, Verdict.USED)
    assert prepare(tmp_path, (*ARGS, "--gpu-memory-utilization=0.5"), compiled=True) == {ENABLE_ENV: "1"}
    assert not plan.exists()


def test_of_a_start_that_was_killed_before_its_proof_none_is_taken(tmp_path: Path) -> None:
    plan = saved(tmp_path)
    prepare(tmp_path, ARGS, compiled=True)
    assert not plan.exists()


@pytest.mark.parametrize("verdict", [Verdict.RECOMPILED, Verdict.PARTLY, Verdict.ABSENT, Verdict.QUARANTINED])
def test_what_was_measured_beside_a_compiler_goes(tmp_path: Path, verdict: Verdict) -> None:
    plan = saved(tmp_path)
    settle(tmp_path, ARGS, verdict)
    assert not plan.parent.exists()


def test_a_start_that_made_none_leaves_nothing(tmp_path: Path) -> None:
    settle(tmp_path, ARGS, Verdict.USED)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("told", ["", "{", "[]", "null", "{}", '{"arguments": 7}', '"x"'])
def test_rubbish_is_no_plan(tmp_path: Path, told: str) -> None:
    plan = saved(tmp_path)
    (plan.parent / "made-with.json").write_text(told)
    prepare(tmp_path, ARGS, compiled=True)
    assert not plan.exists()


def test_a_file_in_its_place_is_no_plan(tmp_path: Path) -> None:
    (tmp_path / DIRECTORY).touch()
    assert prepare(tmp_path, ARGS, compiled=True) == {}
    for verdict in Verdict:
        settle(tmp_path, ARGS, verdict)


def test_a_plan_that_cannot_be_removed_is_taken_by_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = saved(tmp_path)
    settle(tmp_path, ARGS, Verdict.USED)

    def busy(*_: object, **__: object) -> None:
        raise OSError(16, os.strerror(16))

    monkeypatch.setattr("shutil.rmtree", busy)
    settle(tmp_path, ARGS, Verdict.RECOMPILED)
    assert plan.exists()
    assert prepare(tmp_path, ARGS, compiled=True) == {}


def test_a_full_disk_costs_the_plan_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = saved(tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", full)
        settle(tmp_path, ARGS, Verdict.USED)
    assert plan.exists()
    prepare(tmp_path, ARGS, compiled=True)
    assert not plan.exists()
