"""YAML files → the services of local mode, and everything that is wrong in them, all at once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from activator_ext.adapters.local.documents import Document, parse
from activator_ext.adapters.local.files import STDIN, content, yaml_files
from activator_ext.adapters.local.findings import Finding, Findings, quoted
from activator_ext.adapters.local.hold import PrewarmHold
from activator_ext.adapters.local.inference import InferenceService, ServingRuntime
from activator_ext.adapters.local.kinds import items, key_of, read_here
from activator_ext.adapters.local.names import unambiguous
from activator_ext.adapters.local.policies import PolicyObject, assign
from activator_ext.adapters.local.policy import PrewarmPolicy
from activator_ext.adapters.local.runtimes import RuntimeObject, ordered
from activator_ext.adapters.local.schema import read
from activator_ext.adapters.local.services import LocalService, ServiceObject, Surroundings, build
from activator_ext.core.model import ServiceId

__all__ = ["STDIN", "Finding", "Loaded", "LocalService", "load"]


@dataclass(frozen=True)
class Loaded:
    """What the files came to. With an error among the findings the services are incomplete: keep the last good ones."""

    services: tuple[LocalService, ...]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no error; warnings do not count."""
        return not any(finding.severity == "error" for finding in self.findings)


def load(
    paths: Sequence[Path],
    volumes: Mapping[str, Path],
    platform: Literal["cpu", "cuda"] = "cpu",
    stdin: bytes | None = None,
) -> Loaded:
    """Read files and directories (their *.yaml and *.yml). Never raises for what stands in them.

    `volumes`: the directory of each PersistentVolumeClaim that a storageUri may name. `stdin`: what is read besides the
    files, under the name STDIN.
    """
    findings = Findings()
    found = _Objects(findings)
    for name, text in _texts(paths, stdin, findings):
        for document in parse(name, text, findings):
            for item in items(document, findings):
                found.add(item)
    declared = [ServiceId(namespace, name) for kind, namespace, name in found.seen if kind == "InferenceService"]
    if not declared and not findings.errors():
        where = str(paths[0]) if paths else "FILES"
        findings.error(where, 1, "", "no InferenceService is in these files", "Add one, or name more files.")
    policies = assign(found.policies, declared, findings)
    around = Surroundings(ordered(found.runtimes), found.broken_runtimes(), volumes, platform)
    built = [build(entry, policies.get(entry.id), around, findings) for entry in found.services]
    services = unambiguous([service for service in built if service is not None], findings)
    return Loaded(tuple(sorted(services, key=lambda s: s.id)), findings.sorted())


def _texts(paths: Sequence[Path], stdin: bytes | None, findings: Findings) -> Iterator[tuple[str, bytes]]:
    if stdin is not None:
        yield STDIN, stdin
    for file in yaml_files(paths, findings):
        yield str(file), content(file, findings)


@dataclass
class _Objects:
    """Every object of our kinds. `seen`: the place of each one named, whether or not it could be read."""

    findings: Findings
    services: list[ServiceObject] = field(default_factory=list)
    runtimes: list[RuntimeObject] = field(default_factory=list)
    policies: list[PolicyObject] = field(default_factory=list)
    seen: dict[tuple[str, str, str], Document] = field(default_factory=dict)

    def add(self, document: Document) -> None:
        if not read_here(document, self.findings):
            return
        kind = str(document.data["kind"])
        if self._twice(document, kind):
            return
        if kind == "InferenceService":
            service = read(InferenceService, document, self.findings)
            if service is not None:
                self.services.append(ServiceObject(service, document))
        elif kind == "PrewarmPolicy":
            policy = read(PrewarmPolicy, document, self.findings)
            if policy is not None:
                self.policies.append(PolicyObject(policy, document))
        elif kind == "PrewarmHold":
            if read(PrewarmHold, document, self.findings) is not None:
                fix = "It takes effect in a cluster; here write `pilotlight prewarm`."
                self.findings.warning(*document.where(("kind",)), "local mode ignores 'PrewarmHold'", fix)
        else:
            runtime = read(ServingRuntime, document, self.findings)
            if runtime is not None:
                self.runtimes.append(RuntimeObject(runtime, document))

    def broken_runtimes(self) -> frozenset[str]:
        """Names of runtimes that were found and could not be read."""
        named = {name for kind, _, name in self.seen if kind.endswith("ServingRuntime")}
        return frozenset(named - {runtime.name for runtime in self.runtimes})

    def _twice(self, document: Document, kind: str) -> bool:
        key = key_of(document, kind)
        if key is None:
            return False
        first = self.seen.setdefault(key, document)
        if first is document:
            return False
        _, namespace, name = key
        named = f"{namespace}/{name}" if namespace else name
        for one, other in ((first, document), (document, first)):
            file, line, _ = other.where(("metadata", "name"))
            message = f"{kind} {quoted(named)} stands twice, also at {file}:{line}"
            self.findings.error(*one.where(("metadata", "name")), message, "Rename or remove one of them.")
        return True
