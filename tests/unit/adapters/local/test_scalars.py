"""Unquoted words as kubectl reads them.

The right side is what kubectl 1.32 printed for `kubectl patch --local -f FILE --type merge -o json -p "metadata:
{annotations: {x: WORD}}"`, and for `{WORD: x}` as the key. Integral floats are whole numbers.
"""

import pytest

from activator_ext.adapters.local.scalars import MAX_NUMBER, Scalar, as_key, plain

KUBECTL: dict[str, Scalar] = {
    "no": False,
    "y": True,
    "n": False,
    "on": True,
    "off": False,
    "010": 8,
    "0o10": 8,
    "08": 8,
    "0b11": 3,
    "0x1f": 31,
    "1:30": "1:30",
    "1_0": 10,
    "1_000.5": 1000.5,
    "1e1": 10,
    "1e3": 1000,
    "1.5e400": "1.5e400",
    ".5": 0.5,
    "5.": 5,
    "2026-01-01": "2026-01-01",
    "2001-12-14t21:59:43.10-05:00": "2001-12-14t21:59:43.10-05:00",
    "99999999999999999999": 99999999999999999999,
    "=": "=",
    "<<": "<<",
    "~": None,
    "null": None,
    "Null": None,
    "nUll": "nUll",
    "+5": 5,
    "-5": -5,
    "+.5": 0.5,
    "0.": 0,
    "-0": 0,
    "1__0": 10,
    "_1": "_1",
    "0x_": "0x_",
    "0x": "0x",
    "1e": "1e",
    "1.e3": 1000,
    "12e03": 12000,
    "685.230_15e+03": 685230.15,
    "0777": 511,
    "0_7": 7,
    "-0o7": -7,
}


@pytest.mark.parametrize("word", KUBECTL)
def test_as_kubectl(word: str) -> None:
    value = plain(word)
    assert value == KUBECTL[word]
    assert type(value) is type(KUBECTL[word])


KEYS = {"on": "true", "n": "false", "010": "8", "1.5": "1.5", "1e3": "1000", "2026-01-01": "2026-01-01", "a": "a"}


@pytest.mark.parametrize("word", KEYS)
def test_key_as_kubectl(word: str) -> None:
    assert as_key(plain(word)) == KEYS[word]


def test_null_is_no_key() -> None:
    assert as_key(plain("~")) is None


@pytest.mark.parametrize("word", [".nan", ".NaN", ".inf", "-.INF", "+.Inf"])
def test_what_json_has_not_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="cannot be sent to a cluster"):
        plain(word)


def test_long_numbers_are_refused_and_long_words_are_not() -> None:
    with pytest.raises(ValueError, match="too long for a number"):
        plain("1" * (MAX_NUMBER + 1))
    word = "1" * MAX_NUMBER + "x"
    assert plain(word) == word
