"""Engine arguments → what they mean: one canonical text for each argument that counts, however it was written.

`--max-num-seqs 8`, `--max_num_seqs=8` and `--max-num-seq 8` are one; so are `-tp 2` and `--tensor-parallel-size=2`,
`-O3` and `--optimization-level 3`, `--compilation-config '{"mode": 3}'` and `-cc.mode=3`, and a default written out
and left out. The rules are those of vLLM's parser (`utils/argparse_utils.py`) and of argparse below it; a test holds
them against vLLM's own.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runtime.cache.compile_inputs import CompileInputs, Option

_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
"""What argparse takes for a negative number, not for an option."""

_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_POWERS = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_NONE = ("None", "")


def argument_inputs(args: Sequence[str], table: CompileInputs) -> dict[str, str]:
    """Name → canonical value of each argument that counts and is not at its default; later ones win.

    What the table does not know counts as it is written, under its own spelling.
    """
    found: dict[str, str] = {}
    for name, value in _read(args, table):
        option = table.options.get(name)
        if option is None:
            found[name] = value
        elif option.counts:
            found.pop(name, None)
            if value != _default(option):
                found[name] = value
    return found


def _default(option: Option) -> str:
    if option.default is None:
        return "none"
    return _scalar(option.kind.rpartition("-")[2], option.default)


def _read(args: Sequence[str], table: CompileInputs) -> Iterator[tuple[str, str]]:
    words = list(_expand(args))
    nested: dict[str, dict[str, Any]] = {}
    at = 0
    while at < len(words):
        word, at = words[at], at + 1
        key, equals, given = word.partition("=")
        if _is_nested(key, table):
            if not equals and at < len(words):
                given, at = words[at], at + 1
            _nest(nested, key, given)
            continue
        option, attached = _find(key, table)
        values = [given] if equals else [attached] if attached else []
        if option is None:
            taken = _values(words[at:]) if word.startswith("-") and not equals else []
            at += len(taken)
            yield key, " ".join(values + taken)
            continue
        if not values:
            values = _wanted(option, words[at:])
            at += len(values)
        yield option.name, _canonical(option, key, values)
    # As vLLM's parser does: behind all others, so that they replace what is given as JSON.
    for key, value in nested.items():
        option, _ = _find(key, table)
        yield option.name if option else key, json.dumps(value, sort_keys=True)


def _expand(args: Sequence[str]) -> Iterator[str]:
    """Underscores in names become dashes, `-O3` and `-O 3` the option that they stand for."""
    for number, arg in enumerate(args):
        if arg.startswith("--"):
            key, equals, value = arg.partition("=")
            name, dot, rest = key.partition(".")
            yield f"--{name[2:].replace('_', '-')}{dot}{rest}{equals}{value}"
        elif arg.startswith("-O") and arg != "-O":
            yield "--optimization-level"
            yield arg[3:] if arg[2] == "=" else arg[2:]
        elif arg == "-O" and args[number + 1 : number + 2] and args[number + 1] in {"0", "1", "2", "3"}:
            yield "--optimization-level"
        else:
            yield arg


def _is_nested(key: str, table: CompileInputs) -> bool:
    return key.startswith("-") and "." in key and _find(key.partition(".")[0], table)[0] is not None


def _nest(nested: dict[str, dict[str, Any]], key: str, text: str) -> None:
    if key.endswith("+"):
        key, text = key[:-1], json.dumps(text.split(","))
    top, *path = key.split(".")
    value: Any = _number_or_text(text)
    for name in reversed(path):
        value = {name: value}
    _merge(nested.setdefault(top, {}), value)


def _number_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        human = _human(text)
        return text if human is None else human


def _merge(into: dict[str, Any], update: Mapping[str, Any]) -> None:
    for key, value in update.items():
        known = into.get(key)
        if isinstance(value, dict) and isinstance(known, dict):
            _merge(known, value)
        elif isinstance(value, list) and isinstance(known, list):
            known.extend(value)
        else:
            into[key] = value


def _find(key: str, table: CompileInputs) -> tuple[Option | None, str]:
    """The option that `key` means, and a value that is attached to a one-letter one (`-qfp8`)."""
    if key in table.by_flag:
        return table.by_flag[key], ""
    if key.startswith("--"):
        meant = {option.name for flag, option in table.by_flag.items() if flag.startswith(key) and len(key) > 2}
        return (table.options[meant.pop()], "") if len(meant) == 1 else (None, "")
    short = table.by_flag.get(key[:2]) if key.startswith("-") and not _NUMBER.fullmatch(key) else None
    return (short, key[2:]) if short else (None, "")


def _values(words: Sequence[str]) -> list[str]:
    found = []
    for word in words:
        if word.startswith("-") and not _NUMBER.fullmatch(word):
            break
        found.append(word)
    return found


def _wanted(option: Option, words: Sequence[str]) -> list[str]:
    if option.kind in ("switch", "flag"):
        return []
    found = _values(words)
    return found if option.kind.startswith("list") else found[:1]


def _canonical(option: Option, key: str, values: Sequence[str]) -> str:
    form, _, base = option.kind.rpartition("-")
    if base == "switch":
        return "false" if key.startswith("--no-") and not _positive(option, key) else "true"
    if base == "flag" or (form == "optional" and not values):
        return "true"
    if option.nullable and len(values) == 1 and values[0] in _NONE:
        return "none"
    texts = [_scalar(base, value) for value in values]
    return json.dumps(texts) if form == "list" else " ".join(texts)


def _positive(option: Option, key: str) -> bool:
    """Whether `--no-…` is the option's own name, as argparse would have `--no-no-…` for its opposite."""
    return f"--no-{key[2:]}" in option.flags


def _scalar(base: str, text: str) -> str:
    try:
        if base == "int":
            return str(_int(text))
        if base == "float":
            return str(float(text))
        if base == "json":
            return json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        return text
    return text


def _int(text: str) -> int:
    if text.strip().lower() == "auto":
        return -1
    human = _human(text)
    return int(text) if human is None else human


def _human(text: str) -> int | None:
    """`1k` → 1000, `1K` → 1024, `1.5k` → 1500; None where it is nothing of that kind."""
    found = _HUMAN.fullmatch(text.strip())
    if not found or ("." in found[1] and found[2].isupper()):
        return None
    return int(float(found[1]) * _POWERS[found[2]])
