"""Writes activator_ext/adapters/local/kserve_fields.json: which fields KServe and Kubernetes know, and of which type.

    python -m scripts.kserve_fields

Read from the sources of two packages that set-up unpacks beside the environment (`.venv/kserve-sdk`, see
scripts/provision.py): the kserve SDK, whose own dependencies contradict the engine's, and the Kubernetes client whose
types it refers to. Both are generated from the servers' OpenAPI, one class a type, with two literal tables each; those
are read and nothing is imported or run. A test compares the file with what this would write.
"""

import ast
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from scripts.provision import KSERVE_SDK, ROOT

SDK = ROOT / ".venv" / KSERVE_SDK
TARGET = ROOT / "activator_ext" / "adapters" / "local" / "kserve_fields.json"
ROOTS = ("V1beta1InferenceService", "V1alpha1ServingRuntime", "V1alpha1ClusterServingRuntime")

Types = dict[str, dict[str, str]]

_SCALARS = {"str": "text", "int": "integer", "bool": "boolean", "datetime": "text", "object": "any"}
_QUANTITY = "quantity"
# Types that the SDK names and does not contain.
_ALIASES = {
    "K8sIoApiAppsV1DeploymentStrategy": "V1DeploymentStrategy",
    "K8sIoApiAutoscalingV2HorizontalPodAutoscalerBehavior": "V2HorizontalPodAutoscalerBehavior",
    "ResourceQuantity": _QUANTITY,
    "V1beta1MetricQuantity": _QUANTITY,
}
# The same, and no other class has its fields: KServe's CRD (ServingRuntime, spec.workerSpec) is a pod and these two.
_WORKER = "V1alpha1WorkerSpec"
_WORKER_POD = "V1alpha1ServingRuntimePodSpec"
_WORKER_OWN = {"pipelineParallelSize": "int", "tensorParallelSize": "int"}
# Quantities, which may be written as a number too: the Kubernetes client knows them as text only.
_QUANTITIES = {
    ("V1EmptyDirVolumeSource", "sizeLimit"),
    ("V1ResourceFieldSelector", "divisor"),
    ("V1ResourceRequirements", "limits"),
    ("V1ResourceRequirements", "requests"),
    ("V1VolumeResourceRequirements", "limits"),
    ("V1VolumeResourceRequirements", "requests"),
}
_LIST = re.compile(r"list\[(.*)\]")
_MAP = re.compile(r"dict[(\[]str, (.*)[)\]]")


def fields(sdk: Path) -> Types:
    """Every type that the roots reach, its fields and their types. Raises KeyError for a type that nothing defines.

    A type is `text`, `integer`, `boolean`, `quantity`, `any` or the name of another one; `[T]` a list, `{T}` a mapping
    with free keys. What a server writes, `status`, is `any`.
    """
    known = _classes(sdk / "kserve" / "models") | _classes(sdk / "kubernetes" / "client" / "models")
    known[_WORKER] = known[_WORKER_POD] | _WORKER_OWN
    found: Types = {}
    wanted = list(ROOTS)
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = {key: _type(name, key, text) for key, text in sorted(known[name].items())}
            wanted += [used for text in found[name].values() if (used := text.strip("[]{}")) not in _WORDS]
    return dict(sorted(found.items()))


_WORDS = {*_SCALARS.values(), _QUANTITY}


def _type(owner: str, key: str, text: str) -> str:
    """The SDK's `list[V1Container]` → `[V1Container]`."""
    if key == "status" and owner in ROOTS:
        return "any"
    if inner := _LIST.fullmatch(text):
        return f"[{_type(owner, key, inner[1])}]"
    if inner := _MAP.fullmatch(text):
        return f"{{{_type(owner, key, inner[1])}}}"
    if (owner, key) in _QUANTITIES:
        return _QUANTITY
    return _SCALARS.get(text) or _ALIASES.get(text, text)


def _classes(folder: Path) -> Types:
    """The generated classes of a folder: JSON key → type, as written there."""
    found: Types = {}
    for file in sorted(folder.glob("*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                tables = dict(_tables(node))
                if tables:
                    types, keys = tables["openapi_types"], tables["attribute_map"]
                    found[node.name] = {keys[attribute]: text for attribute, text in types.items()}
    return found


def _tables(node: ast.ClassDef) -> Iterator[tuple[str, Mapping[str, str]]]:
    for statement in node.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            if name in ("openapi_types", "attribute_map"):
                yield name, ast.literal_eval(statement.value)


def text(sdk: Path) -> str:
    """What the file holds: one type a line, so that a new version of the SDK reads as a diff."""
    lines = [f"{json.dumps(name)}: {json.dumps(keys)}" for name, keys in fields(sdk).items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> int:
    """Write the file."""
    if not SDK.is_dir():
        print(f"kserve_fields: {SDK} is missing: run make setup", file=sys.stderr)
        return 1
    TARGET.write_text(text(SDK), encoding="utf-8")
    print(f"kserve_fields: {TARGET.relative_to(ROOT)} is written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
