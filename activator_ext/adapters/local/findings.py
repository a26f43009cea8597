"""What is wrong, or without effect, in the user's files: one finding per place, each with its fix."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from activator_ext.core.visible import visible

_CLIP = 80
"""Longest quoted value, in characters: a message is one line, not a copy of the file."""
_LISTED = 10
"""Longest list of names in a message."""
MOST_PER_FILE = 500
"""Most errors, and most warnings, of one file that are kept; of the others the number is said."""
_SUGGESTIONS = 200
_COMPARED = 1000
"""Most likely words looked for, and most words that each is compared with: a comparison takes about 20 µs."""

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """One place to look at.

    `key` is the dotted path inside the object, empty for the file as a whole; `line` counts from 1.
    """

    severity: Severity
    file: str
    line: int
    key: str
    message: str
    fix: str

    def __str__(self) -> str:
        key = f"{self.key}: " if self.key else ""
        text = f"{self.file}:{self.line}: {self.severity}: {key}{self.message}. {self.fix}"
        return visible(text)


class Findings:
    """Collects findings; everything of this room that can complain is given one."""

    def __init__(self) -> None:
        self._all: dict[Finding, None] = {}
        self._count: Counter[tuple[str, Severity]] = Counter()
        self._errors = 0
        self._suggested = 0

    def error(self, file: str, line: int, key: str, message: str, fix: str) -> None:
        """The object cannot be served as it stands."""
        self._errors += 1
        self._add(Finding("error", file, line, key, message, fix))

    def warning(self, file: str, line: int, key: str, message: str, fix: str) -> None:
        """The object is served, but not with everything that it says."""
        self._add(Finding("warning", file, line, key, message, fix))

    def _add(self, finding: Finding) -> None:
        if finding in self._all:
            return
        of_its_kind = finding.file, finding.severity
        self._count[of_its_kind] += 1
        if self._count[of_its_kind] <= MOST_PER_FILE:
            self._all[finding] = None

    def errors(self) -> int:
        """How many errors so far: compare before and after a step to learn whether it failed."""
        return self._errors

    def sorted(self) -> tuple[Finding, ...]:
        """Every finding once, in the order of the files and lines; each file's last says how many are not kept."""
        found = sorted(self._all, key=lambda f: (f.file, f.line, f.key, f.severity, f.message))
        for (file, severity), count in self._count.items():
            if count > MOST_PER_FILE:
                last = max(f.line for f in found if f.file == file)
                message = f"{count - MOST_PER_FILE} more {severity}s of this file are not shown"
                found.append(Finding(severity, file, last, "", message, "Mend those above first."))
        return tuple(sorted(found, key=lambda f: f.file))

    def likely(self, word: str, known: Collection[str], otherwise: str) -> str:
        """The fix for an unknown word: the nearest known one, else `otherwise`."""
        self._suggested += 1
        # difflib is quadratic in the word's length; nothing that long is a typing error of a key.
        if len(word) > _CLIP or len(known) > _COMPARED or self._suggested > _SUGGESTIONS:
            return otherwise
        near = get_close_matches(word, sorted(known), n=1, cutoff=0.6)
        return f"Did you mean {near[0]}?" if near else otherwise


def quoted(value: object) -> str:
    """`value` as it may stand in a message: in quotes, clipped."""
    text = value if isinstance(value, str) else repr(value)
    return f"'{text}'" if len(text) <= _CLIP else f"'{text[:_CLIP]}…'"


def listed(names: Collection[str]) -> str:
    """The names in their order, the first ten of them."""
    rest = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(list(names)[:_LISTED]) + rest
