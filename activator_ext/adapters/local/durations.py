"""Durations as they stand in files: `45s`, `10m`, `1h30m`, `28d`."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

_UNITS_S = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_DURATION = re.compile(
    r"(?:(\d{1,9}(?:\.\d{1,9})?)d)?(?:(\d{1,9}(?:\.\d{1,9})?)h)?(?:(\d{1,9}(?:\.\d{1,9})?)m)?(?:(\d{1,9}(?:\.\d{1,9})?)s)?",
    re.ASCII,
)
MAX_S = 366 * 86400.0
"""Longest duration: nothing here is planned further ahead than a year."""


def seconds(text: str) -> float:
    """`1h30m` → 5400.0. Raises ValueError(message, fix)."""
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        raise ValueError(f"'{text[:40]}' is not a duration", "Write one like 45s, 10m, 1h30m or 28d.")
    total = sum(float(n) * unit for n, unit in zip(match.groups(), _UNITS_S.values(), strict=True) if n)
    if total > MAX_S:
        raise ValueError(f"'{text[:40]}' is longer than a year", "Write a shorter duration.")
    return total


def _valid(text: str) -> str:
    seconds(text)
    return text


def _positive(text: str) -> str:
    if seconds(text) <= 0:
        raise ValueError("it must be longer than 0", "Write one like 45s, 10m, 1h30m or 28d.")
    return text


def _with_unit(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(f"'{value}' is a duration without a unit", f"Write one like {value}s, 10m, 1h30m or 28d.")
    return value


Duration = Annotated[str, BeforeValidator(_with_unit), AfterValidator(_valid)]
"""Text of a duration of 0 or more; `seconds` reads it."""
PositiveDuration = Annotated[str, BeforeValidator(_with_unit), AfterValidator(_positive)]
"""Text of a duration longer than 0."""
