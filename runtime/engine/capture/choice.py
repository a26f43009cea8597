"""Whether a service's engines keep their capture sizes or get others. Pure.

The sizes enter vLLM's compile key: with others the next start compiles once, and bundles made before are of no use to
it. So they change only where that pays at every later start or step.
"""

from dataclasses import dataclass

from runtime.engine.capture.sizes import Steps, capture_sizes, own_sizes, padding, within, without_graph

ENOUGH_STEPS = 1000.0
"""Steps below which nothing is concluded: a few answers' worth."""
FEWER = 0.5
"""A first set has at most this share of the number that vLLM would capture by itself: time and memory of each start."""
MORE_PADDING = 0.02
"""… and pads at most so much more per computed token than vLLM's own."""
SAVED = 0.10
"""Padding per computed token that another set must save: then a compile is paid back by faster steps."""
GRAPHLESS = 0.05
"""Share of steps that another set must bring a graph to."""


@dataclass(frozen=True, slots=True)
class Choice:
    """`sizes` None: vLLM's own. `why`: one line with the figures."""

    sizes: tuple[int, ...] | None
    why: str


def choose(steps: Steps, max_num_seqs: int, present: tuple[int, ...] | None) -> Choice:
    """The sizes of the next start. `present`: those chosen before for this `max_num_seqs`, None for vLLM's own."""
    seen = sum(steps.values())
    own = own_sizes(max_num_seqs)
    if seen < ENOUGH_STEPS:
        kept = "vLLM's own sizes" if present is None else f"{_told(present)}, as before"
        return Choice(present, f"{kept}: {seen:.0f} steps seen, fewer than {ENOUGH_STEPS:.0f}")
    best, held = capture_sizes(steps, max_num_seqs), present or own
    alike = within(steps, best, held)
    before, after = padding(alike, held), padding(alike, best)
    graphs = without_graph(steps, held, max_num_seqs) - without_graph(steps, best, max_num_seqs)
    figures = f"of {seen:.0f} steps: {after:.1%} padded; vLLM's own {len(own)} sizes: {padding(alike, own):.1%}"
    fewer = present is None and len(best) <= FEWER * len(own) and after <= before + MORE_PADDING
    if best == present or fewer or before - after >= SAVED or graphs >= GRAPHLESS:
        return Choice(best, f"{_told(best)} {figures}")
    kept = "vLLM's own sizes" if present is None else f"{_told(present)}, as before, {before:.1%} padded"
    return Choice(present, f"{kept}; too little is won by {_told(best)} {figures}")


def _told(sizes: tuple[int, ...]) -> str:
    return " ".join(map(str, sizes))
