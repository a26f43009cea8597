"""How engines lie and fail, and how often: drawn for each start."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any


@dataclass(frozen=True)
class Ways:
    """How one engine behaves; the default is an honest one. Times count from its spawn unless said otherwise."""

    start_s: float = 5.0
    listens_s: float | None = None
    """Says healthy from then on, though it is not warm (None: only when it is warm)."""
    dies_s: float | None = None
    dies_at_first_request: bool = False
    dies_ready_s: float | None = None
    """So long after it gave its last golden answer."""
    unsteady: bool = False
    wrong_golden: bool = False
    other_names: bool = False
    hangs: bool = False
    port_taken: bool = False
    ignores_sigterm: bool = False
    silent_metrics: bool = False
    freezes_s: float | None = None
    """So long after it gave its last golden answer it does nothing any more, and lives on."""
    resets: float = 0.0
    """The share of requests whose connection it closes without an answer."""
    answer_s: float = 0.5

    def faults(self) -> list[str]:
        """The names of its ways that are not the default's, for a trace."""
        return [name for name in self.__dataclass_fields__ if getattr(self, name) != getattr(Ways(), name)]


def draw_ways(random: Random, bad: float) -> Ways:
    """Ways of one engine; with probability `bad` it lies or fails in some way."""
    start_s = min(random.lognormvariate(1.2, 0.8), 60.0)
    fields: dict[str, Any] = {"start_s": start_s, "answer_s": min(random.lognormvariate(-0.5, 1.2), 20.0)}
    if random.random() < 0.5:
        fields["listens_s"] = start_s * random.random()
    if random.random() < bad:
        fields |= random.choice(_LIES)(random, start_s)
    return Ways(**fields)


_LIES: tuple[Callable[[Random, float], dict[str, Any]], ...] = (
    lambda r, s: {"dies_s": s * r.random()},
    lambda r, s: {"dies_at_first_request": True, "listens_s": s * r.random()},
    lambda r, _: {"dies_ready_s": r.choice((0.0, 0.01, 0.2, 3.0, 30.0))},
    lambda r, _: {"unsteady": True},
    lambda r, _: {"wrong_golden": True},
    lambda r, _: {"other_names": True},
    lambda r, _: {"hangs": True},
    lambda r, _: {"port_taken": True},
    lambda r, _: {"ignores_sigterm": True},
    lambda r, _: {"silent_metrics": True},
    lambda r, _: {"freezes_s": r.choice((0.0, 5.0, 20.0))},
    lambda r, _: {"resets": 0.3},
    lambda r, s: {"start_s": 2 * s},
)
