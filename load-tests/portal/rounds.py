"""Rounds: each subject in turn, again and again, and what they say together. Pure but for calling the measure.

On a machine with other work a figure of one minute cannot be compared with that of the next. So turns are short,
each round begins with another one, and what is compared are values of the same round; of the rounds' comparisons the
median counts.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TypeVar

S = TypeVar("S")

Rounds = Sequence[Mapping[str, S]]
"""For each round the sample of each subject, by name."""


def play(
    names: Sequence[str], rounds: int, measure: Callable[[str], S], done: Callable[[int, Mapping[str, S]], None]
) -> list[dict[str, S]]:
    """Measure each name once a round; `done` hears of each round, counted from 1."""
    played: list[dict[str, S]] = []
    for number in range(rounds):
        at = number % len(names)
        samples = {name: measure(name) for name in (*names[at:], *names[:at])}
        played.append({name: samples[name] for name in names})
        done(number + 1, played[-1])
    return played


def values(rounds: Rounds[S], name: str, of: Callable[[S], float]) -> list[float]:
    """One figure of one subject, round by round."""
    return [of(samples[name]) for samples in rounds]


def middle(rounds: Rounds[S], name: str, of: Callable[[S], float]) -> float:
    """The median of it."""
    return median(values(rounds, name, of))


def ratio(rounds: Rounds[S], name: str, to: str, of: Callable[[S], float]) -> float:
    """The median of the rounds' own ratios."""
    return median(a / b for a, b in zip(values(rounds, name, of), values(rounds, to, of), strict=True))


def difference(rounds: Rounds[S], name: str, to: str, of: Callable[[S], float]) -> float:
    """The median of the rounds' own differences."""
    return median(a - b for a, b in zip(values(rounds, name, of), values(rounds, to, of), strict=True))
