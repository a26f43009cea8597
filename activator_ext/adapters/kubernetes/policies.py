"""PrewarmPolicy objects of a cluster → the core's policies, and of each object whether it counts and why not. Pure.

What is said is what `pilotlight check` says of the same mistake. Two policies for one service: the older one counts
(by creation, then name), whichever the API lists first, so that a policy which is added by mistake changes nothing. A
policy that became invalid keeps its last valid content, as files do in local mode, where the process has seen it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from activator_ext.adapters.kubernetes.served import Served
from activator_ext.adapters.local.documents import Document
from activator_ext.adapters.local.findings import Finding, Findings
from activator_ext.adapters.local.policies import DEFAULT_NAME, WITHOUT_REF, PolicyObject, combine, no_such_service
from activator_ext.adapters.local.policy import GoldenSpec, PolicySpec, PrewarmPolicy
from activator_ext.adapters.local.schema import read
from activator_ext.core.model import Policy, ServiceId

_REF = ("spec", "serviceRef")
_CHECKED_ONLY = "Nothing acts on it yet; it is checked only."
WITHOUT_EFFECT: Mapping[str, str] = {
    "objective": _CHECKED_ONLY,
    "forecast": _CHECKED_ONLY,
    "parking": "Nothing parks yet: an idle replica is stopped.",
    "golden": "The runtime's own prompt is asked.",
}
"""Keys of spec that are validated and then not used in a cluster, each with what happens instead."""


class Outcome(StrEnum):
    """What becomes of a policy: the reason of its condition Accepted."""

    ACCEPTED = "Accepted"
    INVALID = "Invalid"
    NO_SERVICE = "NoSuchService"
    SUPERSEDED = "OlderPolicyCounts"
    UNUSED = "NoServiceLeft"


@dataclass(frozen=True, slots=True, order=True)
class ObjectId:
    """One object of ours. The uid tells it from an earlier one of the same name."""

    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> "ObjectId":
        """As its metadata say."""
        metadata = item["metadata"]
        return cls(str(metadata["namespace"]), str(metadata["name"]), str(metadata.get("uid", "")))


@dataclass(frozen=True)
class Known:
    """What was read of a policy: at `generation`, with what was wrong; `good`: its last valid content, of `kept`."""

    generation: int
    findings: tuple[Finding, ...]
    good: PrewarmPolicy | None
    kept: int


@dataclass(frozen=True)
class Verdict:
    """What is to be said of one policy.

    `services`: those that it counts for. `rivals`: names of the other policies for its service, the oldest first;
    `counts`: which of all counts, None if none can. `kept`: the generation that counts instead of an invalid one.
    """

    id: ObjectId
    generation: int
    outcome: Outcome
    services: tuple[ServiceId, ...] = ()
    findings: tuple[Finding, ...] = ()
    rivals: tuple[str, ...] = ()
    counts: str | None = None
    kept: int | None = None
    single: bool = True


@dataclass(frozen=True)
class Assigned:
    """The policy of each service that has one, whose it is, and what to say of each object. `known`: for next time."""

    policies: Mapping[ServiceId, Policy]
    owners: Mapping[ServiceId, ObjectId]
    verdicts: Mapping[ObjectId, Verdict]
    known: Mapping[ObjectId, Known]


@dataclass
class _Entry:
    """One object while it is judged."""

    id: ObjectId
    generation: int
    created: str
    document: Document
    findings: Findings
    known: Known
    target: tuple[str, ServiceId] | None
    rivals: tuple[str, ...] = ()
    counts: str | None = None
    services: list[ServiceId] = field(default_factory=list)
    outcome: Outcome = Outcome.ACCEPTED

    @property
    def policy(self) -> PrewarmPolicy | None:
        """What counts of it, None if nothing can."""
        return self.known.good

    @property
    def valid(self) -> bool:
        return not self.known.findings

    @property
    def is_default(self) -> bool:
        return self.target is None and self.id.name == DEFAULT_NAME


def assign(
    objects: Iterable[Mapping[str, Any]], served: Iterable[Served], known: Mapping[ObjectId, Known] | None = None
) -> Assigned:
    """Which policy each service has. An object under deletion does not count.

    `known`: that of the last answer. What is of the same generation is not read again, and what became invalid keeps
    its last valid content.
    A service whose own policy is invalid, and was never seen valid, is left alone: it is not handed to `default`.
    """
    # Of two kinds under one name, InferenceService is the service: `namespace/name` is one thing everywhere else.
    here = {each.id: each for each in sorted(served, key=lambda each: each.kind, reverse=True)}
    entries = [_entry(each, known or {}) for each in objects if not each["metadata"].get("deletionTimestamp")]
    entries.sort(key=lambda entry: (entry.created, entry.id))
    owners: dict[ServiceId, _Entry] = {}
    named = _own(entries, here, owners)
    _defaults(entries, here, named, owners)
    policies = {service: _combined(here[service], entry) for service, entry in owners.items()}
    return Assigned(
        policies=policies,
        owners={service: entry.id for service, entry in owners.items()},
        verdicts={entry.id: _verdict(entry) for entry in entries},
        known={entry.id: entry.known for entry in entries},
    )


def read_object(item: Mapping[str, Any]) -> Document:
    """An object of the API as what the readers of files read."""
    return Document("", dict(item), {}, {})


def _entry(item: Mapping[str, Any], known: Mapping[ObjectId, Known]) -> _Entry:
    identity, metadata = ObjectId.of(item), item["metadata"]
    document, generation = read_object(item), int(metadata.get("generation", 0))
    before = known.get(identity)
    now = before if before is not None and before.generation == generation else _read(document, identity, before)
    findings = Findings()
    for each in now.findings:
        findings.error(each.file, each.line, each.key, each.message, each.fix)
    target = _target(item, identity.namespace) if now.good is None else _target_of(now.good.spec, identity.namespace)
    return _Entry(
        id=identity,
        generation=generation,
        created=str(metadata.get("creationTimestamp", "")),
        document=document,
        findings=findings,
        known=now,
        target=target,
    )


def _read(document: Document, identity: ObjectId, before: Known | None) -> Known:
    findings, generation = Findings(), int(document.data["metadata"].get("generation", 0))
    policy = read(PrewarmPolicy, document, findings)
    if policy is not None and policy.spec.service_ref is None and identity.name != DEFAULT_NAME:
        findings.error(*document.where(("spec",)), *WITHOUT_REF)
        policy = None
    if policy is not None:
        return Known(generation, (), policy, generation)
    errors = tuple(each for each in findings.sorted() if each.severity == "error")
    return Known(generation, errors, before.good if before else None, before.kept if before else generation)


def _target_of(spec: PolicySpec, namespace: str) -> tuple[str, ServiceId] | None:
    ref = spec.service_ref
    return None if ref is None else (ref.kind, ServiceId(namespace, ref.name))


def _target(item: Mapping[str, Any], namespace: str) -> tuple[str, ServiceId] | None:
    """Which service an object means that cannot be read."""
    spec = item.get("spec")
    ref = spec.get("serviceRef") if isinstance(spec, Mapping) else None
    name = ref.get("name") if isinstance(ref, Mapping) else None
    if not isinstance(ref, Mapping) or not isinstance(name, str):
        return None
    return str(ref.get("kind", "InferenceService")), ServiceId(namespace, name)


def _own(
    entries: Sequence[_Entry], here: Mapping[ServiceId, Served], owners: dict[ServiceId, _Entry]
) -> set[ServiceId]:
    """Hand services to the policies that name them. Returns every service that one names."""
    by_target: dict[tuple[str, ServiceId], list[_Entry]] = {}
    for entry in entries:
        if entry.target is not None:
            by_target.setdefault(entry.target, []).append(entry)
    for (kind, service), rivals in by_target.items():
        exists = service in here and here[service].kind == kind
        able = [entry for entry in rivals if entry.policy is not None]
        first = able[0] if able else None
        for entry in rivals:
            entry.rivals = tuple(other.id.name for other in rivals if other is not entry)
            entry.counts = first.id.name if first else None
            entry.outcome = _outcome(entry, first, exists=exists)
            if not exists and entry.policy is not None:
                known = [each.id for each in here.values() if each.kind == kind]
                where = entry.document.where((*_REF, "name"))
                entry.findings.error(*where, *no_such_service(kind, service, known, entry.findings))
        if first is not None and exists:
            first.services.append(service)
            owners[service] = first
    return {service for _, service in by_target}


def _outcome(entry: _Entry, first: _Entry | None, *, exists: bool) -> Outcome:
    if not entry.valid:
        return Outcome.INVALID
    if entry is not first:
        return Outcome.SUPERSEDED
    return Outcome.ACCEPTED if exists else Outcome.NO_SERVICE


def _defaults(
    entries: Sequence[_Entry],
    here: Mapping[ServiceId, Served],
    named: Collection[ServiceId],
    owners: dict[ServiceId, _Entry],
) -> None:
    """Hand to each namespace's `default` the services that no policy names."""
    for entry in entries:
        if entry.target is None and not entry.is_default:
            entry.outcome = Outcome.INVALID
        if not entry.is_default:
            continue
        if entry.policy is not None:
            entry.services = sorted(each for each in here if each.namespace == entry.id.namespace and each not in named)
            owners.update(dict.fromkeys(entry.services, entry))
        if not entry.valid:
            entry.outcome = Outcome.INVALID
        elif not entry.services:
            entry.outcome = Outcome.UNUSED


def _combined(served: Served, entry: _Entry) -> Policy:
    if entry.policy is None:  # an owner has one
        raise AssertionError(entry.id)
    file = f"{served.kind} {served.id}"
    return combine(
        served.id,
        served.predictor,
        Document(file, {}, {}, {}),
        PolicyObject(entry.policy, entry.document),
        entry.findings,
    )


def _verdict(entry: _Entry) -> Verdict:
    if entry.valid and entry.policy is not None:
        _say_without_effect(entry.policy.spec, entry.document, entry.findings)
    return Verdict(
        id=entry.id,
        generation=entry.generation,
        outcome=entry.outcome,
        services=tuple(entry.services),
        findings=entry.findings.sorted(),
        rivals=entry.rivals,
        counts=entry.counts,
        kept=None if entry.valid or entry.policy is None else entry.known.kept,
        single=not entry.is_default,
    )


def _say_without_effect(spec: PolicySpec, document: Document, findings: Findings) -> None:
    asked = {"objective": spec.objective, "forecast": spec.forecast, "parking": spec.parking}
    said = {key for key, value in asked.items() if value is not None}
    if spec.golden != GoldenSpec():  # the API server writes its defaults into every object
        said.add("golden")
    for key in sorted(said):
        findings.warning(*document.where(("spec", key)), "it has no effect in a cluster", WITHOUT_EFFECT[key])
