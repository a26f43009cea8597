"""The bounds of a transfer."""

import pytest

from runtime.cache.stores.patience import Pace, Patience


def test_a_window_begins_anew_only_when_it_is_full() -> None:
    pace = Pace(Patience(total_s=100, window_s=10, least_bytes=1000), begun_s=0)
    assert pace.until_s() == 10
    pace.moved(4, 999)
    assert pace.until_s() == 10
    pace.moved(6, 1)
    assert pace.until_s() == 16


def test_a_trickle_does_not_outlast_the_whole() -> None:
    pace = Pace(Patience(total_s=15, window_s=10, least_bytes=1), begun_s=0)
    pace.moved(9, 5)
    assert pace.until_s() == 15
    assert "in 15 s, which is all" in pace.complaint(15, 5, 100)


def test_the_complaint_says_what_came() -> None:
    pace = Pace(Patience(total_s=100, window_s=10, least_bytes=1000), begun_s=0)
    assert pace.complaint(10, 7, 100) == "7 of 100 bytes came, then fewer than 1000 in 10 s"


@pytest.mark.parametrize(
    "bad", [Patience.__dataclass_fields__[name].name for name in ("total_s", "window_s", "least_bytes")]
)
def test_bounds_of_nothing_are_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="must be > 0"):
        Patience(**{bad: 0})
