"""What an engine did with its cache: a table, and the recorded logs of real starts."""

from pathlib import Path

import pytest

from runtime.cache.verdict import Evidence, artifacts, judge
from runtime.contract import Verdict

A, B = "a" * 64, "b" * 64
OF_A = f"torch_compile_cache/torch_aot_compile/{A}/rank_0_0/model"
OF_B = f"torch_compile_cache/torch_aot_compile/{B}/rank_0_0/model"
LOADED = (
    f"(Worker pid=1) INFO 11-29 16:39:06 [decorators.py:319] [backbone] Directly load AOT compilation from path /c/{A}"
)
SAVED = f"(Worker pid=1) INFO 11-29 16:28:00 [decorators.py:743] [backbone] saved AOT compiled function to /c/{A}"
AGAIN = (
    f"(Worker pid=1) WARNING 11-29 16:29:40 [decorators.py:333] [backbone] Compiling model again due to a load failure "
    f"from /c/{A}, reason: Source code has changed"
)
CUDA_LOADED = "INFO [x.py:1] Directly load the compiled graph(s) for compile range (1, 8192) from the cache, took 0.2 s"
CUDA_COMPILED = "INFO [x.py:1] Compiling a graph for compile range (1, 8192) takes 12.1 s"


@pytest.mark.parametrize(
    ("lines", "before", "after", "restored", "expect"),
    [
        pytest.param([LOADED], {OF_A}, {OF_A}, True, Verdict.USED, id="loaded and nothing else"),
        pytest.param([CUDA_LOADED] * 3, {OF_A}, {OF_A}, True, Verdict.USED, id="loaded range by range"),
        pytest.param([LOADED, SAVED], {OF_A}, {OF_A, OF_B}, True, Verdict.PARTLY, id="one model of two"),
        pytest.param([CUDA_LOADED, CUDA_COMPILED], {OF_A}, {OF_A}, True, Verdict.PARTLY, id="one range of two"),
        pytest.param([LOADED], {OF_A}, {OF_A, OF_B}, True, Verdict.PARTLY, id="more than the log tells"),
        pytest.param([SAVED], {OF_A}, {OF_A, OF_B}, True, Verdict.RECOMPILED, id="looked under another key"),
        pytest.param([AGAIN, SAVED], {OF_A}, {OF_A}, True, Verdict.RECOMPILED, id="the load failed"),
        pytest.param([], {OF_A}, {OF_A, OF_B}, True, Verdict.RECOMPILED, id="compiled without a word"),
        pytest.param([], {OF_A}, {OF_A}, True, Verdict.ABSENT, id="eager: nothing was asked of it"),
        pytest.param([SAVED], set(), {OF_A}, False, Verdict.ABSENT, id="nothing was there"),
    ],
)
def test_verdicts(lines: list[str], before: set[str], after: set[str], restored: bool, expect: Verdict) -> None:
    evidence = Evidence(before=frozenset(before), after=frozenset(after))
    for line in lines:
        evidence.line(line)
    assert judge(evidence, restored=restored)[0] is expect


def test_a_bundle_left_alone_is_said() -> None:
    assert judge(Evidence(compiled=1), restored=False, quarantined=True)[0] is Verdict.QUARANTINED


def test_the_reason_of_a_failed_load_and_the_place_that_was_missed_are_told() -> None:
    evidence = Evidence(before=frozenset({OF_A}), after=frozenset({OF_A, OF_B}))
    evidence.line(AGAIN)
    verdict, why = judge(evidence, restored=True)
    assert verdict is Verdict.RECOMPILED
    assert "Source code has changed" in why
    assert OF_A in why


def test_artifacts_are_keys_not_files() -> None:
    listed = [
        OF_A,
        f"torch_compile_cache/torch_aot_compile/{A}/inductor_cache/x/y.py",
        "torch_compile_cache/0123456789/rank_0_0/backbone/graph",
        "triton_cache/ABC/kernel.json",
        "triton_cache/ABC/kernel.cubin",
        "modelinfos/llama.json",
    ]
    assert artifacts(listed) == {
        OF_A,
        "torch_compile_cache/0123456789/rank_0_0/backbone",
        "triton_cache/ABC",
    }


@pytest.mark.parametrize(("name", "loaded", "compiled"), [("cpu_cold", 0, 1), ("cpu_warm", 0, 1)])
def test_recorded_starts(name: str, loaded: int, compiled: int) -> None:
    evidence = Evidence()
    for line in (Path(__file__).parents[3] / "data" / "starts" / f"{name}.log").read_text().splitlines():
        evidence.line(line)
    assert (evidence.loaded, evidence.compiled) == (loaded, compiled)
