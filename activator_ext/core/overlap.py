"""Stretches of one span of time that overlap: what none of them covers, and which of them its end waited for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

AT_ONCE_S = 0.005
"""What ends so shortly before another begins is taken for its cause: one clock, but several processes' log lines."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Seconds from the beginning of the span: [begin, end)."""

    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Link:
    """A part of a critical path: the stretch at `index` of those given, from `begin` to `end`."""

    index: int
    begin: float
    end: float


def unnamed(named: Iterable[Stretch], total: float) -> list[Stretch]:
    """The parts of [0, total) that none covers; overlapping stretches count once."""
    gaps, reached = [], 0.0
    for stretch in sorted(named, key=lambda each: each.begin):
        if stretch.begin > reached:
            gaps.append(Stretch(reached, min(stretch.begin, total)))
        reached = max(reached, stretch.end)
        if reached >= total:
            return gaps
    return [*gaps, Stretch(reached, total)]


def critical_path(named: Sequence[Stretch], total: float) -> list[Link]:
    """What the end at `total` waited for, from the first to the last; nothing is on it twice at one time.

    Walked backwards: each stretch began when the longest of those that had just ended was over; where none had, it
    began within the one under way longest, of which the part until then counts; where none was, there is a gap, and
    it goes on at what ended last. Only a shorter link shortens the whole.

    Stretches 0–2, 0–5 and 5–6 of 6 s: the second and the third; the first had 3 s to spare.
    """
    links: list[Link] = []
    at = total
    while before := [index for index, each in enumerate(named) if max(each.begin, 0.0) < min(each.end, at)]:
        index = max(before, key=lambda index: _claim(named[index], at))
        chosen = named[index]
        links.append(Link(index, max(chosen.begin, 0.0), min(chosen.end, at)))
        at = links[-1].begin
    return links[::-1]


def _claim(stretch: Stretch, at: float) -> tuple[float, bool, float]:
    """How well `stretch` explains what began at `at`: over just then, or under way, and the longer the better."""
    reached = at if stretch.end >= at - AT_ONCE_S else stretch.end
    return reached, abs(stretch.end - at) <= AT_ONCE_S, -stretch.begin
