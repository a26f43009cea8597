"""How a wrong value and an unknown key are said: message and fix, the same for every object."""

import unicodedata
from collections.abc import Collection
from typing import Any

from activator_ext.adapters.local.findings import Findings, did_you_mean, quoted

_SHAPES = {
    "text": "text, in quotes where YAML would read a number or yes/no",
    "integer": "a whole number, without quotes",
    "number": "a number, without quotes",
    "boolean": "true or false, without quotes",
    "list": "a list (lines that begin with -)",
    "mapping": "a mapping (key: value)",
    "quantity": "an amount such as 2, 500m or 4Gi",
}
_SUGGESTED_UP_TO = 100
"""After so many errors no more likely keys are looked for: each costs a comparison with every known one."""
_CLIP = 80
_LISTED = 12
"""Longest list of known keys in one message."""


def wrong_shape(value: Any, shape: str, word: str | None) -> tuple[str, str]:
    """For a value that is no `shape`, a key of the table above. `word`: what is written where YAML reads no text."""
    if value is None:
        return "nothing has the wrong type", f"Write {_SHAPES[shape]}."
    if isinstance(value, dict | list):
        return f"a {'mapping' if isinstance(value, dict) else 'list'} has the wrong type", f"Write {_SHAPES[shape]}."
    if shape == "quantity" and isinstance(value, str):
        return f"{quoted(value)} is not an amount that Kubernetes reads", f"Write {_SHAPES[shape]}."
    if shape == "text" and word is not None:
        return f"{quoted(word)} is read as {_reading(value)}", f'Write it in quotes: "{word[:_CLIP]}".'
    return f"{quoted(value if word is None else word)} has the wrong type", f"Write {_SHAPES[shape]}."


def _reading(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "a number"


def unknown_key(
    key: str, known: Collection[str], findings: Findings, *, shown: Collection[str] | None = None, elsewhere: str = ""
) -> tuple[str, str]:
    """For a key that is none of `known`. `shown`: those to list, if not all; `elsewhere`: the path where it belongs."""
    odd = odd_characters(key)
    message = f"unknown key: it holds {odd}" if odd else "unknown key"
    same = next((name for name in sorted(known) if _bare(name) == _bare(key)), None)
    if same is not None:
        return message, f"Did you mean {same}?"
    if elsewhere:
        return message, f"Did you mean {elsewhere}?"
    listed = sorted(known if shown is None else shown)
    rest = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    otherwise = f"Known here: {', '.join(listed[:_LISTED])}{rest}." if listed else "Remove it."
    if findings.errors() > _SUGGESTED_UP_TO:
        return message, otherwise
    return message, did_you_mean(key, known, otherwise)


def odd_characters(text: str) -> str:
    """The characters of a word that look like others or like nothing, by number and name; empty if there are none."""
    odd = dict.fromkeys(char for char in text if not char.isascii() or not char.isprintable())
    named = (f"U+{ord(char):04X} {unicodedata.name(char, '')}" for char in list(odd)[:3])
    return ", ".join(name.strip() for name in named)


def _bare(key: str) -> str:
    """`min_replicas`, `MinReplicas`, `min-replicas` → `minreplicas`."""
    return "".join(char for char in key.lower() if char.isalnum())
