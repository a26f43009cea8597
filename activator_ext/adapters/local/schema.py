"""Values with lines → strict pydantic models; every deviation becomes a finding at its line, all of them at once."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Any, ClassVar, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from activator_ext.adapters.local import cluster_fields
from activator_ext.adapters.local.documents import Document, Path, key_text
from activator_ext.adapters.local.findings import Findings, quoted
from activator_ext.adapters.local.wording import letters, unknown_key, wrong_shape

M = TypeVar("M", bound="Strict")

IN_A_CLUSTER = "It takes effect in a cluster."
_OCTAL = re.compile(r"[-+]?0[0-7_]*[0-7]")


class Strict(BaseModel):
    """Base of every object read from a file: camelCase keys, no conversions, no unknown keys.

    `kind_in_cluster`: the cluster's type of it (`cluster_fields.fields_of`), whose other keys are valid and without
    effect here: they give a warning. `notes`: what to know about such a key. `silent`: keys without a warning, for what
    only says how a pod is run.
    """

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=False, allow_inf_nan=False
    )
    kind_in_cluster: ClassVar[str] = ""
    notes: ClassVar[Mapping[str, str]] = {}
    silent: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def belongs(cls, key: str) -> str | None:
        """The fix for a key that has its place in another object; None where nothing is known of it."""
        return None


def read(model: type[M], document: Document, findings: Findings) -> M | None:
    """The document as `model`, or None with the findings that say why not."""
    before = findings.errors()
    data = _Honoured(model, document, findings).of(model, document.data, ())
    try:
        value = model.model_validate(data)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            _report(detail, document, findings)
        return None
    return value if findings.errors() == before else None


@dataclass(frozen=True)
class _Honoured:
    """Takes the keys that no model honours out of a document, each of them reported."""

    root: type[Strict]
    document: Document
    findings: Findings

    def of(self, annotation: Any, value: Any, path: Path) -> Any:
        """`value` without them."""
        model = model_of(annotation)
        if model is None or value is None:
            self._warn_octal(value, path)
            return value
        if isinstance(value, list):
            return [self.of(annotation, item, (*path, index)) for index, item in enumerate(value)]
        return self._mapping(model, value, path) if isinstance(value, dict) else value

    def _mapping(self, model: type[Strict], value: Mapping[str, Any], path: Path) -> dict[str, Any]:
        fields = honoured(model)
        known = cluster_fields.fields_of(model.kind_in_cluster)
        kept: dict[str, Any] = {}
        for key, item in value.items():
            here = (*path, key)
            if item is None and (key in fields or key in known):
                continue  # to Kubernetes a null is an absent key
            if key in fields:
                kept[key] = self.of(fields[key], item, here)
            elif key in known or key in model.silent:
                self._without_effect(model, known.get(key, "any"), item, here)
            else:
                self._unknown(model, here)
        return kept

    def _without_effect(self, model: type[Strict], kind: str, item: Any, here: Path) -> None:
        key = str(here[-1])
        if key not in model.silent:
            note = model.notes.get(key, IN_A_CLUSTER)
            self.findings.warning(*self.document.where(here), "local mode ignores it", note)
        cluster_fields.check(kind, item, here, self.document, self.findings)

    def _unknown(self, model: type[Strict], here: Path) -> None:
        key = str(here[-1])
        elsewhere = _places(self.root).get(letters(key))
        message, fix = unknown_key(key, _keys(model), frozenset(honoured(model)), elsewhere, self.findings)
        self.findings.error(*self.document.where(here), message, model.belongs(key) or fix)

    def _warn_octal(self, value: object, path: Path) -> None:
        word = self.document.word(path)
        if isinstance(value, int) and word is not None and value and _OCTAL.fullmatch(word):
            message = f"{quoted(word)} is read as {value}, an octal number"
            self.findings.warning(*self.document.where(path), message, f"Write {value}, or remove the leading 0.")


@cache
def honoured(model: type[Strict]) -> Mapping[str, Any]:
    """The keys of a model as they stand in a file, and their annotations."""
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def model_of(annotation: Any) -> type[Strict] | None:
    """The `Strict` inside `X`, `X | None`, `list[X]`; None for anything else."""
    if isinstance(annotation, type) and issubclass(annotation, Strict):
        return annotation
    if get_origin(annotation) in (list, Union, UnionType):
        return next((model for part in get_args(annotation) if (model := model_of(part))), None)
    return None


@cache
def _keys(model: type[Strict]) -> frozenset[str]:
    return frozenset({*honoured(model), *cluster_fields.fields_of(model.kind_in_cluster), *model.silent})


@cache
def _places(root: type[Strict]) -> Mapping[str, str]:
    """Where each key of the whole object belongs, by its letters: the path nearest to the root."""
    found: dict[str, str] = {}
    level: list[tuple[str, type[Strict]]] = [("", root)]
    while level:
        below: list[tuple[str, type[Strict]]] = []
        for prefix, model in level:
            for key, annotation in honoured(model).items():
                found.setdefault(letters(key), f"{prefix}{key}")
                inner = model_of(annotation)
                if inner is not None:
                    many = "[]" if get_origin(annotation) is list else ""
                    below.append((f"{prefix}{key}{many}.", inner))
        level = below
    return found


_SHAPES = {
    "string_type": "text",
    "int_type": "integer",
    "float_type": "number",
    "bool_type": "boolean",
    "list_type": "list",
    "dict_type": "mapping",
    "model_type": "mapping",
}


def _report(detail: ErrorDetails, document: Document, findings: Findings) -> None:
    path: Path = detail["loc"]
    where = document.where(path)
    given, kind = detail["input"], detail["type"]
    if kind == "missing":
        findings.error(*where, "it is required", f"Add {key_text(path[-1:])} here.")
    elif kind in _SHAPES:
        findings.error(*where, *wrong_shape(given, _SHAPES[kind], document.word(path)))
    elif kind in ("value_error", "assertion_error"):
        # Validators of our own raise ValueError("what is wrong", "the fix"), or with the key below that it is about.
        message, fix, *key = detail["ctx"]["error"].args
        findings.error(*document.where(path + tuple(filter(None, key))), message, fix)
    elif kind == "literal_error":
        expected = str(detail["ctx"]["expected"])
        choices = [word.strip("'") for part in expected.split(" or ") for word in part.split(", ")]
        fix = findings.likely(given, choices, f"Write {expected}.") if isinstance(given, str) else f"Write {expected}."
        findings.error(*where, f"{_shown(given)} is not one of its values", fix)
    else:
        message = detail["msg"].removeprefix("Input ").removesuffix(".")
        findings.error(*where, f"{_shown(given)} is refused", f"It {message}.")


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return quoted(value)
