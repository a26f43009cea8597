"""Which (Cluster)ServingRuntime serves a predictor's model, by KServe's rules."""

from collections.abc import Sequence
from dataclasses import dataclass

from activator_ext.adapters.local.documents import Document
from activator_ext.adapters.local.findings import Findings, listed, quoted
from activator_ext.adapters.local.inference import InferenceService, ModelFormat, ModelSpec, ServingRuntime

_MODEL = ("spec", "predictor", "model")


@dataclass(frozen=True)
class RuntimeObject:
    """A runtime and where it stands."""

    runtime: ServingRuntime
    document: Document

    @property
    def name(self) -> str:
        """Its name."""
        return self.runtime.metadata.name

    @property
    def cluster_wide(self) -> bool:
        """Whether it serves every namespace."""
        return self.runtime.kind == "ClusterServingRuntime"

    def priority(self, wanted: ModelFormat) -> int | None:
        """Its priority for a format that it selects automatically (0 if it states none); None if it does not."""
        found = [
            known.priority or 0
            for known in self.runtime.spec.supported_model_formats
            if known.auto_select and _fits(known.name, known.version, wanted)
        ]
        return max(found, default=None)

    def serves(self, wanted: ModelFormat) -> bool:
        """Whether it serves the format when it is named."""
        return any(_fits(known.name, known.version, wanted) for known in self.runtime.spec.supported_model_formats)


def _fits(name: str, version: str | None, wanted: ModelFormat) -> bool:
    # A service that states no version takes any; one that does is not served by a format without one.
    return name == wanted.name and wanted.version in (None, version)


def ordered(runtimes: Sequence[RuntimeObject]) -> list[RuntimeObject]:
    """A namespace's own before the cluster's, then by name."""
    return sorted(runtimes, key=lambda runtime: (runtime.cluster_wide, runtime.name))


def select(
    service: InferenceService,
    model: ModelSpec,
    runtimes: Sequence[RuntimeObject],
    broken: frozenset[str],
    document: Document,
    findings: Findings,
) -> RuntimeObject | None:
    """The runtime by name, else the first that selects the model's format automatically; None with an error.

    A namespace's own runtimes come before the cluster's; then the higher priority, then the name. `broken`: names of
    runtimes that were found and could not be read, whose errors are told already. `runtimes` are `ordered`.
    """
    namespace = service.metadata.namespace
    near = [r for r in runtimes if r.cluster_wide or r.runtime.metadata.namespace == namespace]
    if model.runtime is not None:
        return _named(model.runtime, model.model_format, near, broken, document, findings)
    fitting = [(r.cluster_wide, -priority, r.name, r) for r in near if (priority := _automatic(r, model)) is not None]
    if fitting:
        return min(fitting, key=lambda entry: entry[:3])[3]
    if not broken:
        message = f"no runtime selects the format {quoted(model.model_format.name)} automatically"
        fix = f"Write runtime: NAME under model. {_known(near)}"
        findings.error(*document.where((*_MODEL, "modelFormat")), message, fix)
    return None


def _automatic(runtime: RuntimeObject, model: ModelSpec) -> int | None:
    return None if runtime.runtime.spec.disabled else runtime.priority(model.model_format)


def _named(
    name: str,
    wanted: ModelFormat,
    near: Sequence[RuntimeObject],
    broken: frozenset[str],
    document: Document,
    findings: Findings,
) -> RuntimeObject | None:
    where = document.where((*_MODEL, "runtime"))
    found = next((r for r in near if r.name == name), None)
    if found is None:
        if name not in broken:
            findings.error(*where, f"no runtime is named '{name}'", findings.likely(name, _names(near), _known(near)))
    elif found.runtime.spec.disabled:
        findings.error(*where, f"the runtime '{name}' is disabled", "Choose another, or remove disabled there.")
    elif not found.serves(wanted):
        message = f"the runtime '{name}' does not serve the format {quoted(wanted.name)}"
        formats = listed(sorted({known.name for known in found.runtime.spec.supported_model_formats})) or "none"
        findings.error(*where, message, f"Its formats (a version given must be its own): {formats}.")
    else:
        return found
    return None


def _names(runtimes: Sequence[RuntimeObject]) -> list[str]:
    return [runtime.name for runtime in runtimes]


def _known(runtimes: Sequence[RuntimeObject]) -> str:
    if not runtimes:
        return "No runtime is in these files: add a ServingRuntime or ClusterServingRuntime."
    return f"Known here: {listed(_names(runtimes))}."
