"""One InferenceService with its runtime and policy → a service that can be decided on and started."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from activator_ext.adapters.local import annotations, documents, policies
from activator_ext.adapters.local.annotations import ALLOW_PICKLE
from activator_ext.adapters.local.batches import limited
from activator_ext.adapters.local.containers import MAIN, EngineContainer, Layer, main_container, merge, own_container
from activator_ext.adapters.local.documents import Document, Where, Word
from activator_ext.adapters.local.durations import seconds
from activator_ext.adapters.local.engine_args import EngineArgs, parse
from activator_ext.adapters.local.environment import STORAGE_URI, allowed
from activator_ext.adapters.local.findings import Findings
from activator_ext.adapters.local.inference import OLD_FORMS, InferenceService
from activator_ext.adapters.local.model_source import MOUNT, Source, check_exists, locate
from activator_ext.adapters.local.policies import PolicyObject
from activator_ext.adapters.local.runtimes import RuntimeObject, select
from activator_ext.core.model import Policy, ServiceId
from runtime.contract import EngineSpec

PROGRESS_DEADLINE = "serving.knative.dev/progress-deadline"
"""Annotation: how long a start may take."""
_PREDICTOR = ("spec", "predictor")


@dataclass(frozen=True)
class LocalService:
    """A service of the files. `names`: the values of a request's `model` that mean it and no other service."""

    id: ServiceId
    policy: Policy
    spec: EngineSpec
    names: tuple[str, ...]
    file: str
    line: int
    policy_name: str | None


@dataclass(frozen=True)
class ServiceObject:
    """An InferenceService and where it stands."""

    service: InferenceService
    document: Document

    @property
    def id(self) -> ServiceId:
        """`namespace/name`."""
        return ServiceId(self.service.metadata.namespace, self.service.metadata.name)


@dataclass(frozen=True)
class Surroundings:
    """What a service is built with: the files' runtimes (`broken`: names of unreadable ones), and this machine."""

    runtimes: Sequence[RuntimeObject]
    broken: frozenset[str]
    volumes: Mapping[str, Path]
    platform: Literal["cpu", "cuda"]


def build(
    entry: ServiceObject, policy: PolicyObject | None, around: Surroundings, findings: Findings
) -> LocalService | None:
    """The service, its names not yet held against those of others; None with an error."""
    before = findings.errors()
    for path, noted in _annotations(entry):
        annotations.warn(noted, path, entry.document, findings)
    combined = policies.combine(entry.id, entry.service.spec.predictor, entry.document, policy, findings)
    layers = _layers(entry, around, findings)
    if not layers:
        return None
    spec = _engine(entry, layers, policy, around, findings)
    if spec is None or findings.errors() > before:
        return None
    file, line, _ = entry.document.where()
    name = None if policy is None else policy.name
    return LocalService(entry.id, combined, spec, spec.served_names, file, line, name)


def _layers(entry: ServiceObject, around: Surroundings, findings: Findings) -> tuple[Layer, ...]:
    """The containers to merge, the lowest first; none with an error."""
    predictor, document = entry.service.spec.predictor, entry.document
    if _has_old_form(document, findings):
        return ()
    if predictor.model is None and not predictor.containers:
        fix = "Write model: {modelFormat, storageUri} under it."
        findings.error(*document.where(_PREDICTOR), "it has neither model nor containers", fix)
        return ()
    if predictor.model is None:
        custom = own_container(predictor.containers, document, (*_PREDICTOR, "containers"), findings)
        return (custom,) if custom else ()
    if any(container.name == MAIN for container in predictor.containers):
        where = document.where((*_PREDICTOR, "containers"))
        findings.error(*where, f"KServe takes no model beside a container named {MAIN}", "Remove one of the two.")
        return ()
    if predictor.containers:
        where = document.where((*_PREDICTOR, "containers"))
        findings.warning(*where, "local mode ignores containers beside the model's", "The runtime's container is run.")
    chosen = select(entry.service, predictor.model, around.runtimes, around.broken, document, findings)
    if chosen is None:
        return ()
    containers = chosen.runtime.spec.containers
    base = main_container(containers, chosen.document, ("spec", "containers"), findings)
    return (base, Layer(predictor.model, document, (*_PREDICTOR, "model"))) if base else ()


def _has_old_form(document: Document, findings: Findings) -> bool:
    """Whether the predictor names a framework, which only another server than vLLM would serve; each is an error."""
    written = document.data["spec"]["predictor"]
    forms = [form for form in sorted(OLD_FORMS) if written.get(form) is not None]
    for form in forms:
        fix = "Serve it in a cluster and remove it from these files."
        if form == "huggingface":
            fix = "Write model: {modelFormat: {name: huggingface}, storageUri} in its place."
        where = document.where((*_PREDICTOR, form))
        findings.error(*where, f"local mode runs vLLM only, and no server of KServe's for {form}", fix)
    return bool(forms)


def _engine(
    entry: ServiceObject,
    layers: Sequence[Layer],
    policy: PolicyObject | None,
    around: Surroundings,
    findings: Findings,
) -> EngineSpec | None:
    container = merge(layers, entry.id, findings)
    env = allowed(container.env, findings)
    parsed = parse(container, findings)
    if container.gpu is not None and around.platform == "cpu":
        fix = "Nothing to do without a GPU; with one, start with --platform cuda."
        findings.warning(*container.gpu, "a GPU is asked for, and the engine will run on the CPU", fix)
    timeout_s = _start_timeout_s(entry, findings)
    if parsed is None:
        return None
    source = _source(entry, container, parsed, around, findings)
    if source is None:
        return None
    given = (word.text for word in parsed.served_names)
    return EngineSpec(
        service=str(entry.id),
        served_names=tuple(dict.fromkeys([str(entry.id), entry.id.name, *given])),
        model=source.model,
        args=limited([source.fill(arg) for arg in parsed.args], entry.service.spec.predictor.container_concurrency),
        env={name: source.fill(value) for name, value in env.items()},
        platform=around.platform,
        pickle=_pickle(entry, findings),
        golden=policies.golden(policy),
        **({} if timeout_s is None else {"start_timeout_s": timeout_s}),
    )


def _source(
    entry: ServiceObject, container: EngineContainer, parsed: EngineArgs, around: Surroundings, findings: Findings
) -> Source | None:
    storage = _storage(entry, container)
    source = locate(parsed.model, storage, around.volumes, container.where, findings)
    if source is None:
        return None
    where: Where = storage.where if storage else container.where
    if parsed.model is None and not parsed.mounted:
        fix = f"Write {MOUNT} as the first of args."
        findings.warning(*where, "args name no model: in a cluster vLLM would not serve this one", fix)
    check_exists(source.model, where, findings)
    return source


def _storage(entry: ServiceObject, container: EngineContainer) -> Word | None:
    model = entry.service.spec.predictor.model
    if model is None:
        return container.env.get(STORAGE_URI)
    if model.storage_uri is None:
        return None
    return Word(model.storage_uri, entry.document.where((*_PREDICTOR, "model", "storageUri")))


def _start_timeout_s(entry: ServiceObject, findings: Findings) -> float | None:
    """The progress deadline of the predictor, else of the service; None if there is none."""
    for path, noted in _annotations(entry):
        if PROGRESS_DEADLINE in noted:
            where = entry.document.where((*path, PROGRESS_DEADLINE))
            return _deadline_s(noted[PROGRESS_DEADLINE], where, findings)
    return None


def _pickle(entry: ServiceObject, findings: Findings) -> tuple[str, ...]:
    """Which pickled files may be read: as the predictor says, else the service."""
    for path, noted in _annotations(entry):
        if ALLOW_PICKLE in noted:
            where = entry.document.where((*path, ALLOW_PICKLE))
            return annotations.pickle_patterns(noted[ALLOW_PICKLE], where, findings)
    return ()


def _annotations(entry: ServiceObject) -> tuple[tuple[documents.Path, Mapping[str, str]], ...]:
    """Those of the predictor, whose word counts first, and those of the service."""
    return (
        ((*_PREDICTOR, "annotations"), entry.service.spec.predictor.annotations),
        (("metadata", "annotations"), entry.service.metadata.annotations),
    )


def _deadline_s(text: str, where: Where, findings: Findings) -> float | None:
    try:
        deadline_s = seconds(text)
    except ValueError as error:
        message, fix = error.args
        findings.error(*where, message, fix)
        return None
    if deadline_s <= 0:
        findings.error(*where, "it must be longer than 0", "Write one like 10m or 1h.")
        return None
    return deadline_s
