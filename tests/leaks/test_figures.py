"""What grows is seen, what only warms up or swings is not."""

import pytest

from tests.leaks.figures import Held, growth
from tests.leaks.test_leaks import judge

MIB = 2**20


@pytest.mark.parametrize(
    ("values", "grows"),
    [
        pytest.param([10.0] * 9, False, id="flat"),
        pytest.param([1.0, 5.0, 9.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0], False, id="warms up"),
        pytest.param([10.0, 12.0, 8.0] * 6, False, id="swings"),
        pytest.param([float(n) for n in range(18)], True, id="grows"),
        pytest.param([10.0] * 12 + [30.0] * 6, True, id="jumps late"),
    ],
)
def test_growth(values: list[float], grows: bool) -> None:
    assert (growth(values) > 1.0) is grows


@pytest.mark.parametrize(
    ("last", "what"),
    [
        (Held(30 * MIB, 10, 1, 0), "memory"),
        (Held(20 * MIB, 30, 1, 0), "descriptors"),
        (Held(20 * MIB, 10, 9, 0), "threads"),
        (Held(20 * MIB, 10, 1, 9), "children"),
    ],
)
def test_each_kind_of_growth_is_named(last: Held, what: str) -> None:
    before = {"host": Held(20 * MIB, 10, 1, 0)}
    (line,) = judge([before] * 12 + [{"host": last}] * 6)
    assert line.endswith(f"; {what} grows")
    (line,) = judge([before] * 18)
    assert "grows" not in line
