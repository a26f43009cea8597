"""How a wrong value and an unknown key are said: message and fix, the same for every object."""

import unicodedata
from collections.abc import Mapping
from functools import cache
from typing import Any

from activator_ext.adapters.local.findings import Findings, listed, quoted

_SHAPES = {
    "text": "text, in quotes where YAML would read a number or yes/no",
    "integer": "a whole number, without quotes",
    "number": "a number, without quotes",
    "boolean": "true or false, without quotes",
    "list": "a list (lines that begin with -)",
    "mapping": "a mapping (key: value)",
    "quantity": "an amount such as 2, 500m or 4Gi",
}
_CLIP = 80


def wrong_shape(value: Any, shape: str, word: str | None) -> tuple[str, str]:
    """For a value that is no `shape`, a key of the table above. `word`: what is written where YAML reads no text."""
    if value is None:
        return "nothing has the wrong type", f"Write {_SHAPES[shape]}."
    if isinstance(value, dict | list):
        return f"a {'mapping' if isinstance(value, dict) else 'list'} has the wrong type", f"Write {_SHAPES[shape]}."
    if shape == "quantity" and isinstance(value, str):
        return f"{quoted(value)} is not an amount that Kubernetes reads", f"Write {_SHAPES[shape]}."
    if shape == "text" and word is not None:
        if word == _reading(value):
            return f"{quoted(word)} is not text", f'Write it in quotes: "{word}".'
        return f"{quoted(word)} is read as {_reading(value)}", f'Write it in quotes: "{word[:_CLIP]}".'
    return f"{quoted(value if word is None else word)} has the wrong type", f"Write {_SHAPES[shape]}."


def _reading(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "a number"


def unknown_key(
    key: str, known: frozenset[str], shown: frozenset[str], elsewhere: str | None, findings: Findings
) -> tuple[str, str]:
    """For a key that is none of `known`. `shown`: those to list; `elsewhere`: the path where such a key belongs."""
    odd = odd_characters(key)
    message = f"unknown key: it holds {odd}" if odd else "unknown key"
    meant = _by_letters(known).get(letters(key)) or elsewhere
    if meant:
        return message, f"Did you mean {meant}?"
    return message, findings.likely(key, known, f"Known here: {listed(sorted(shown))}." if shown else "Remove it.")


@cache
def _by_letters(known: frozenset[str]) -> Mapping[str, str]:
    return {letters(key): key for key in known}


def letters(key: str) -> str:
    """`min_replicas`, `MinReplicas`, `min-replicas` → `minreplicas`."""
    return "".join(char for char in key.lower() if char.isalnum())


def odd_characters(text: str) -> str:
    """The characters of a word that look like others or like nothing, by number and name; empty if there are none."""
    odd = dict.fromkeys(char for char in text if not char.isascii() or not char.isprintable())
    named = (f"U+{ord(char):04X} {unicodedata.name(char, '')}" for char in list(odd)[:3])
    return ", ".join(name.strip() for name in named)
