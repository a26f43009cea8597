"""What was measured of one optimization level, and what a whole run says. Pure."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import median

LEVELS: Mapping[str, tuple[str, ...]] = {
    "O2": (),
    "O0": ("-O0",),
    "O1": ("-O1",),
    "O3": ("-O3",),
    "eager": ("--enforce-eager",),
}
"""Name → arguments. vLLM's own choice, -O2, is first: the others are told as multiples of it."""
OWN = "O2"


@dataclass(frozen=True, slots=True)
class Measured:
    """One level in one round. `first_s`: spawn of an empty host → first token; `again_s`: the next order → first token.

    `…_cpu_s`: processor seconds of host and engine meanwhile, which a busy machine changes least. `compile_s`: the
    stage `compile` of the first and of the next start. `rates`: tokens a second by answers at a time.
    """

    level: str
    model: str
    round: int
    first_s: float
    again_s: float
    first_cpu_s: float
    again_cpu_s: float
    compile_s: tuple[float, float]
    kinds: tuple[str, str]
    rates: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that was measured, and on what. `failed`: level → why it could not be."""

    measured: tuple[Measured, ...]
    facts: Mapping[str, str]
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def models(self) -> tuple[str, ...]:
        """In the order in which they were measured."""
        return tuple(dict.fromkeys(each.model for each in self.measured))

    def of(self, model: str, level: str) -> "Figures | None":
        """Medians over the rounds; None where it was not measured."""
        found = [each for each in self.measured if (each.model, each.level) == (model, level)]
        if not found:
            return None
        batches = sorted(set.intersection(*(set(each.rates) for each in found)))
        return Figures(
            first_s=median(each.first_s for each in found),
            again_s=median(each.again_s for each in found),
            first_cpu_s=median(each.first_cpu_s for each in found),
            again_cpu_s=median(each.again_cpu_s for each in found),
            compile_s=(median(each.compile_s[0] for each in found), median(each.compile_s[1] for each in found)),
            kinds=found[-1].kinds,
            rates={batch: median(each.rates[batch] for each in found) for batch in batches},
        )


@dataclass(frozen=True, slots=True)
class Figures:
    """The medians of one level."""

    first_s: float
    again_s: float
    first_cpu_s: float
    again_cpu_s: float
    compile_s: tuple[float, float]
    kinds: tuple[str, str]
    rates: Mapping[int, float]

    def beside(self, own: "Figures") -> dict[str, float]:
        """As multiples of vLLM's own level: below 1 is sooner for starts, slower for rates."""
        rates = {f"rate_{batch}": rate / own.rates[batch] for batch, rate in self.rates.items() if batch in own.rates}
        ratios = {
            "first": self.first_s / own.first_s,
            "first_cpu": self.first_cpu_s / own.first_cpu_s,
            "again": self.again_s / own.again_s,
            "again_cpu": self.again_cpu_s / own.again_cpu_s,
            **rates,
        }
        return {name: round(value, 3) for name, value in ratios.items()}


def last_line(run: Run) -> str:
    """The line for programs: model → level → its figures as multiples of vLLM's own."""
    beside = {}
    for model in run.models:
        own = run.of(model, OWN)
        levels = {level: run.of(model, level) for level in LEVELS}
        beside[model] = {
            level: figures.beside(own) for level, figures in levels.items() if figures is not None and own is not None
        }
    return json.dumps({"bench": "levels", "own": OWN, "beside_own": beside, "failed": sorted(run.failed)})


def as_json(run: Run) -> str:
    """Every figure, for a file."""
    return json.dumps(asdict(run), indent=1)
