"""What is wrong, or without effect, in the user's files: one finding per place, each with its fix."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

_CLIP = 80
"""Longest quoted value, in characters: a message is one line, not a copy of the file."""


@dataclass(frozen=True)
class Finding:
    """One place to look at.

    `key` is the dotted path inside the object, empty for the file as a whole; `line` counts from 1.
    """

    severity: Literal["error", "warning"]
    file: str
    line: int
    key: str
    message: str
    fix: str

    def __str__(self) -> str:
        key = f"{self.key}: " if self.key else ""
        text = f"{self.file}:{self.line}: {self.severity}: {key}{self.message}. {self.fix}"
        return "".join(_visible(text))


class Findings:
    """Collects findings; everything of this room that can complain is given one."""

    def __init__(self) -> None:
        self._all: list[Finding] = []
        self._errors = 0

    def error(self, file: str, line: int, key: str, message: str, fix: str) -> None:
        """The object cannot be served as it stands."""
        self._errors += 1
        self._all.append(Finding("error", file, line, key, message, fix))

    def warning(self, file: str, line: int, key: str, message: str, fix: str) -> None:
        """The object is served, but not with everything that it says."""
        self._all.append(Finding("warning", file, line, key, message, fix))

    def errors(self) -> int:
        """How many errors so far: compare before and after a step to learn whether it failed."""
        return self._errors

    def sorted(self) -> tuple[Finding, ...]:
        """Every finding once, in the order of the files and lines."""
        return tuple(sorted(dict.fromkeys(self._all), key=lambda f: (f.file, f.line, f.key, f.severity, f.message)))


def quoted(value: object) -> str:
    """`value` as it may stand in a message: in quotes, clipped."""
    text = value if isinstance(value, str) else repr(value)
    return f"'{text}'" if len(text) <= _CLIP else f"'{text[:_CLIP]}…'"


def did_you_mean(word: str, known: Iterable[str], otherwise: str) -> str:
    """The fix for an unknown word: the nearest known one, else `otherwise`."""
    # difflib is quadratic in the word's length; nothing that long is a typing error of a key.
    near = get_close_matches(word, sorted(known), n=1, cutoff=0.6) if len(word) <= _CLIP else []
    return f"Did you mean {near[0]}?" if near else otherwise


def _visible(text: str) -> Iterator[str]:
    """Control characters written out, so that a file cannot draw on the user's terminal."""
    for char in text:
        yield char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
