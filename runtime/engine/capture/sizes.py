"""The fewest capture sizes that fit the batches which a service has computed. Pure.

A captured CUDA graph computes one number of tokens. A step of fewer is padded up to the next size, one of more than the
largest is computed without a graph. So each size costs the start (it is captured twice: whole, and in pieces), and each
size that is missing costs padding at every step.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

Steps = Mapping[int, float]
"""Tokens of a step (the upper edge of what was counted together) → how many steps, decayed ones as fractions."""

MOST = 16
"""Sizes at most. vLLM's own set for 256 sequences has 51."""
CEILING = 512
"""The largest size of vLLM's own sets (1024 on data-centre Blackwell): memory for graphs grows with the largest."""
SLACK = 0.01
"""Share of the computed tokens that may be padded beyond the goal: fewer sizes are worth it."""
TAIL = 0.01
"""Share of the steps: of steps beyond `max_num_seqs` tokens, which hold prompts, so many may go without a graph."""


def own_sizes(max_num_seqs: int) -> tuple[int, ...]:
    """What vLLM 0.32 captures by itself without speculative decoding (`VllmConfig._set_cudagraph_sizes`).

    8 sequences: 1 2 4 8 16. 256: 1 2 4 8 16 … 248 256 272 … 512, which are 51.
    """
    most = min(2 * max_num_seqs, CEILING)
    strides = (*range(8, min(most + 1, 256), 8), *range(256, most + 1, 16))
    return tuple(sorted({*(size for size in (1, 2, 4, max_num_seqs) if size <= most), *strides}))


def capture_sizes(steps: Steps, max_num_seqs: int, most: int = MOST) -> tuple[int, ...]:
    """The fewest sizes, `most` at most (≥ 3), that pad no more than vLLM's own would, but for SLACK.

    Where so few cannot pad as little, those that pad least, but for SLACK.
    Always in: 1, and `max_num_seqs`, the largest step that only answers. Larger ones only where steps with short
    prompts were seen. Never more sizes than vLLM would capture by itself, and none larger.
    """
    own = own_sizes(max_num_seqs)
    most = min(most, max(len(own), 3))
    values = _candidates(steps, max_num_seqs)
    forced = {1, min(max_num_seqs, CEILING), values[-1]}
    seen = {value: steps.get(value, 0.0) for value in values}
    computed = sum(value * count for value, count in seen.items())
    sets = _best_sets(values, list(seen.values()), forced, most)
    goal = max(min(padded for padded, _ in sets), padding(seen, own) * computed)
    return next(sizes for padded, sizes in sets if padded <= goal + SLACK * computed)


def within(steps: Steps, *several: Sequence[int]) -> Steps:
    """The steps that each of several sets of sizes has a graph for: on those their padding can be compared."""
    most = min(sizes[-1] for sizes in several)
    return {tokens: count for tokens, count in steps.items() if tokens <= most}


def padding(steps: Steps, sizes: Sequence[int]) -> float:
    """Tokens that are padded, per token computed in a graph: 0 where every step has a size of its own."""
    computed, padded = 0.0, 0.0
    for tokens, count in steps.items():
        slot = next((size for size in sizes if size >= tokens), None)
        if slot is not None:
            computed += tokens * count
            padded += (slot - tokens) * count
    return padded / computed if computed else 0.0


def without_graph(steps: Steps, sizes: Sequence[int], max_num_seqs: int) -> float:
    """Of the steps that vLLM's own set has a graph for, the share that these sizes have none for."""
    own = within(steps, own_sizes(max_num_seqs))
    total = sum(own.values())
    return sum(count for tokens, count in own.items() if tokens > sizes[-1]) / total if total else 0.0


def _candidates(steps: Steps, max_num_seqs: int) -> list[int]:
    """A best set lies on steps that were seen: between two of them a size only pads more."""
    answers, reach = min(max_num_seqs, CEILING), own_sizes(max_num_seqs)[-1]
    seen = sorted(tokens for tokens, count in steps.items() if count > 0 and 1 <= tokens <= reach)
    spare = TAIL * sum(steps[tokens] for tokens in seen)
    while seen and seen[-1] > answers and steps[seen[-1]] <= spare:
        spare -= steps[seen.pop()]
    return sorted({1, answers, *seen})


def _best_sets(
    values: Sequence[int], counts: Sequence[float], forced: set[int], most: int
) -> list[tuple[float, tuple[int, ...]]]:
    """(padded tokens, sizes) of the best set of each number of sizes, fewest first; exact, by dynamic programming.

    `best[j]` is the best way to have the sizes up to values[j] with values[j] the last of them.
    """
    number = list(accumulate(counts, initial=0.0))
    tokens = list(accumulate((v * c for v, c in zip(values, counts, strict=True)), initial=0.0))
    barrier = list(_last_forced_before(values, forced))

    def cost(before: int, last: int) -> float:
        """Padding of the steps above values[before] up to values[last], all padded to the latter."""
        first = before + 1
        return values[last] * (number[last + 1] - number[first]) - (tokens[last + 1] - tokens[first])

    best: list[tuple[float, tuple[int, ...]]] = [(math.inf, ())] * len(values)
    best[0] = (0.0, (values[0],))
    sets = [best[0]] if len(values) == 1 else []
    for _ in range(min(most, len(values)) - 1):
        best = [
            min(
                ((best[i][0] + cost(i, j), (*best[i][1], values[j])) for i in range(barrier[j], j)),
                default=(math.inf, ()),
            )
            for j in range(len(values))
        ]
        if best[-1][0] < math.inf:
            sets.append(best[-1])
    return sets


def _last_forced_before(values: Sequence[int], forced: set[int]) -> Iterator[int]:
    """For each value the index of the last forced one before it: no set may leap over that."""
    last = 0
    yield 0
    for index, (before, _) in enumerate(pairwise(values)):
        last = index if before in forced else last
        yield last
