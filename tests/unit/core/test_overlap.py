"""Overlapping stretches: gaps and the critical path, by a table of cases and by what must hold for any."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator_ext.core.overlap import AT_ONCE_S, Link, Stretch, critical_path, unnamed

TENTHS = st.integers(-20, 120).map(lambda tenth: tenth / 10)
STRETCHES = st.lists(st.tuples(TENTHS, TENTHS).map(lambda ends: Stretch(min(ends), max(ends))), max_size=8)


@pytest.mark.parametrize(
    ("named", "total", "links"),
    [
        pytest.param([], 6, [], id="nothing"),
        pytest.param([(0, 2), (2, 6)], 6, [(0, 0, 2), (1, 2, 6)], id="one after another"),
        pytest.param([(0, 2), (0, 5), (5, 6)], 6, [(1, 0, 5), (2, 5, 6)], id="the longer of two side by side"),
        pytest.param([(0, 5), (3, 5), (5, 6)], 6, [(0, 0, 5), (2, 5, 6)], id="what encloses another"),
        pytest.param([(0, 4), (2, 6)], 6, [(0, 0, 2), (1, 2, 6)], id="begun within another: its part until then"),
        pytest.param([(0, 2), (3, 6)], 6, [(0, 0, 2), (1, 3, 6)], id="a gap"),
        pytest.param([(0, 2), (2.004, 6)], 6, [(0, 0, 2), (1, 2.004, 6)], id="as good as at once"),
        pytest.param([(0, 2.004), (1, 2.0), (2, 6)], 6, [(0, 0, 2), (2, 2, 6)], id="just over the beginning"),
        pytest.param([(-1, 2), (2, 8)], 6, [(0, 0, 2), (1, 2, 6)], id="only what lies within the span"),
        pytest.param([(7, 8), (-3, -1), (4, 4)], 6, [], id="none within, and an empty one"),
    ],
)
def test_the_critical_path(
    named: list[tuple[float, float]], total: float, links: list[tuple[int, float, float]]
) -> None:
    assert critical_path([Stretch(*each) for each in named], total) == [Link(*each) for each in links]


@given(STRETCHES, st.integers(0, 100).map(lambda tenth: tenth / 10))
def test_path_and_gaps_are_the_whole_span(named: list[Stretch], total: float) -> None:
    path = critical_path(named, total)
    gaps = unnamed(named, total)
    for earlier, later in pairwise(path):
        assert earlier.end <= later.begin
    for link in path:
        assert 0 <= link.begin < link.end <= total
        assert named[link.index].begin <= link.begin
        assert link.end <= named[link.index].end
    seconds = sum(link.end - link.begin for link in path) + sum(gap.end - gap.begin for gap in gaps)
    assert seconds == pytest.approx(total, abs=AT_ONCE_S)


@given(STRETCHES)
def test_a_span_without_length_has_no_path(named: list[Stretch]) -> None:
    assert critical_path(named, 0) == []


@pytest.mark.parametrize(
    ("named", "gaps"),
    [
        pytest.param([], [(0, 10)], id="nothing named"),
        pytest.param([(0, 10)], [], id="all named"),
        pytest.param([(0, 12)], [], id="named beyond the end"),
        pytest.param([(2, 4), (6, 8)], [(0, 2), (4, 6), (8, 10)], id="gaps between"),
        pytest.param([(6, 8), (0, 7)], [(8, 10)], id="overlap, any order"),
        pytest.param([(0, 9), (2, 3)], [(9, 10)], id="one within another"),
        pytest.param([(0, 5), (11, 12)], [(5, 10)], id="after the end"),
    ],
)
def test_what_no_stage_covers(named: list[tuple[float, float]], gaps: list[tuple[float, float]]) -> None:
    assert unnamed([Stretch(*each) for each in named], 10) == [Stretch(*each) for each in gaps]
