"""When a service's sizes change, and when they stay: each change costs a compile."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from runtime.engine.capture.choice import ENOUGH_STEPS, SAVED, choose
from runtime.engine.capture.record import read
from runtime.engine.capture.sizes import Steps, capture_sizes, own_sizes, padding, within

QUIET = {1: 6000.0, 2: 2000.0, 4: 1000.0, 8: 1000.0}


def test_too_little_seen_is_vllm_s_own() -> None:
    choice = choose({1: 37.0}, 64, None)
    assert choice.sizes is None
    assert choice.why == "vLLM's own sizes: 37 steps seen, fewer than 1000"


def test_too_little_left_keeps_what_was_chosen() -> None:
    choice = choose({1: 37.0}, 64, (1, 8, 64))
    assert choice.sizes == (1, 8, 64)
    assert choice.why == "1 8 64, as before: 37 steps seen, fewer than 1000"


def test_a_first_set_has_at_most_half_of_vllm_s_own_and_pads_no_more() -> None:
    choice = choose(QUIET, 64, None)
    assert choice.sizes == (1, 2, 4, 8, 64)
    assert len(own_sizes(64)) == 19
    assert choice.why == "1 2 4 8 64 of 10000 steps: 0.0% padded; vLLM's own 19 sizes: 0.0%"


def test_nothing_is_won_over_a_small_set_of_vllm_s_own() -> None:
    choice = choose(QUIET, 8, None)
    assert choice.sizes is None
    assert choice.why == (
        "vLLM's own sizes; too little is won by 1 2 4 8 of 10000 steps: 0.0% padded; vLLM's own 5 sizes: 0.0%"
    )


def test_few_sizes_that_would_pad_more_than_vllm_s_own_are_not_chosen() -> None:
    """Every multiple of 8, equally often: vLLM's own has each, and 16 sizes are too few for 32."""
    choice = choose(dict.fromkeys(range(8, 257, 8), 1000.0), 256, None)
    assert choice.sizes is None
    assert choice.why.endswith("of 32000 steps: 4.2% padded; vLLM's own 51 sizes: 0.0%")


def test_what_is_still_the_best_is_told_beside_vllm_s_own() -> None:
    assert choose(QUIET, 64, (1, 2, 4, 8, 64)) == choose(QUIET, 64, None)


def test_another_set_must_save_a_tenth_of_padding() -> None:
    """The service grew from 8 to 24 at a time: 24 padded to 64 is 40 of 24."""
    grown = QUIET | {24: 5000.0}
    choice = choose(grown, 64, (1, 2, 4, 8, 64))
    assert choice.sizes == (1, 2, 4, 8, 24, 64)
    assert choose(QUIET | {24: 100.0}, 64, (1, 2, 4, 8, 64)).sizes == (1, 2, 4, 8, 24, 64)
    kept = choose(QUIET | {24: 50.0}, 64, (1, 2, 4, 8, 64))
    assert kept.sizes == (1, 2, 4, 8, 64)
    assert kept.why == (
        "1 2 4 8 64, as before, 8.6% padded; too little is won by 1 2 4 8 24 64 of 10050 steps: 0.0% padded;"
        " vLLM's own 19 sizes: 0.0%"
    )


def test_another_set_may_bring_graphs_to_steps_without() -> None:
    """128 of one prompt and the answers: beyond 64, within vLLM's own."""
    choice = choose(QUIET | {128: 2000.0}, 64, (1, 2, 4, 8, 64))
    assert choice.sizes == (1, 2, 4, 8, 64, 128)


steps_seen = st.dictionaries(st.integers(1, 600), st.integers(1, 10**6).map(float), max_size=30)


@given(steps=steps_seen, seqs=st.integers(1, 512))
def test_what_was_chosen_stays_while_nothing_changes(steps: Steps, seqs: int) -> None:
    first = choose(steps, seqs, None).sizes
    assert choose(steps, seqs, first).sizes == first


@given(steps=steps_seen, later=steps_seen, seqs=st.integers(1, 512))
def test_a_change_of_mind_is_worth_it(steps: Steps, later: Steps, seqs: int) -> None:
    first = choose(steps, seqs, None).sizes
    then = choose(later, seqs, first).sizes
    if first is None or then == first:
        return
    assert then == capture_sizes(later, seqs)
    assert sum(later.values()) >= ENOUGH_STEPS
    beyond = {tokens: count for tokens, count in later.items() if tokens > first[-1]}
    alike = within(later, first, then)
    assert padding(alike, first) - padding(alike, then) >= SAVED or sum(beyond.values()) > 0


def test_steps_of_a_real_engine() -> None:
    """Recorded on a CPU (load-tests/gpu/README.md): a quarter of the sizes, and as little padding as vLLM's own."""
    recorded = read(Path(__file__).parents[5] / "load-tests" / "gpu" / "steps.json").steps
    choice = choose(recorded, 256, None)
    assert choice.sizes == (1, 2, 4, 6, 9, 14, 22, 32, 40, 72, 128, 160, 256)
    assert choice.why == (
        "1 2 4 6 9 14 22 32 40 72 128 160 256 of 7486 steps: 11.5% padded; vLLM's own 51 sizes: 12.1%"
    )
    assert choose(recorded, 64, None).sizes == (1, 2, 4, 7, 13, 22, 36, 64)
