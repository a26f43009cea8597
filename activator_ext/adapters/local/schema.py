"""Values with lines → strict pydantic models; every deviation becomes a finding at its line, all of them at once."""

from collections.abc import Mapping
from types import UnionType
from typing import Any, ClassVar, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from activator_ext.adapters.local.documents import Document, Path, key_text
from activator_ext.adapters.local.findings import Findings, did_you_mean, quoted

M = TypeVar("M", bound=BaseModel)


class Strict(BaseModel):
    """Base of every object read from a file: camelCase keys, no conversions, no unknown keys.

    `ignored`: keys that are valid in a cluster and without effect here, each with what to know about it; they give a
    warning. `silent`: the same without a warning, for what only says how a pod is run.
    """

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=False, allow_inf_nan=False
    )
    ignored: ClassVar[Mapping[str, str]] = {}
    silent: ClassVar[frozenset[str]] = frozenset()


def read(model: type[M], document: Document, findings: Findings) -> M | None:
    """The document as `model`, or None with the findings that say why not."""
    before = findings.errors()
    data = _known(model, document.data, (), document, findings)
    try:
        value = model.model_validate(data)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            _report(detail, document, findings)
        return None
    return value if findings.errors() == before else None


def _known(annotation: Any, value: Any, path: Path, document: Document, findings: Findings) -> Any:
    """`value` without the keys that its model does not honour, each of them reported."""
    model = model_of(annotation)
    if model is None or value is None:
        return value
    if isinstance(value, list):
        return [_known(annotation, item, (*path, index), document, findings) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    fields = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    kept: dict[str, Any] = {}
    for key, item in value.items():
        here = (*path, key)
        if item is None and key in {*fields, *model.ignored}:
            continue  # to Kubernetes a null is an absent key
        if key in fields:
            kept[key] = _known(fields[key], item, here, document, findings)
        elif key in model.ignored:
            findings.warning(*document.where(here), "local mode ignores it", model.ignored[key])
        elif key not in model.silent:
            known = [*fields, *model.ignored, *model.silent]
            fix = did_you_mean(key, known, f"Known here: {', '.join(sorted(fields))}.")
            findings.error(*document.where(here), "unknown key", fix)
    return kept


def model_of(annotation: Any) -> type[Strict] | None:
    """The `Strict` inside `X`, `X | None`, `list[X]`; None for anything else."""
    if isinstance(annotation, type) and issubclass(annotation, Strict):
        return annotation
    if get_origin(annotation) in (list, Union, UnionType):
        return next((model for part in get_args(annotation) if (model := model_of(part))), None)
    return None


_SHAPES = {
    "string_type": "text, in quotes where YAML would read a number or yes/no",
    "int_type": "a whole number, without quotes",
    "float_type": "a number, without quotes",
    "bool_type": "true or false",
    "list_type": "a list (lines that begin with -)",
    "dict_type": "a mapping (key: value)",
    "model_type": "a mapping (key: value)",
}


def _report(detail: ErrorDetails, document: Document, findings: Findings) -> None:
    path: Path = detail["loc"]
    where = document.where(path)
    given, kind = detail["input"], detail["type"]
    if kind == "missing":
        findings.error(*where, "it is required", f"Add {key_text(path[-1:])} here.")
    elif kind in _SHAPES:
        findings.error(*where, f"{_shown(given)} has the wrong type", f"Write {_SHAPES[kind]}.")
    elif kind in ("value_error", "assertion_error"):
        # Validators of our own raise ValueError("what is wrong", "the fix"), or with the key below that it is about.
        message, fix, *key = detail["ctx"]["error"].args
        findings.error(*document.where(path + tuple(filter(None, key))), message, fix)
    elif kind == "literal_error":
        expected = str(detail["ctx"]["expected"])
        choices = [word.strip("'") for part in expected.split(" or ") for word in part.split(", ")]
        fix = did_you_mean(given, choices, f"Write {expected}.") if isinstance(given, str) else f"Write {expected}."
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
