"""A plain word of YAML → the value that kubectl sends to a cluster for it.

YAML 1.1 as kubectl (sigs.k8s.io/yaml) reads it: `no`, `off` and `n` are false, `010` is 8, `1e3` a number; dates
and `1:30` are text. Numbers go through JSON there, so `5.` is the whole number 5, and NaN cannot be sent at all. The
test of this module holds what `kubectl patch --local` printed.
"""

import math
import re

MAX_NUMBER = 64
"""Longest number, in characters: reading one takes time with the square of its length."""

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_NO_NUMBERS = {f"{sign}.{word}" for sign in ("", "+", "-") for word in ("inf", "Inf", "INF")} | {".nan", ".NaN", ".NAN"}
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))", re.ASCII)
_BASES = (16, 2, 8, 10)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_WHOLE_BELOW = 1e21
"""From here on JSON writes a whole number with an exponent, which no integer field takes."""

Scalar = str | bool | int | float | None


def plain(text: str) -> Scalar:
    """The value of an unquoted word. Raises ValueError(message, fix) for a number that no field can take."""
    if text in _WORDS:
        return _WORDS[text]
    if text in _NO_NUMBERS:
        raise ValueError(f"'{text}' cannot be sent to a cluster", "Write a number.")
    if text[0] not in "0123456789+-.":
        return text
    return _number(text)


def as_key(value: Scalar) -> str | None:
    """The key that a cluster is sent for an unquoted word of this value; None for null, which is no key."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


def _number(text: str) -> Scalar:
    bare = text if text[0] == "." else text.replace("_", "")
    whole = _INTEGER.fullmatch(bare)
    if whole is None and _FLOAT.fullmatch(bare) is None:
        return text
    if len(text) > MAX_NUMBER:
        raise ValueError(f"'{text[:MAX_NUMBER]}…' is too long for a number", "Quote it if it is meant as text.")
    if whole is not None:
        digits, base = next((part, base) for part, base in zip(whole.groups()[1:], _BASES, strict=True) if part)
        return int(whole[1] + digits, base)
    number = float(bare)
    if math.isinf(number):
        return text
    return int(number) if number.is_integer() and abs(number) < _WHOLE_BELOW else number
