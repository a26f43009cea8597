"""Durations as text."""

import pytest

from activator_ext.adapters.local.durations import seconds

GOOD = {"45s": 45, "10m": 600, "1h30m": 5400, "28d": 2419200, "0s": 0, "1.5h": 5400, "1d2h3m4s": 93784}
BAD = ["", "10", "m", "10 m", "-1m", "1m1h", "10M", "5min", "1e3s", "٣s", "400d", "9999999999s"]


@pytest.mark.parametrize(("text", "expected"), GOOD.items())
def test_read(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", BAD)
def test_refused_with_message_and_fix(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|year") as caught:
        seconds(text)
    assert len(caught.value.args) == 2
