"""What a service's own arguments leave to us."""

from typing import Literal

import pytest

from runtime.contract import EngineSpec
from runtime.engine.capture.given import Given, given


def spec(*args: str, platform: Literal["cpu", "cuda"] = "cuda") -> EngineSpec:
    return EngineSpec(service="team/chat", served_names=("chat",), model="/m", args=args, platform=platform)


LIMITS: dict[str, tuple[tuple[str, ...], int]] = {
    "none": ((), 256),
    "given": (("--max-num-seqs", "32"), 32),
    "joined": (("--max_num_seqs=32",), 32),
    "last": (("--max-num-seqs=32", "--max-num-seqs=8"), 8),
    "human": (("--max-num-seqs=1k",), 1000),
    "zero": (("--max-num-seqs=0",), 1),
    "words": (("--max-num-seqs=many",), 256),
}


@pytest.mark.parametrize(("args", "seqs"), LIMITS.values(), ids=LIMITS.keys())
def test_the_limit(args: tuple[str, ...], seqs: int) -> None:
    assert given(spec(*args)) == Given(seqs)


REASONS: dict[str, tuple[tuple[str, ...], str]] = {
    "sizes": (("--cudagraph-capture-sizes", "1", "2"), "the service gives its own"),
    "abbreviated": (("--cudagraph_capture=1",), "the service gives its own"),
    "largest": (("--max-cudagraph-capture-size=8",), "largest size"),
    "config": (("--compilation-config", "{}"), "compilation config"),
    "nested": (("-cc.cudagraph_mode=NONE",), "compilation config"),
    "eager": (("--enforce-eager",), "eager"),
    "O0": (("-O0",), "-O0"),
    "level": (("--optimization-level", "0"), "-O0"),
    "interactivity": (("--performance-mode=interactivity",), "performance mode"),
    "speculative": (("--speculative-config", '{"method": "ngram", "num_speculative_tokens": 3}'), "draft"),
}


@pytest.mark.parametrize(("args", "why"), REASONS.values(), ids=REASONS.keys())
def test_the_service_s_own_word_counts(args: tuple[str, ...], why: str) -> None:
    found = given(spec(*args))
    assert found.why_not is not None
    assert why in found.why_not


def test_levels_with_graphs_leave_them_to_us() -> None:
    assert given(spec("-O1")).why_not is None
    assert given(spec("--no-enforce-eager")).why_not is None


def test_a_cpu_captures_none() -> None:
    assert given(spec(platform="cpu")).why_not == "a CPU captures no graphs"
