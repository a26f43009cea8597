"""A shape matrix: which variants of one model are built.

A YAML list. Each entry stands for the product of its axes, on top of the arguments and environment of the command:

    - axes:
        max-model-len: [8192, 32768]
        max-num-seqs: [64, 256]
        enforce-eager: [false]           # true: the flag; false or null: left out
    - name: fp8
      args: --quantization=fp8 --max-model-len=8192
      env: {VLLM_USE_DEEP_GEMM: "1"}
"""

import itertools
import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from runtime.cache.cli.failures import Refused

MOST_VARIANTS = 256
"""Each takes minutes: more is a mistake in the axes."""

_FILE_BYTES = 2**20
_Value = bool | int | float | str | dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Variant:
    """One engine to build for: what it has beyond the arguments and environment of the command."""

    name: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = ""
    args: str | tuple[str, ...] = ()
    env: dict[str, str | int | float] = Field(default_factory=dict)
    axes: dict[
        Annotated[str, Field(pattern=r"^(--)?[a-zA-Z][a-zA-Z0-9_.-]*$")], Annotated[list[_Value], Field(min_length=1)]
    ] = Field(default_factory=dict)

    @field_validator("args")
    @classmethod
    def _split(cls, args: str | tuple[str, ...]) -> tuple[str, ...]:
        return tuple(shlex.split(args)) if isinstance(args, str) else args

    def variants(self) -> Iterator[Variant]:
        """One for each combination of its axes."""
        env = {name: str(value) for name, value in self.env.items()}
        for values in itertools.product(*self.axes.values()):
            chosen = [word for axis, value in zip(self.axes, values, strict=True) for word in _flag(axis, value)]
            told = [self.name] if self.name else [*self.args, *(f"{k}={v}" for k, v in env.items())]
            yield Variant(" ".join([*told, *chosen]) or "as given", (*self.args, *chosen), env)


def read_matrix(file: Path) -> tuple[Variant, ...]:
    """The variants of `file`, in its order. Raises Refused, which names file and place."""
    try:
        with file.open("rb") as opened:
            value = yaml.safe_load(opened.read(_FILE_BYTES))
        entries = TypeAdapter(list[_Entry]).validate_python(value)
    except OSError as error:
        raise Refused(f"{file}: cannot be read ({error.strerror}): correct --matrix") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise Refused(f"{file}{where}: is not YAML: correct it") from error
    except (ValidationError, RecursionError) as error:
        raise Refused(f"{file}: {_first(error)}: write a list of entries with axes, args, env, name") from error
    found = tuple(itertools.islice((each for entry in entries for each in entry.variants()), MOST_VARIANTS + 1))
    if not found:
        raise Refused(f"{file}: has no entry: leave --matrix out to build what --args says")
    if len(found) > MOST_VARIANTS:
        raise Refused(f"{file}: is more than {MOST_VARIANTS} variants: take values out of its axes")
    return found


def _flag(axis: str, value: _Value) -> tuple[str, ...]:
    flag = f"--{axis.removeprefix('--')}"
    if value is None or value is False:
        return ()
    if value is True:
        return (flag,)
    return (f"{flag}={json.dumps(value) if isinstance(value, dict) else value}",)


def _first(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return "it is nested too deeply"
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])
