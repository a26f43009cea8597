"""What a compiled artifact depends on, as named inputs, and the one key over them.

Two starts with equal inputs share a bundle; two that differ in any do not. Where it is not proven that an input is
without effect it counts: a key too many costs one compile, a key too few a wrong artifact. How the inputs of a start
are gathered stands in `inputs.py`, what a difference means in `explain.py`.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

SCHEMA = 1
"""Of the stored form; grows when the meaning of the inputs changes, and every key with it."""

MOST_BYTES = 4 * 2**20
"""A stored fingerprint has some tens of kB; a larger file is something else."""

_NAME = re.compile(r"[a-z][a-z0-9-]*(\.[^\x00-\x1f]{1,300})?")


class FingerprintError(ValueError):
    """Text that is no stored fingerprint of ours; `str()` names the place and what to do."""


@dataclass(frozen=True)
class Fingerprint:
    """Named inputs (`argument.max_num_seqs` → `16`). Equal inputs, equal fingerprints, whatever their order.

    Raises FingerprintError on a name that is not `group` or `group.name`.
    """

    inputs: Mapping[str, str]

    def __post_init__(self) -> None:
        for name, value in self.inputs.items():
            if not isinstance(value, str) or not _NAME.fullmatch(name):
                raise FingerprintError(f"fingerprint input {name!r} is no `group.name` with a text: {value!r}")
        object.__setattr__(self, "inputs", MappingProxyType(dict(sorted(self.inputs.items()))))

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, Fingerprint) else NotImplemented

    @cached_property
    def key(self) -> str:
        """sha256 over schema and inputs, 64 hex digits."""
        facts = json.dumps([SCHEMA, list(self.inputs.items())], ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(facts.encode()).hexdigest()

    def to_json(self) -> str:
        """The stored form: schema, key and inputs, one input a line."""
        return json.dumps({"schema": SCHEMA, "key": self.key, "inputs": dict(self.inputs)}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, where: str = "fingerprint") -> "Fingerprint":
        """Read the stored form; `where` names its place in the message. Raises FingerprintError."""
        stored = _object(text, where)
        if stored.get("schema") != SCHEMA:
            raise FingerprintError(
                f"{where} has schema {stored.get('schema')!r}, this version of Pilotlight reads {SCHEMA}: "
                "make it again with this version"
            )
        inputs = stored.get("inputs")
        if not isinstance(inputs, dict) or not all(isinstance(value, str) for value in inputs.values()):
            raise FingerprintError(f"{where} has no inputs: make it again")
        found = cls(inputs)
        if stored.get("key") != found.key:
            raise FingerprintError(f"{where} was changed by hand or damaged: its key is not that of its inputs")
        return found

    @classmethod
    def load(cls, path: Path) -> "Fingerprint":
        """Read `path`. Raises FingerprintError, and OSError where it cannot be read."""
        if path.stat().st_size > MOST_BYTES:
            raise FingerprintError(f"{path} is no fingerprint: it has more than {MOST_BYTES} bytes")
        return cls.from_json(path.read_bytes(), str(path))


@dataclass(frozen=True, slots=True)
class Difference:
    """One input that differs; None: not an input there (an argument left at its default)."""

    name: str
    first: str | None
    second: str | None


def difference(first: Fingerprint, second: Fingerprint) -> tuple[Difference, ...]:
    """The inputs that differ, by name; empty exactly when the keys are equal."""
    names = sorted({*first.inputs, *second.inputs})
    found = (Difference(name, first.inputs.get(name), second.inputs.get(name)) for name in names)
    return tuple(each for each in found if each.first != each.second)


def _object(text: str | bytes, where: str) -> dict[str, object]:
    try:
        stored = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise FingerprintError(f"{where} is no fingerprint: it is not JSON ({error})") from error
    if not isinstance(stored, dict):
        raise FingerprintError(f"{where} is no fingerprint: it is not a JSON object")
    return stored


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands in it twice")
    return found
