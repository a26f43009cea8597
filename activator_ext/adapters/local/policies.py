"""Which PrewarmPolicy is whose, and what it comes to within the InferenceService's own bounds."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from activator_ext.adapters.local.documents import Document, Where
from activator_ext.adapters.local.durations import seconds
from activator_ext.adapters.local.findings import Findings, listed
from activator_ext.adapters.local.inference import Predictor
from activator_ext.adapters.local.policy import WITHOUT_EFFECT, PrewarmPolicy
from activator_ext.core.model import Bounds, Policy, QueuePolicy, ServiceId
from runtime.contract import Golden

DEFAULT_NAME = "default"
"""A policy of this name without serviceRef is for each service of its namespace that has none of its own."""
WITHOUT_REF = (
    "it is required: serviceRef",
    f"Write serviceRef: {{name: SERVICE}}, or name the policy {DEFAULT_NAME}: it is then for each service.",
)
"""Message and fix for a policy of another name that names no service."""
_REF = ("spec", "serviceRef")
_BOUNDS = ("spec", "bounds")


@dataclass(frozen=True)
class PolicyObject:
    """A policy and where it stands."""

    policy: PrewarmPolicy
    document: Document

    @property
    def name(self) -> str:
        """Its name."""
        return self.policy.metadata.name


def assign(
    policies: Sequence[PolicyObject], services: Collection[ServiceId], findings: Findings
) -> dict[ServiceId, PolicyObject]:
    """The policy of each service that has one. `services`: every service that the files name, broken ones too."""
    own: dict[ServiceId, list[PolicyObject]] = {}
    defaults: dict[str, PolicyObject] = {}
    for entry in policies:
        _warn_without_effect(entry.document, findings)
        ref = entry.policy.spec.service_ref
        namespace = entry.policy.metadata.namespace
        if ref is None and entry.name != DEFAULT_NAME:
            findings.error(*entry.document.where(("spec",)), *WITHOUT_REF)
        elif ref is None:
            defaults[namespace] = entry
        elif ref.kind != "InferenceService":
            fix = "It takes effect in a cluster."
            findings.warning(*entry.document.where(_REF), f"local mode serves no {ref.kind}", fix)
        else:
            own.setdefault(ServiceId(namespace, ref.name), []).append(entry)
    for service, entries in own.items():
        _check(service, entries, services, findings)
    chosen = {service: entries[0] for service, entries in own.items()}
    by_namespace: dict[str, list[ServiceId]] = defaultdict(list)
    for service in services:
        by_namespace[service.namespace].append(service)
    for namespace, entry in defaults.items():
        rest = [s for s in by_namespace[namespace] if s not in chosen]
        chosen.update(dict.fromkeys(rest, entry))
        if not rest:
            fix = "Remove it, or add an InferenceService to this namespace."
            findings.warning(*entry.document.where(), f"no service of namespace {namespace} is without a policy", fix)
    return chosen


def _check(
    service: ServiceId, entries: Sequence[PolicyObject], services: Collection[ServiceId], findings: Findings
) -> None:
    for entry in entries:
        where = entry.document.where((*_REF, "name"))
        if service not in services:
            findings.error(*where, *no_such_service("InferenceService", service, services, findings))
        other = next((other for other in entries if other is not entry), None)
        if other is not None:
            file, line, _ = other.document.where((*_REF, "name"))
            findings.error(*where, f"{service} has a second policy, {other.name} ({file}:{line})", "Remove one.")


def no_such_service(
    kind: str, service: ServiceId, services: Collection[ServiceId], findings: Findings
) -> tuple[str, str]:
    """Message and fix for a reference to a service that is none of `services`."""
    known = [other.name for other in services if other.namespace == service.namespace]
    named = listed(sorted(known)) or "none"
    fix = findings.likely(service.name, known, f"Services of namespace {service.namespace}: {named}.")
    return f"no {kind} is named {service}", fix


def _warn_without_effect(document: Document, findings: Findings) -> None:
    for path, instead in WITHOUT_EFFECT.items():
        if document.has(path):
            findings.warning(*document.where(path), "local mode does not act on it", instead)


def combine(
    service: ServiceId, predictor: Predictor, isvc: Document, entry: PolicyObject | None, findings: Findings
) -> Policy:
    """The core's policy of one service: its PrewarmPolicy, the core's defaults, its InferenceService's bounds."""
    concurrency = predictor.container_concurrency or None
    if entry is None:
        bounds = _bounds(service, predictor, isvc, None, findings)
        return Policy(bounds=bounds, queue=QueuePolicy(concurrency) if concurrency else QueuePolicy())
    spec = entry.policy.spec
    bounds = _bounds(service, predictor, isvc, entry, findings)
    for index, schedule in enumerate(spec.schedules):
        if schedule.replicas > bounds.max:
            where = entry.document.where(("spec", "schedules", index, "replicas"))
            message = f"{schedule.replicas} replicas are more than {service} may have, {bounds.max}"
            findings.warning(*where, message, "Raise bounds.max and maxReplicas, or ask for fewer.")
    return Policy(
        bounds=bounds,
        schedules=tuple(schedule.parsed() for schedule in spec.schedules),
        queue=QueuePolicy(spec.queue.target or concurrency or QueuePolicy().target),
        cold_start_cost_s=seconds(spec.cold_start_cost),
        prior_lead_s=seconds(spec.lead_time.prior),
    )


def _bounds(
    service: ServiceId, predictor: Predictor, isvc: Document, entry: PolicyObject | None, findings: Findings
) -> Bounds:
    """Policy bounds inside [minReplicas, maxReplicas]; to KServe minReplicas absent is 1, maxReplicas 0 no limit."""
    least = 1 if predictor.min_replicas is None else predictor.min_replicas
    most = predictor.max_replicas or None
    if most is not None and least > most:
        where = isvc.where(("spec", "predictor", "maxReplicas"))
        findings.error(
            *where, f"maxReplicas {most} is less than minReplicas {least}", "Raise it, or lower minReplicas."
        )
        return Bounds(least, least)
    wanted = entry.policy.spec.bounds if entry is not None else None
    wanted_min = wanted.min if wanted is not None and wanted.min is not None else least
    low = max(least, wanted_min if most is None else min(wanted_min, most))
    wanted_max = wanted.max if wanted is not None and wanted.max is not None else most or max(1, low)
    high = max(low, wanted_max if most is None else min(wanted_max, most))
    if entry is not None:
        stated = "no minReplicas, which KServe reads as 1" if predictor.min_replicas is None else f"minReplicas {least}"
        limit = f"{service} has {stated}" + (f", and maxReplicas {most}" if most else "")
        _warn_moved(entry.document.where((*_BOUNDS, "min")), wanted_min, low, limit, findings)
        _warn_moved(entry.document.where((*_BOUNDS, "max")), wanted_max, high, limit, findings)
    return Bounds(low, high)


def _warn_moved(where: Where, wanted: int, got: int, limit: str, findings: Findings) -> None:
    if wanted != got:
        fix = "Change the InferenceService's minReplicas or maxReplicas: a policy acts within them."
        findings.warning(*where, f"{wanted} becomes {got}: {limit}", fix)


def golden(entry: PolicyObject | None) -> Golden:
    """The prompt that proves the service's engines."""
    if entry is None:
        return Golden()
    spec = entry.policy.spec.golden
    tokens = None if spec.tokens is None else tuple(spec.tokens)
    return Golden(prompt=spec.prompt or Golden().prompt, max_tokens=spec.max_tokens, tokens=tokens)
