"""What a run of bench-start says, and which two runs may stand beside each other."""

import json
from dataclasses import replace
from typing import Any

import pytest

from start.findings import Findings, as_json, from_json, last_line, refuse_unlike
from start.measured import BenchFailed, Start
from start.plan import SUBJECTS
from start.report import comparison, tables

FACTS = {"vllm": "0.32.0", "torch": "2.13", "python": "3.11.7", "cpu": "x", "cores": "2", "platform": "cpu"}
SECONDS = {"stock-cold": 60.0, "stock-warm": 30.0, "bundle": 10.0, "fork": 4.0}


def start(subject: str, *, model: str = "tiny", number: int = 1, seconds: float | None = None) -> Start:
    ours = subject in {"bundle", "fork"}
    return Start(
        subject,  # type: ignore[arg-type]  # one of SUBJECTS
        model,
        number,
        SECONDS[subject] if seconds is None else seconds,
        (1, 2, 3),
        {"compile": 1.5},
        attributed=0.99 if ours else None,
        verdict="used" if ours else None,
        compile_s=1.5,
        kind="fork" if subject == "fork" else None,
    )


def found(**changes: Any) -> Findings:
    starts = tuple(start(subject, number=number) for number in (1, 2, 3) for subject in SUBJECTS)
    return replace(Findings(starts, FACTS, {"tiny": "d1"}), **changes)


def test_a_stage_that_ran_beside_a_longer_one_in_every_round_is_in_brackets() -> None:
    assert "(1.50)" not in tables(found())
    others, forks = (
        tuple(each for each in found().starts if (each.subject == "fork") is forked) for forked in (False, True)
    )
    always = tuple(replace(each, beside=("compile",)) for each in forks)
    assert "(1.50)" in tables(found(starts=(*others, *always)))
    assert "(1.50)" not in tables(found(starts=(*others, forks[0], *always[1:])))


def test_the_last_line() -> None:
    assert json.loads(last_line(found())) == {
        "bench": "start",
        "bundle_vs_cold": 6.0,
        "bundle_vs_warm": 3.0,
        "fork_vs_cold": 15.0,
        "fork_vs_warm": 7.5,
        "identical": True,
        "attributed": 0.99,
    }


def test_medians_count_and_the_worst_model() -> None:
    late = start("fork", number=4, seconds=100.0)
    big = tuple(start(subject, model="big", seconds=SECONDS[subject] * 2 + 4) for subject in SUBJECTS)
    both = found(starts=(*found().starts, late, *big))
    assert both.models == ("tiny", "big")
    assert both.times("stock-cold", "fork") == pytest.approx(124 / 12)


def test_other_tokens_are_told() -> None:
    assert found().identical
    assert not found(starts=(*found().starts, replace(start("fork", number=4), tokens=(1, 2, 4)))).identical


def test_a_start_that_did_not_use_its_bundle_is_named() -> None:
    assert found().unused == ()
    recompiled = replace(start("bundle", number=4), verdict="recompiled")
    assert found(starts=(*found().starts, recompiled)).unused == (recompiled,)


def test_a_run_is_read_back() -> None:
    assert from_json(as_json(found()), "x") == found()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 2}', "null"])
def test_rubbish_is_refused(text: str) -> None:
    with pytest.raises(BenchFailed, match="x is no result of this bench"):
        from_json(text, "x")


@pytest.mark.parametrize(
    ("changed", "words"),
    [({"format": 1}, "has format 1"), ({"args": ["--max-model-len=9"]}, "was measured with --max-model-len=9")],
)
def test_another_bench_is_refused(changed: dict[str, object], words: str) -> None:
    with pytest.raises(BenchFailed, match=words):
        from_json(json.dumps(json.loads(as_json(found())) | changed), "x")


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (found(facts={**FACTS, "vllm": "0.33"}), "differ in vllm: 0.32.0 and 0.33"),
        (found(facts={**FACTS, "cores": "4"}), "differ in cores"),
        (found(digests={"tiny": "d2"}), "differ in the content of model tiny"),
        (found(dropped=("tiny",)), "page cache was dropped in one run only"),
        (found(starts=tuple(start(s, model="big") for s in SUBJECTS)), "no model in common"),
    ],
)
def test_unlike_runs_are_not_compared(other: Findings, words: str) -> None:
    with pytest.raises(BenchFailed, match=words):
        refuse_unlike(found(), other)


def test_like_runs_are_compared_and_shown() -> None:
    refuse_unlike(found(), found())
    faster = found(starts=tuple(replace(each, first_token_s=each.first_token_s / 2) for each in found().starts))
    assert "2.00" in comparison(found(), faster)
    shown = tables(found())
    assert "6.00" in shown
    assert "99.0%" in shown
