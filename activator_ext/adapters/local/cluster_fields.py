"""What a cluster knows: the fields of KServe's objects and of the pods inside them, and what may stand in each.

`kserve_fields.json` is written by scripts/kserve_fields.py from the kserve SDK and the Kubernetes client. Local mode
honours few of these fields; the others are still held against it, so that a typing error in a file is found here and
not by the cluster.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from activator_ext.adapters.local.documents import Document, Path
from activator_ext.adapters.local.findings import Findings
from activator_ext.adapters.local.wording import unknown_key, wrong_shape

_QUANTITY = re.compile(
    r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?",
    re.ASCII,
)


def fields_of(kind: str) -> Mapping[str, str]:
    """The keys of a type and the type of each; none for a type that is no object."""
    return _table().get(kind, {})


def is_quantity(value: object) -> bool:
    """Whether Kubernetes reads it as an amount of something: `2`, `500m`, `4Gi`."""
    if isinstance(value, str):
        return _QUANTITY.fullmatch(value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True)
class _Shape:
    """What may stand in a field. `name`: as `wording` knows it."""

    name: str
    holds: Callable[[object], bool]


_LIST = _Shape("list", lambda value: isinstance(value, list))
_MAPPING = _Shape("mapping", lambda value: isinstance(value, dict))
_SHAPES: Mapping[str, _Shape] = {
    "text": _Shape("text", lambda value: isinstance(value, str)),
    "integer": _Shape("integer", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "boolean": _Shape("boolean", lambda value: isinstance(value, bool)),
    "quantity": _Shape("quantity", is_quantity),
}


def check(kind: str, value: Any, path: Path, document: Document, findings: Findings) -> None:
    """Report what a cluster would refuse of a value that local mode does not look at."""
    if value is None or kind == "any":
        return
    shape = _SHAPES.get(kind) or (_LIST if kind.startswith("[") else _MAPPING)
    if not shape.holds(value):
        findings.error(*document.where(path), *wrong_shape(value, shape.name, document.word(path)))
    elif shape is _LIST:
        for index, item in enumerate(value):
            check(kind[1:-1], item, (*path, index), document, findings)
    elif kind.startswith("{"):
        for key, item in value.items():
            check(kind[1:-1], item, (*path, key), document, findings)
    elif shape is _MAPPING:
        _check_object(fields_of(kind), value, path, document, findings)


def _check_object(
    known: Mapping[str, str], value: Mapping[str, Any], path: Path, document: Document, findings: Findings
) -> None:
    for key, item in value.items():
        here = (*path, key)
        if key in known:
            check(known[key], item, here, document, findings)
        else:
            keys = frozenset(known)
            findings.error(*document.where(here), *unknown_key(key, keys, keys, None, findings))


@cache
def _table() -> Mapping[str, Mapping[str, str]]:
    text = resources.files(__package__).joinpath("kserve_fields.json").read_text(encoding="utf-8")
    table: Mapping[str, Mapping[str, str]] = json.loads(text)
    return table
