"""YAML files → the services of local mode, and everything that is wrong in them, all at once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from activator_ext.adapters.local.documents import Document, parse
from activator_ext.adapters.local.files import content, yaml_files
from activator_ext.adapters.local.findings import Finding, Findings, did_you_mean, quoted
from activator_ext.adapters.local.inference import InferenceService, ServingRuntime
from activator_ext.adapters.local.names import unambiguous
from activator_ext.adapters.local.policies import PolicyObject, assign
from activator_ext.adapters.local.policy import PrewarmPolicy
from activator_ext.adapters.local.runtimes import RuntimeObject
from activator_ext.adapters.local.schema import read
from activator_ext.adapters.local.services import LocalService, ServiceObject, Surroundings, build
from activator_ext.core.model import ServiceId

__all__ = ["Finding", "Loaded", "LocalService", "load"]

_VERSIONS = {
    "InferenceService": "serving.kserve.io/v1beta1",
    "ServingRuntime": "serving.kserve.io/v1alpha1",
    "ClusterServingRuntime": "serving.kserve.io/v1alpha1",
    "PrewarmPolicy": "pilotlight.dev/v1alpha1",
}
_GROUPS = {version.partition("/")[0] for version in _VERSIONS.values()}
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
        "PrewarmHold",
    ]
)
"""Kinds of KServe and ours that local mode does not serve."""


@dataclass(frozen=True)
class Loaded:
    """What the files came to. With an error among the findings the services are incomplete: keep the last good ones."""

    services: tuple[LocalService, ...]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no error; warnings do not count."""
        return not any(finding.severity == "error" for finding in self.findings)


def load(paths: Sequence[Path], volumes: Mapping[str, Path], platform: Literal["cpu", "cuda"] = "cpu") -> Loaded:
    """Read files and directories (their *.yaml and *.yml). Never raises for what stands in them.

    `volumes`: the directory of each PersistentVolumeClaim that a storageUri may name.
    """
    findings = Findings()
    found = _Objects(findings)
    for file in yaml_files(paths, findings):
        for document in parse(str(file), content(file, findings), findings):
            for item in _items(document):
                found.add(item)
    declared = [ServiceId(namespace, name) for kind, namespace, name in found.seen if kind == "InferenceService"]
    if not declared and not findings.errors():
        where = str(paths[0]) if paths else "FILES"
        findings.error(where, 1, "", "no InferenceService is in these files", "Add one, or name more files.")
    policies = assign(found.policies, declared, findings)
    around = Surroundings(found.runtimes, found.broken_runtimes(), volumes, platform)
    built = [build(entry, policies.get(entry.id), around, findings) for entry in found.services]
    services = unambiguous([service for service in built if service is not None], findings)
    return Loaded(tuple(sorted(services, key=lambda s: s.id)), findings.sorted())


def _items(document: Document) -> Iterator[Document]:
    """The document, or what a `List` holds."""
    items = document.data.get("items")
    if document.data.get("kind") != "List" or not isinstance(items, list):
        yield document
        return
    for index, item in enumerate(items):
        if isinstance(item, dict):
            yield document.at(("items", index))


@dataclass
class _Objects:
    """Every object of our kinds. `seen`: the place of each one named, whether or not it could be read."""

    findings: Findings
    services: list[ServiceObject] = field(default_factory=list)
    runtimes: list[RuntimeObject] = field(default_factory=list)
    policies: list[PolicyObject] = field(default_factory=list)
    seen: dict[tuple[str, str, str], Document] = field(default_factory=dict)

    def add(self, document: Document) -> None:
        kind = document.data.get("kind")
        if not self._ours(document, kind) or self._twice(document, str(kind)):
            return
        if kind == "InferenceService":
            service = read(InferenceService, document, self.findings)
            if service is not None:
                self.services.append(ServiceObject(service, document))
        elif kind == "PrewarmPolicy":
            policy = read(PrewarmPolicy, document, self.findings)
            if policy is not None:
                self.policies.append(PolicyObject(policy, document))
        else:
            runtime = read(ServingRuntime, document, self.findings)
            if runtime is not None:
                self.runtimes.append(RuntimeObject(runtime, document))

    def broken_runtimes(self) -> frozenset[str]:
        """Names of runtimes that were found and could not be read."""
        named = {name for kind, _, name in self.seen if kind.endswith("ServingRuntime")}
        return frozenset(named - {runtime.name for runtime in self.runtimes})

    def _ours(self, document: Document, kind: Any) -> bool:
        """Whether the object is of a kind read here, at the version read here."""
        version = document.data.get("apiVersion")
        if not isinstance(kind, str) or not isinstance(version, str):
            key = "kind" if not isinstance(kind, str) else "apiVersion"
            fix = f"Write {key}, as in apiVersion: serving.kserve.io/v1beta1, kind: InferenceService."
            self.findings.error(*document.where((key,)), "it is required, as text", fix)
        elif _VERSIONS.get(kind) == version:
            return True
        elif kind in _VERSIONS:
            where = document.where(("apiVersion",))
            self.findings.error(*where, f"{quoted(version)} is not read here", f"Write apiVersion: {_VERSIONS[kind]}.")
        elif version.partition("/")[0] in _GROUPS and kind not in _OTHER_KINDS:
            fix = did_you_mean(kind, _VERSIONS, f"Kinds read here: {', '.join(_VERSIONS)}.")
            self.findings.error(*document.where(("kind",)), f"unknown kind {quoted(kind)}", fix)
        else:
            fix = "It takes effect in a cluster."
            self.findings.warning(*document.where(("kind",)), f"local mode ignores {quoted(kind)}", fix)
        return False

    def _twice(self, document: Document, kind: str) -> bool:
        metadata = document.data.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            return False
        namespace = metadata.get("namespace") or "default"
        cluster_wide = kind == "ClusterServingRuntime"
        key = (kind, "" if cluster_wide else str(namespace), metadata["name"])
        first = self.seen.setdefault(key, document)
        if first is document:
            return False
        named = key[2] if cluster_wide else f"{key[1]}/{key[2]}"
        for one, other in ((first, document), (document, first)):
            file, line, _ = other.where(("metadata", "name"))
            message = f"{kind} {quoted(named)} stands twice, also at {file}:{line}"
            self.findings.error(*one.where(("metadata", "name")), message, "Rename or remove one of them.")
        return True
