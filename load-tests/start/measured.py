"""One start as measured: its time to the first token, its stages, what it answered. Pure data."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from start.plan import Subject


class BenchFailed(Exception):
    """The bench cannot go on; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Start:
    """`first_token_s`: spawn (or, for `fork`, the order) to the first token. `stages`: seconds by name.

    `attributed`: the share of T0 → T9 that stages name, for ours. `verdict`, `compile_s`: of the compile cache.
    `beside`: the stages that readiness did not wait for, since something longer ran at the same time.
    """

    subject: Subject
    model: str
    round: int
    first_token_s: float
    tokens: tuple[int, ...]
    stages: Mapping[str, float] = field(default_factory=dict)
    attributed: float | None = None
    verdict: str | None = None
    compile_s: float | None = None
    kind: str | None = None
    beside: tuple[str, ...] = ()
