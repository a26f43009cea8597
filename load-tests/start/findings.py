"""What one run found: its starts, the figures that count, and both as JSON. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from statistics import median

from start.measured import BenchFailed, Start
from start.plan import ARGS, Subject

FORMAT = 2


@dataclass(frozen=True, slots=True)
class Findings:
    """All starts of one run. `facts`: machine, versions, commit; `digests`: model name → digest of its content."""

    starts: tuple[Start, ...]
    facts: Mapping[str, str]
    digests: Mapping[str, str]
    dropped: tuple[str, ...] = ()

    @property
    def models(self) -> tuple[str, ...]:
        """In the order in which they were measured."""
        return tuple(dict.fromkeys(start.model for start in self.starts))

    def of(self, model: str, subject: Subject) -> tuple[Start, ...]:
        """Its starts, round by round."""
        return tuple(start for start in self.starts if (start.model, start.subject) == (model, subject))

    def seconds(self, model: str, subject: Subject) -> float:
        """The median time to the first token."""
        return median(start.first_token_s for start in self.of(model, subject))

    def times(self, peer: Subject, ours: Subject) -> float:
        """How many times faster ours is, at the worst model."""
        return min(self.seconds(model, peer) / self.seconds(model, ours) for model in self.models)

    @property
    def identical(self) -> bool:
        """Whether every start of a model gave the same greedy tokens."""
        return all(len({start.tokens for start in self.starts if start.model == model}) == 1 for model in self.models)

    @property
    def attributed(self) -> float:
        """The least share of T0 → T9 that stages name in a start of ours."""
        return min(start.attributed or 0.0 for start in self.starts if start.subject in {"bundle", "fork"})

    @property
    def unused(self) -> tuple[Start, ...]:
        """Starts of ours whose engine did not use the bundle: they show nothing."""
        ours = (start for start in self.starts if start.subject in {"bundle", "fork"})
        return tuple(start for start in ours if start.verdict != "used")


def last_line(found: Findings) -> str:
    """The line for programs."""
    return json.dumps(
        {
            "bench": "start",
            "bundle_vs_cold": round(found.times("stock-cold", "bundle"), 2),
            "bundle_vs_warm": round(found.times("stock-warm", "bundle"), 2),
            "fork_vs_cold": round(found.times("stock-cold", "fork"), 2),
            "fork_vs_warm": round(found.times("stock-warm", "fork"), 2),
            "identical": found.identical,
            "attributed": round(found.attributed, 3),
        }
    )


def as_json(found: Findings) -> str:
    """Every start, and what it was measured on."""
    return json.dumps(
        {
            "format": FORMAT,
            "facts": dict(found.facts),
            "args": list(ARGS),
            "digests": dict(found.digests),
            "dropped": list(found.dropped),
            "starts": [asdict(start) for start in found.starts],
            "result": json.loads(last_line(found)),
        },
        indent=1,
    )


def from_json(text: str, where: str) -> Findings:
    """A run that was written before. Raises BenchFailed on text that is none of ours, or of other arguments."""
    try:
        told = json.loads(text)
        if told["format"] != FORMAT:
            raise BenchFailed(f"{where} has format {told['format']}, this bench reads {FORMAT}: measure it again")
        if tuple(told["args"]) != ARGS:
            raise BenchFailed(f"{where} was measured with {' '.join(told['args'])}, now it is {' '.join(ARGS)}")
        starts = tuple(
            Start(**{**start, **{name: tuple(start[name]) for name in ("tokens", "beside")}})
            for start in told["starts"]
        )
        return Findings(starts, told["facts"], told["digests"], tuple(told["dropped"]))
    except (ValueError, KeyError, TypeError) as error:
        raise BenchFailed(f"{where} is no result of this bench ({type(error).__name__}: {error})") from error


COMPARED = ("vllm", "torch", "python", "cpu", "cores", "platform")
"""Facts in which two runs must agree for their seconds to mean anything beside each other."""


def refuse_unlike(first: Findings, second: Findings) -> None:
    """Raise BenchFailed, naming the first difference, unless two runs measured the same thing on the same machine."""
    for name in COMPARED:
        if first.facts.get(name) != second.facts.get(name):
            raise BenchFailed(f"the runs differ in {name}: {first.facts.get(name)} and {second.facts.get(name)}")
    for model in sorted({*first.digests} & {*second.digests}):
        if first.digests[model] != second.digests[model]:
            raise BenchFailed(f"the runs differ in the content of model {model}")
    if not {*first.models} & {*second.models}:
        raise BenchFailed("the runs have no model in common")
    if (one := {*first.dropped} & {*second.models}) != ({*second.dropped} & {*first.models}):
        raise BenchFailed(f"the page cache was dropped in one run only ({', '.join(sorted(one)) or 'the second'})")


def spread(values: Iterable[float]) -> tuple[float, float, float]:
    """Median, least, most."""
    known = sorted(values)
    return median(known), known[0], known[-1]
