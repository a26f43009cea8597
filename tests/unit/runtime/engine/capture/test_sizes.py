"""Which sizes are captured: worked cases, and what must hold of any batches."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.engine.capture.sizes import (
    CEILING,
    MOST,
    SLACK,
    Steps,
    capture_sizes,
    own_sizes,
    padding,
    without_graph,
)

CASES: dict[str, tuple[Steps, int, tuple[int, ...]]] = {
    # 1 and the limit are always in, whatever was seen.
    "nothing seen": ({}, 64, (1, 64)),
    "one sequence": ({1: 500.0}, 1, (1,)),
    "one at a time": ({1: 5000.0}, 256, (1, 256)),
    # 3 of its own saves 5 × 100 tokens of 300; without it they would be padded to 8.
    "threes": ({1: 100.0, 3: 100.0}, 8, (1, 3, 8)),
    # 7 padded to 8 is one token in 700: less than SLACK.
    "nearly eight": ({1: 100.0, 7: 1.0, 8: 86.0}, 8, (1, 8)),
    # vLLM's own pad 5 and 6 to 8, 16 % of the tokens; ours need no size of their own for 5 either.
    "as vLLM's own": ({1: 100.0, 5: 10.0, 6: 10.0, 8: 10.0}, 8, (1, 8)),
    # Steps with short prompts: 16 is within what vLLM captures for 8 sequences, 17 is not.
    "short prompts": ({1: 100.0, 16: 50.0}, 8, (1, 8, 16)),
    "beyond vLLM's own": ({1: 100.0, 17: 50.0}, 8, (1, 8)),
    # Of 1000 steps, 5 of 500 tokens may go without a graph: the largest size costs the most memory.
    "a stray prompt": ({1: 495.0, 64: 500.0, 500: 5.0}, 256, (1, 64, 256)),
    "beyond the ceiling": ({1: 1000.0, 600: 1000.0}, 1024, (1, 512)),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "seqs", "sizes"), CASES.values(), ids=CASES.keys())
def test_sizes(steps: Steps, seqs: int, sizes: tuple[int, ...]) -> None:
    assert capture_sizes(steps, seqs) == sizes


OWN = {1: (1, 2), 2: (1, 2, 4), 6: (1, 2, 4, 6, 8), 8: (1, 2, 4, 8, 16), 20: (1, 2, 4, 8, 16, 20, 24, 32, 40)}


@pytest.mark.parametrize(("seqs", "sizes"), OWN.items())
def test_vllm_s_own_sizes(seqs: int, sizes: tuple[int, ...]) -> None:
    """tests/engine/test_capture.py asks vLLM for the same."""
    assert own_sizes(seqs) == sizes


def test_vllm_s_own_sizes_are_many() -> None:
    assert (len(own_sizes(256)), own_sizes(256)[-1], own_sizes(1024)[-1]) == (51, 512, CEILING)


steps_seen = st.dictionaries(
    st.integers(1, 700), st.floats(0, 1e6, allow_nan=False).map(lambda count: round(count, 3)), max_size=40
)
limits = st.integers(1, 600)


@given(steps=steps_seen, seqs=limits, most=st.integers(3, MOST))
def test_bounded_and_whole(steps: Steps, seqs: int, most: int) -> None:
    sizes = capture_sizes(steps, seqs, most)
    assert list(sizes) == sorted(set(sizes))
    assert len(sizes) <= min(most, len(own_sizes(seqs)))
    assert sizes[0] == 1
    assert min(seqs, CEILING) in sizes
    assert sizes[-1] <= own_sizes(seqs)[-1]


@given(steps=steps_seen, seqs=limits)
def test_every_step_that_only_answers_has_a_graph(steps: Steps, seqs: int) -> None:
    answers = {tokens: count for tokens, count in steps.items() if tokens <= min(seqs, CEILING)}
    assert without_graph(answers, capture_sizes(steps, seqs), seqs) == 0.0


@given(steps=steps_seen, seqs=limits)
def test_few_steps_that_vllm_would_have_a_graph_for_go_without(steps: Steps, seqs: int) -> None:
    assert without_graph(steps, capture_sizes(steps, seqs), seqs) <= 0.01 + 1e-9


@given(steps=steps_seen, seqs=limits, factor=st.floats(0.1, 100))
def test_only_shares_count(steps: Steps, seqs: int, factor: float) -> None:
    """Decay and a longer look change all counts alike, and no size."""
    scaled = {tokens: count * factor for tokens, count in steps.items()}
    ours, theirs = capture_sizes(steps, seqs), capture_sizes(scaled, seqs)
    assert ours == theirs or abs(padding(steps, ours) - padding(steps, theirs)) <= SLACK + 1e-6


small = st.dictionaries(st.integers(1, 24), st.integers(1, 50).map(float), min_size=1, max_size=7)


@settings(max_examples=60)
@given(steps=small, seqs=st.integers(1, 24), most=st.integers(3, 5))
def test_no_other_set_is_better(steps: Steps, seqs: int, most: int) -> None:
    """Beside every set there is: within SLACK of vLLM's own or of the least, and none so good has fewer sizes."""
    sizes = capture_sizes(steps, seqs, most)
    most = min(most, max(len(own_sizes(seqs)), 3))
    covered = {tokens: count for tokens, count in steps.items() if tokens <= sizes[-1]}
    forced = {1, seqs, sizes[-1]}
    free = [size for size in range(1, sizes[-1]) if size not in forced]
    sets = [
        tuple(sorted({*forced, *chosen}))
        for number in range(most - len(forced) + 1)
        for chosen in combinations(free, number)
    ]
    least = min(padding(covered, other) for other in sets)
    goal = max(least, padding(covered, own_sizes(seqs))) + SLACK
    assert padding(covered, sizes) <= goal + 1e-9
    fewer = [other for other in sets if len(other) < len(sizes)]
    assert all(padding(covered, other) > goal - 1e-9 for other in fewer)


def test_padding_by_hand() -> None:
    """10 steps of 3 to 4, 10 of 4 to 4, one of 9 without a graph: 10 tokens of 70."""
    assert padding({3: 10.0, 4: 10.0, 9: 1.0}, (1, 4)) == pytest.approx(10 / 70)
    assert without_graph({3: 10.0, 4: 10.0, 9: 5.0, 64: 100.0}, (1, 4), 8) == pytest.approx(5 / 25)


def test_nothing_seen_is_nothing_padded() -> None:
    assert (padding({}, (1,)), without_graph({}, (1,), 8)) == (0.0, 0.0)
