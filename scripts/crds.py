"""Writes manifests/crds from the models that local mode reads files with: what `check` takes, a cluster takes.

    python -m scripts.crds

A test compares the files with what this would write. Rules that span fields, and those of texts, are in crd_rules.
"""

import ast
import inspect
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Annotated, Any, get_args, get_origin

import yaml
from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from activator_ext.adapters.kubernetes.status_fields import HoldStatus, Part, PolicyStatus
from activator_ext.adapters.local.hold import PrewarmHold
from activator_ext.adapters.local.policy import API_VERSION, PrewarmPolicy
from activator_ext.adapters.local.schema import Strict
from scripts.crd_rules import RULES, At, Rule, literal

DIRECTORY = Path(__file__).resolve().parent.parent / "manifests" / "crds"
GROUP, VERSION = API_VERSION.split("/")
_NOTE = "# Written by scripts/crds.py from the models that read files in local mode; edit those.\n"
_LISTS_BY_KEY = {"schedules": "name", "conditions": "type", "leadTimes": "kind", "services": "name"}
"""Lists whose items are told apart by a key: server-side apply merges them by it, and none may come twice."""

Schema = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """One kind of object. `columns`: name, type, JSON path and whether only `-o wide` shows it."""

    model: type[Strict]
    status: type[Part]
    plural: str
    short: str
    columns: tuple[tuple[str, str, str, bool], ...]

    @property
    def name(self) -> str:
        """As in `kind:`."""
        return self.model.__name__


_ACCEPTED = '.status.conditions[?(@.type=="Accepted")]'
KINDS = (
    Kind(
        PrewarmPolicy,
        PolicyStatus,
        "prewarmpolicies",
        "pwp",
        (
            ("Service", "string", ".spec.serviceRef.name", False),
            ("Accepted", "string", f"{_ACCEPTED}.status", False),
            ("Warmth", "string", ".status.warmth", False),
            ("Floor", "integer", ".status.floor", False),
            ("Reason", "string", ".status.reason.code", False),
            ("Next Warm", "string", ".status.nextWarmTime", False),
            ("Lead Time", "string", ".status.leadTime", False),
            ("Age", "date", ".metadata.creationTimestamp", False),
            ("Until", "string", ".status.floorUntil", True),
            ("Why", "string", ".status.reason.text", True),
            ("Message", "string", f"{_ACCEPTED}.message", True),
        ),
    ),
    Kind(
        PrewarmHold,
        HoldStatus,
        "prewarmholds",
        "pwh",
        (
            ("Service", "string", ".spec.serviceRef.name", False),
            ("Replicas", "integer", ".spec.replicas", False),
            ("State", "string", ".status.state", False),
            ("Ready By", "string", ".spec.readyBy", False),
            ("Until", "string", ".status.until", False),
            ("Age", "date", ".metadata.creationTimestamp", False),
            ("Why", "string", ".spec.reason", True),
            ("Message", "string", f"{_ACCEPTED}.message", True),
        ),
    ),
)


def definitions() -> dict[str, Schema]:
    """Each CustomResourceDefinition by its file name."""
    return {f"{kind.plural}.yaml": _definition(kind) for kind in KINDS}


def files() -> dict[str, str]:
    """Each file's text by its name: the definitions, and what `kubectl apply -k` reads."""
    resources = [*definitions()]
    kustomization = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources}
    dumped = {
        name: yaml.safe_dump(each, sort_keys=False, width=120, allow_unicode=True)
        for name, each in (definitions() | {"kustomization.yaml": kustomization}).items()
    }
    return {name: f"{_NOTE}{text}" for name, text in dumped.items()}


def _definition(kind: Kind) -> Schema:
    columns = [
        {"name": name, "type": form, "jsonPath": path, **({"priority": 1} if wide else {})}
        for name, form, path, wide in kind.columns
    ]
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": _root(kind)},
    }
    names = {
        "kind": kind.name,
        "listKind": f"{kind.name}List",
        "plural": kind.plural,
        "singular": kind.name.lower(),
        "shortNames": [kind.short],
        "categories": ["pilotlight"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}", "labels": {"app.kubernetes.io/part-of": "pilotlight"}},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def _root(kind: Kind) -> Schema:
    spec_field = kind.model.model_fields["spec"]
    spec = _field(kind.name, "spec", "spec", spec_field, documented(kind.model)["spec"])
    status = {**_object(kind.name, "status", kind.status), "description": "What a controller of Pilotlight says of it."}
    root: Schema = {
        "type": "object",
        "description": " ".join((inspect.getdoc(sys.modules[kind.model.__module__]) or "").split("\n\n")[0].split()),
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    }
    if spec_field.is_required():
        root["required"] = ["spec"]
    return _ruled(root, RULES[kind.name].get(""))


def _object(kind: str, path: str, model: type[BaseModel]) -> Schema:
    """A model as a structural schema."""
    docs = documented(model)
    properties, required = {}, []
    for name, field in model.model_fields.items():
        key = field.alias or name
        properties[key] = _field(kind, f"{path}.{key}", key, field, docs[name])
        if field.is_required():
            required.append(key)
    schema: Schema = {"type": "object", "description": _one_line(model), "properties": properties}
    return schema | ({"required": required} if required else {})


def _field(kind: str, path: str, key: str, field: FieldInfo, description: str) -> Schema:
    inner = inner_model(field.annotation)
    if inner is None:
        schema = _leaf(field, status=path.startswith("status"))
    elif get_origin(field.annotation) is list:
        items = _ruled(_object(kind, f"{path}[]", inner), RULES[kind].get(f"{path}[]"))
        schema = {"type": "array", "items": items, **_list_bounds(field)}
    else:
        schema = _object(kind, path, inner)
    if schema["type"] == "array":
        keyed = _LISTS_BY_KEY.get(key)
        schema["x-kubernetes-list-type"] = "map" if keyed else "atomic"
        schema |= {"x-kubernetes-list-map-keys": [keyed]} if keyed else {}
    schema = {"description": description, **{name: value for name, value in schema.items() if name != "description"}}
    default = _default(field, schema)
    schema |= {} if default is None else {"default": default}
    return _ruled(schema, RULES[kind].get(path))


def _default(field: FieldInfo, schema: Schema) -> object:
    """What the API server writes where the key is absent; None: nothing."""
    if isinstance(field.default, BaseModel):
        # Nested defaults come by themselves. An object without any would only be noise in what is stored.
        return {} if any("default" in each for each in schema["properties"].values()) else None
    if field.is_required() or field.default_factory is not None or field.default in (None, ""):
        return None
    default: object = field.default
    return default


def _leaf(field: FieldInfo, *, status: bool) -> Schema:
    """Text, number, enumeration, and lists and mappings of them."""
    annotation: Any = field.annotation
    if status and isinstance(annotation := _without_none(annotation), type) and issubclass(annotation, Enum):
        # A controller that is newer than the CRD may have a word more to say.
        return {"type": "string", "maxLength": 64}
    for constraint in field.metadata:
        annotation = Annotated[annotation, constraint]
    return _structural(TypeAdapter(annotation).json_schema())


def _structural(schema: Mapping[str, Any]) -> Schema:
    """JSON Schema of one leaf → the OpenAPI 3.0 of CRDs: no null, no const, bounds that say whether they count."""
    if "anyOf" in schema:
        (given,) = (each for each in schema["anyOf"] if each.get("type") != "null")
        return _structural(given)
    out = {key: value for key, value in schema.items() if key not in ("title", "default", "const")}
    for bound, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if bound in out:
            out[plain], out[bound] = out[bound], True
    for below in ("items", "additionalProperties"):
        if isinstance(out.get(below), Mapping):
            out[below] = _structural(out[below])
    if out["type"] == "integer":
        out["format"] = "int64"
    return out


def _list_bounds(field: FieldInfo) -> Schema:
    names = {"max_length": "maxItems", "min_length": "minItems"}
    return {key: getattr(each, name) for each in field.metadata for name, key in names.items() if hasattr(each, name)}


def _ruled(schema: Schema, at: At | None) -> Schema:
    if at is None:
        return schema
    bound = {} if at.max_length is None else {"maxLength": at.max_length}
    return schema | bound | {"x-kubernetes-validations": [_rule(rule) for rule in at.rules]}


def _rule(rule: Rule) -> Schema:
    if rule.values:
        values = ", ".join(f"dyn({value})" for value in rule.values)
        message = {"messageExpression": f"{literal(rule.message)}.format([{values}])"}
    else:
        message = {"message": rule.message}
    return {"rule": rule.rule, **message, **({"fieldPath": rule.field} if rule.field else {})}


def inner_model(annotation: Any) -> type[BaseModel] | None:
    """The model inside `X`, `X | None`, `list[X]`; None for anything else."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) is Annotated:
        return None
    return next((model for part in get_args(annotation) if (model := inner_model(part))), None)


def _without_none(annotation: Any) -> Any:
    parts = [part for part in get_args(annotation) if part is not type(None)]
    return parts[0] if len(parts) == 1 and type(None) in get_args(annotation) else annotation


def _one_line(model: type[BaseModel]) -> str:
    return " ".join((inspect.getdoc(model) or "").split())


@cache
def documented(model: type[BaseModel]) -> Mapping[str, str]:
    """The text below each field of a model, what `kubectl explain` says. Raises KeyError by use where one has none."""
    (body,) = (node for node in ast.parse(dedent(inspect.getsource(model))).body if isinstance(node, ast.ClassDef))
    return dict(_texts(body.body))


def _texts(body: Iterable[ast.stmt]) -> Iterable[tuple[str, str]]:
    lines = list(body)
    for line, below in pairwise(lines):
        if (
            isinstance(line, ast.AnnAssign)
            and isinstance(line.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            yield line.target.id, " ".join(below.value.value.split())


def main() -> int:
    """Write every file, remove what is none."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    wanted = files()
    for stale in {path.name for path in DIRECTORY.iterdir()} - wanted.keys():
        (DIRECTORY / stale).unlink()
    for name, text in wanted.items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")
    print(f"{os.path.relpath(DIRECTORY)}: {', '.join(wanted)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
