"""What a service's own arguments leave to us."""

from typing import Literal

import pytest

from runtime.cache.arguments import argument_inputs
from runtime.cache.compile_inputs import compile_inputs
from runtime.contract import EngineSpec
from runtime.engine.capture.given import Given, given
from runtime.engine.capture.steps import BUCKET_ARGS
from runtime.host.shapes import FLAG


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
    "unreadable": (("-cc.a=" + "[" * 100_000,), "cannot be read"),
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


def test_sizes_are_part_of_the_fingerprint_and_how_steps_are_counted_is_not() -> None:
    """Other sizes have another compile key in vLLM; a bundle of vLLM's own sizes is no bundle of theirs."""
    assert argument_inputs((*BUCKET_ARGS, FLAG, "1", "8"), compile_inputs()) == {
        "cudagraph_capture_sizes": '["1", "8"]'
    }
