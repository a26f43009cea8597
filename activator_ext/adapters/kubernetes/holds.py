"""PrewarmHold objects of a cluster → the core's holds, and of each object what becomes of it. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from activator_ext.adapters.kubernetes.policies import ObjectId, Outcome, read_object
from activator_ext.adapters.kubernetes.served import Served
from activator_ext.adapters.local.documents import Document
from activator_ext.adapters.local.findings import Finding, Findings
from activator_ext.adapters.local.hold import LONGEST, HoldSpec, PrewarmHold, instant, too_long
from activator_ext.adapters.local.policies import no_such_service
from activator_ext.adapters.local.schema import read
from activator_ext.core.model import Hold, ServiceId

KEPT = timedelta(days=1)
"""How long an expired hold stays, to be looked at: as long as local mode lists it."""

HoldState = Literal["Announced", "Active", "Expired", "Refused"]


@dataclass(frozen=True)
class HoldVerdict:
    """What is to be said of one hold. `until` None: it cannot be told. `replicas`: as many as it asks for."""

    id: ObjectId
    generation: int
    outcome: Outcome
    state: HoldState
    service: ServiceId | None
    until: datetime | None
    findings: tuple[Finding, ...] = ()
    replicas: int = 0


@dataclass(frozen=True)
class KnownHold:
    """What was read of a hold at `generation`: its spec, or what is wrong with it."""

    generation: int
    spec: HoldSpec | None
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Holds:
    """What the core counts, what to say of each object, and which may be deleted. `known`: for next time."""

    holds: tuple[Hold, ...]
    verdicts: Mapping[ObjectId, HoldVerdict]
    stale: tuple[ObjectId, ...]
    known: Mapping[ObjectId, KnownHold] = field(default_factory=dict)

    def next_at(self, now: datetime) -> datetime | None:
        """When a state next changes by time alone, or a hold becomes stale; None: never."""
        ends = [verdict.until for verdict in self.verdicts.values() if verdict.until is not None]
        begins = [hold.ready_by for hold in self.holds if hold.ready_by is not None]
        ahead = [at for at in (*ends, *begins, *(end + KEPT for end in ends)) if at > now]
        return min(ahead, default=None)


def holds(
    objects: Iterable[Mapping[str, Any]],
    served: Iterable[Served],
    now: datetime,
    known: Mapping[ObjectId, KnownHold] | None = None,
) -> Holds:
    """Every hold of the cluster at `now`. One under deletion has ended.

    `known`: that of the last answer; what is of the same generation is not read again.
    """
    here = {each.id: each.kind for each in served}
    found: list[Hold] = []
    verdicts: dict[ObjectId, HoldVerdict] = {}
    read_now: dict[ObjectId, KnownHold] = {}
    for item in objects:
        if item["metadata"].get("deletionTimestamp"):
            continue
        identity = ObjectId.of(item)
        read_now[identity] = _known(item, (known or {}).get(identity))
        verdicts[identity], hold = _judged(item, identity, read_now[identity], here, now)
        if hold is not None:
            found.append(hold)
    stale = [each.id for each in verdicts.values() if each.until is not None and each.until + KEPT <= now]
    return Holds(tuple(sorted(found, key=lambda hold: hold.id)), verdicts, tuple(sorted(stale)), read_now)


def _known(item: Mapping[str, Any], before: KnownHold | None) -> KnownHold:
    generation = int(item["metadata"].get("generation", 0))
    if before is not None and before.generation == generation:
        return before
    findings = Findings()
    found = read(PrewarmHold, read_object(item), findings)
    return KnownHold(generation, None if found is None else found.spec, findings.sorted())


def _judged(
    item: Mapping[str, Any], identity: ObjectId, known: KnownHold, here: Mapping[ServiceId, str], now: datetime
) -> tuple[HoldVerdict, Hold | None]:
    spec, generation = known.spec, known.generation
    if spec is None:
        return HoldVerdict(identity, generation, Outcome.INVALID, "Refused", None, None, known.findings), None
    document, findings, created_at = read_object(item), Findings(), _created_at(item, now)
    service = ServiceId(identity.namespace, spec.service_ref.name)
    until = spec.end(created_at)
    if until - (spec.begin or created_at) > LONGEST:
        message, fix, key = too_long("until")
        findings.error(*document.where(("spec", key)), message, fix)
        said = HoldVerdict(identity, generation, Outcome.INVALID, "Refused", service, until, findings.sorted())
        return said, None
    outcome = _outcome(spec, service, here, document, findings)
    state = _state(spec, until, now)
    said = HoldVerdict(identity, generation, outcome, state, service, until, findings.sorted(), spec.replicas)
    hold = Hold(
        id=f"{identity.namespace}/{identity.name}",
        service=service,
        replicas=spec.replicas,
        created_at=created_at,
        until=until,
        ready_by=spec.begin,
        note=spec.reason,
    )
    return said, None if state == "Expired" else hold


def _outcome(
    spec: HoldSpec, service: ServiceId, here: Mapping[ServiceId, str], document: Document, findings: Findings
) -> Outcome:
    kind = spec.service_ref.kind
    if here.get(service) == kind:
        return Outcome.ACCEPTED
    known = [each for each, its_kind in here.items() if its_kind == kind]
    findings.error(*document.where(("spec", "serviceRef", "name")), *no_such_service(kind, service, known, findings))
    return Outcome.NO_SERVICE


def _state(spec: HoldSpec, until: datetime, now: datetime) -> HoldState:
    if until <= now:
        return "Expired"
    return "Announced" if spec.begin is not None and spec.begin > now else "Active"


def _created_at(item: Mapping[str, Any], now: datetime) -> datetime:
    """When the API server made it; `now` for what it has not written yet."""
    written = item["metadata"].get("creationTimestamp")
    return now if written is None else instant(str(written))
