"""How long a start waits for another's bundle: a table of cases, and what holds for all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.cache.following import MOST_S, Known, may_wait

NOTHING = Known()


@pytest.mark.parametrize(
    ("known", "held_s", "waited_s", "awaited", "most_s", "more_s"),
    [
        # nothing is known: 30 s are saved, the bundle is there 50 s after the other began
        (NOTHING, 0, 0, True, 600, 0),  # a request waits, and compiling takes half as long
        (NOTHING, 0, 0, None, 600, 0),  # nobody can tell: as if one waited
        (NOTHING, 0, 0, False, 600, 60),  # late by 30 s at most, for 30 s of compiling spared
        (NOTHING, 19, 0, True, 600, 0),
        (NOTHING, 20, 0, True, 600, 30),  # as soon by waiting as by compiling
        (NOTHING, 35, 0, True, 600, 30),
        (NOTHING, None, 0, True, 600, 0),  # who does not say since when has only begun
        # what the service's own starts took
        (Known(28, 45), 0, 0, False, 600, 56),
        (Known(28, 45), 20, 0, True, 600, 28),
        (Known(3, 20), 0, 0, False, 600, 0),  # compiling is cheaper than waiting, whoever waits
        (Known(3, 20), 16, 0, False, 600, 6),
        (Known(0, 20), 19, 0, False, 600, 0),  # nothing is compiled (eager)
        (Known(300, 360), 0, 0, False, 600, 600),  # 600 = 2 · 300
        (Known(300, 360), 0, 0, False, 450, 450),  # a quarter of a start timeout of 1800 s
        (Known(300, 500), 0, 0, False, 450, 0),  # it would be in vain
        (Known(900, 1000), 500, 0, False, 2000, 600),  # never more than ten minutes
        (Known(28, None), 0, 0, False, 600, 56),  # 28 + 20 s until it is there
        (Known(19, None), 0, 0, False, 600, 0),
        (Known(None, 45), 0, 0, False, 600, 60),
        # under way
        (Known(28, 45), 30, 30, False, 600, 26),
        (Known(28, 45), 50, 50, False, 600, 6),  # overdue: it may come yet
        (Known(28, 45), 56, 56, False, 600, 0),
        (Known(28, 45), 90, 56.1, False, 600, 0),
        (Known(28, 45), 10, 10, True, 600, 0),  # a request has come meanwhile, and the bundle is 35 s away
        (Known(28, 45), 40, 10, True, 600, 18),  # it is 5 s away
        # the other's clock is ahead of ours
        (Known(28, 45), -4, 0, False, 600, 56),
    ],
)
def test_the_table(
    known: Known, held_s: float | None, waited_s: float, awaited: bool | None, most_s: float, more_s: float
) -> None:
    got = may_wait(known, held_s=held_s, waited_s=waited_s, awaited=awaited, most_s=most_s)
    assert got.more_s == pytest.approx(more_s)


SECONDS = st.floats(0, 1e4)


@given(
    st.builds(Known, st.none() | SECONDS, st.none() | SECONDS),
    st.none() | SECONDS,
    SECONDS,
    st.sampled_from([True, False, None]),
    SECONDS,
)
def test_what_always_holds(
    known: Known, held_s: float | None, waited_s: float, awaited: bool | None, most_s: float
) -> None:
    got = may_wait(known, held_s=held_s, waited_s=waited_s, awaited=awaited, most_s=most_s)
    saves_s = 30.0 if known.saves_s is None else known.saves_s
    assert got.more_s >= 0
    if got.more_s:
        assert waited_s + got.more_s <= min(2 * saves_s, most_s, MOST_S) + 1e-6
        whole_s = saves_s + 20 if known.whole_s is None else known.whole_s
        assert whole_s - (held_s or 0) <= got.more_s + 1e-6, "it waits for nothing that comes too late"
        if awaited is not False:
            assert waited_s + got.more_s <= saves_s + 1e-6, "whom a request waits for is not made later"
    unhurried = may_wait(known, held_s=held_s, waited_s=waited_s, awaited=False, most_s=most_s)
    assert unhurried.more_s >= got.more_s
