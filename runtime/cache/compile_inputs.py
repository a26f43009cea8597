"""The committed table of what vLLM's own compile key is made of (compile_inputs.json, by scripts/compile_inputs.py).

Read instead of vLLM itself, whose import takes ten seconds.
"""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

TABLE = Path(__file__).with_name("compile_inputs.json")


@dataclass(frozen=True, slots=True)
class Option:
    """One argument of `vllm serve`.

    `kind`: `switch` (`--x`, `--no-x`), `flag`, or a value: `int`, `float`, `json`, `text`, also as `list-…` (one or
    more) and `optional-…` (none or one). `default` as text, None where vLLM has none or computes it. `nullable`: the
    words `None` and nothing mean no value. `counts`: an input of the fingerprint.
    """

    name: str
    flags: tuple[str, ...]
    kind: str
    default: str | None
    nullable: bool
    counts: bool


@dataclass(frozen=True, slots=True)
class Variable:
    """One environment variable of vLLM; `unset` are the words that mean the same as leaving it out."""

    counts: bool
    unset: frozenset[str]


@dataclass(frozen=True, slots=True)
class CompileInputs:
    """The table of one version of vLLM (`0.32.0`). `by_flag`: every way to write an option → the option."""

    vllm: str
    options: Mapping[str, Option]
    variables: Mapping[str, Variable]
    by_flag: Mapping[str, Option] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        flags = {flag: option for option in self.options.values() for flag in option.flags}
        object.__setattr__(self, "by_flag", MappingProxyType(flags))


@functools.cache
def compile_inputs() -> CompileInputs:
    """The table that ships with this version of Pilotlight."""
    return parse(TABLE.read_text(encoding="utf-8"))


def parse(text: str) -> CompileInputs:
    """Read the table's text. Only a written `no` leaves something out."""
    table = json.loads(text)
    return CompileInputs(
        vllm=table["vllm"],
        options=MappingProxyType(
            {
                name: Option(
                    name=name,
                    flags=tuple(entry["flags"]),
                    kind=entry["kind"],
                    default=entry.get("default"),
                    nullable=entry.get("nullable", False),
                    counts=entry.get("input") != "no",
                )
                for name, entry in table["arguments"].items()
            }
        ),
        variables=MappingProxyType(
            {
                name: Variable(entry.get("input") != "no", frozenset(entry.get("unset", ())))
                for name, entry in table["environment"].items()
            }
        ),
    )
