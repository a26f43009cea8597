"""What the run does, in which order and how long each step may take. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from runtime.engine.capture.sizes import Steps, capture_sizes

TOTAL_S = 480.0
"""All of it: eight minutes."""
ENDING_S = 25.0
"""Of what is left kept back: engines that a step's limit cuts off must be gone within the eight minutes, too."""
LEAST_S = 20.0
"""A step that could take no longer than this is not begun."""
MAX_NUM_SEQS = 256
ARGS = (
    *("--max-model-len=2048", f"--max-num-seqs={MAX_NUM_SEQS}", "--dtype=bfloat16"),
    # Of a GPU that others may use; the model takes a gigabyte.
    *("--gpu-memory-utilization=0.5", "--seed=1"),
)
BATCHES = 4
"""Sizes at which tokens a second are measured: those that hold the most of the observed tokens."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `args`: what its engine has beside ARGS, None where it is none of stock vLLM's. `limit_s`: at most."""

    name: str
    limit_s: float
    shows: str
    args: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """A step of this run and how long it may take now; `skipped` says why it is not taken."""

    step: Step
    limit_s: float
    skipped: str | None = None


def steps(histogram: Steps) -> tuple[Step, ...]:
    """All steps, those first that nothing else can show."""
    sizes = capture_sizes(histogram, MAX_NUM_SEQS)
    ours = ("--cudagraph-capture-sizes", *map(str, sizes))
    return (
        Step("versions", 15, "GPU, driver, CUDA, vLLM, torch"),
        Step("sizes-vllm", 90, "vLLM's own capture sizes: capture seconds, graph memory, tokens/s", ()),
        Step("sizes-ours", 80, f"sizes by the histogram ({' '.join(map(str, sizes))}): the same figures", ours),
        Step("bundle-and-fork", 140, "verdict of a restored bundle, a fork before CUDA, the same answer"),
        Step("eager", 40, "--enforce-eager: start and tokens/s", ("--enforce-eager",)),
        Step("O0", 40, "-O0: start and tokens/s", ("-O0",)),
        Step("O1", 60, "-O1: start and tokens/s; -O3 is -O2, vLLM's own, by its documentation", ("-O1",)),
    )


def turn(step: Step, done: Collection[str], left_s: float) -> Turn:
    """Whether a step is taken now. `done`: those that an earlier run has finished."""
    if step.name in done:
        return Turn(step, 0.0, "done by an earlier run")
    limit_s = min(step.limit_s, left_s - ENDING_S)
    if limit_s < min(step.limit_s, LEAST_S):
        return Turn(step, 0.0, "no time left: run it again with the same --out")
    return Turn(step, limit_s)


def observed_batches(histogram: Steps, most: int = BATCHES) -> tuple[int, ...]:
    """The sizes, ascending, that hold the most tokens of steps which only answer."""
    tokens: Mapping[int, float] = {size: size * n for size, n in histogram.items() if size <= MAX_NUM_SEQS and n > 0}
    return tuple(sorted(sorted(tokens, key=lambda size: (-tokens[size], size))[:most])) or (1,)
