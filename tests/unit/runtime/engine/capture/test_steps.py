"""The engine's own counters → steps by their tokens."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.engine.capture.steps import BUCKET_ARGS, FINE, Tally, steps_of

METRICS = """\
# HELP vllm:iteration_tokens_total Histogram of number of tokens per engine_step.
# TYPE vllm:iteration_tokens_total histogram
vllm:iteration_tokens_total_bucket{engine="0",le="1.0",model_name="a/b"} 100.0
vllm:iteration_tokens_total_bucket{engine="0",le="8.0",model_name="a/b"} 130.0
vllm:iteration_tokens_total_bucket{engine="0",le="16.0",model_name="a/b"} 130.0
vllm:iteration_tokens_total_bucket{engine="0",le="1024.0",model_name="a/b"} 140.0
vllm:iteration_tokens_total_bucket{engine="0",le="+Inf",model_name="a/b"} 142.0
vllm:iteration_tokens_total_count{engine="0",model_name="a/b"} 142.0
vllm:iteration_tokens_total_sum{engine="0",model_name="a/b"} 9000.0
vllm:request_prompt_tokens_bucket{engine="0",le="1.0",model_name="a/b"} 7.0
"""


def test_cumulative_counts_become_steps() -> None:
    assert steps_of(METRICS) == {1: 100.0, 8: 30.0, 1024: 10.0}


def test_engine_cores_add_up() -> None:
    second = METRICS.replace('engine="0"', 'engine="1"')
    assert steps_of(METRICS + second) == {1: 200.0, 8: 60.0, 1024: 20.0}


def test_metrics_without_them_tell_nothing() -> None:
    assert steps_of("") == {}
    assert steps_of("vllm:num_requests_running 3.0\n") == {}


ODD = {
    "no number": ("16.0", "1.2.3"),
    "beyond all numbers": ("16.0", "1e999"),
    "no edge": ("sixteen", "5.0"),
    "an edge beyond all numbers": ("1e999", "5.0"),
    "negative": ("16.0", "-5.0"),
}


@pytest.mark.parametrize(("edge", "count"), ODD.values(), ids=ODD.keys())
def test_what_is_no_count_is_passed_over(edge: str, count: str) -> None:
    assert steps_of(f'vllm:iteration_tokens_total_bucket{{le="{edge}"}} {count}\n') == {}


def test_an_edge_between_two_sizes_is_the_larger_one() -> None:
    """A service's own edges may be of any kind; no step has half a token, or none."""
    assert steps_of(
        'vllm:iteration_tokens_total_bucket{le="0.5"} 5.0\nvllm:iteration_tokens_total_bucket{le="2.5"} 7\n'
    ) == {
        1: 5.0,
        3: 2.0,
    }


@given(st.text(max_size=200))
def test_no_text_raises(text: str) -> None:
    steps_of(text)


def test_edges_lie_close() -> None:
    """What is counted together differs by less than an eighth; each size up to 16 is told apart."""
    assert FINE[:16] == tuple(range(1, 17))
    assert all(after - before <= after / 8 for before, after in pairwise(FINE[7:]))
    assert FINE[-1] == 512
    flag, value = BUCKET_ARGS
    assert flag == "--custom-histogram-buckets"
    assert json.loads(value)["iteration_tokens"] == [*FINE, 1024, 2048, 4096, 8192, 16384]


def test_a_tally_tells_what_is_new() -> None:
    tally = Tally()
    assert tally.new({1: 20.0}) == {}
    assert tally.new({1: 25.0, 4: 2.0}) == {1: 5.0, 4: 2.0}
    assert tally.new({1: 25.0, 4: 2.0}) == {}
