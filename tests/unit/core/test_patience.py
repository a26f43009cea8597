"""How long a start may show no sign of life."""

import pytest

from activator_ext.core.patience import DEFAULT_S, stuck_after_s
from runtime.contract import STUCK_AFTER_S


@pytest.mark.parametrize(
    ("longest_s", "expect"),
    [
        pytest.param([], 300.0, id="nothing known"),
        pytest.param([9.0, 31.0, 12.0], 62.0, id="twice the longest"),
        pytest.param([2.0], 60.0, id="never less than a minute"),
        pytest.param([0.0], 60.0, id="a start without stages"),
        pytest.param([3600.0], 900.0, id="never more than a quarter of an hour"),
    ],
)
def test_stuck_after_s(longest_s: list[float], expect: float) -> None:
    assert stuck_after_s(longest_s) == expect


def test_the_host_assumes_the_same_where_it_is_not_told() -> None:
    assert STUCK_AFTER_S == DEFAULT_S
