"""Which of a file's objects are read here: their kinds and versions, and the lists that hold several."""

from collections.abc import Iterator
from typing import Any

from activator_ext.adapters.local.documents import Document
from activator_ext.adapters.local.findings import Findings, quoted
from activator_ext.adapters.local.schema import IN_A_CLUSTER

VERSIONS = {
    "InferenceService": "serving.kserve.io/v1beta1",
    "ServingRuntime": "serving.kserve.io/v1alpha1",
    "ClusterServingRuntime": "serving.kserve.io/v1alpha1",
    "PrewarmPolicy": "pilotlight.dev/v1alpha1",
    "PrewarmHold": "pilotlight.dev/v1alpha1",
}
"""The kinds read here, each with the one version that is read."""
_GROUPS = {version.partition("/")[0] for version in VERSIONS.values()}
_OTHER_KINDS = frozenset(
    [
        "LLMInferenceService",
        "LLMInferenceServiceConfig",
        "InferenceGraph",
        "TrainedModel",
        "ClusterStorageContainer",
        "LocalModelCache",
        "LocalModelNamespaceCache",
        "LocalModelNode",
        "LocalModelNodeGroup",
    ]
)
"""Kinds of KServe that local mode does not serve."""
_LISTS = {"List", *(f"{kind}List" for kind in VERSIONS)}


def items(document: Document, findings: Findings) -> Iterator[Document]:
    """The document, or what a list of objects holds; each item of it that is no object is an error."""
    kind, found = document.data.get("kind"), document.data.get("items")
    if not isinstance(kind, str) or kind not in _LISTS:
        yield document
        return
    if not isinstance(found, list):
        fix = "Write the objects under items, each with -."
        findings.error(*document.where(("items",)), "a list has no items", fix)
        return
    for index, item in enumerate(found):
        if isinstance(item, dict):
            yield document.at(("items", index))
        else:
            fix = "Write apiVersion, kind, metadata and spec under it, or remove it."
            findings.error(*document.where(("items", index)), "the item is not an object", fix)


def read_here(document: Document, findings: Findings) -> bool:
    """Whether the object is of a kind read here, at the version read here; what it is else, is said."""
    kind, version = document.data.get("kind"), document.data.get("apiVersion")
    if not isinstance(kind, str) or not isinstance(version, str):
        key = "apiVersion" if isinstance(kind, str) else "kind"
        fix = f"Write {key}, as in apiVersion: serving.kserve.io/v1beta1, kind: InferenceService."
        findings.error(*document.where((key,)), "it is required, as text", fix)
    elif VERSIONS.get(kind) == version:
        return True
    elif kind in VERSIONS:
        where = document.where(("apiVersion",))
        findings.error(*where, f"{quoted(version)} is not read here", f"Write apiVersion: {VERSIONS[kind]}.")
    else:
        _say_other(document, kind, version.partition("/")[0], findings)
    return False


def _say_other(document: Document, kind: str, group: str, findings: Findings) -> None:
    where = document.where(("kind",))
    if kind in _LISTS:
        findings.error(*where, "a list stands inside a list", "Write its objects into the outer one.")
    elif group in _GROUPS and kind not in _OTHER_KINDS:
        fix = findings.likely(kind, VERSIONS, f"Kinds read here: {', '.join(VERSIONS)}.")
        findings.error(*where, f"unknown kind {quoted(kind)}", fix)
    elif group == "kustomize.config.k8s.io":
        fix = "Give what it builds: kustomize build DIR > FILE."
        findings.warning(*where, "local mode does not build kustomizations", fix)
    else:
        findings.warning(*where, f"local mode ignores {quoted(kind)}", IN_A_CLUSTER)


def key_of(document: Document, kind: str) -> tuple[str, str, str] | None:
    """Kind, namespace (empty for cluster-wide ones) and name; None where it has no name."""
    metadata: Any = document.data.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return None
    namespace = "" if kind == "ClusterServingRuntime" else str(metadata.get("namespace") or "default")
    return kind, namespace, metadata["name"]
