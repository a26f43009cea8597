"""Floors and what is seen of Knative become what to write, nudge and tell. Pure: the same question, the same answer.

A floor goes to the Revisions that requests go to: of a split each has its share, rounded up; a tag without traffic has
none. It raises min-scale where the user's own is lower, and never over max-scale. What we hold and is no longer wanted
is put back to what it was, also by a controller that remembers nothing: our field manager on the object says it.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from activator_ext.adapters.knative.objects import Routed, Scaled, Scheme, deployment_of, manager_over
from activator_ext.adapters.kubernetes.resource import Key
from activator_ext.core.model import ServiceId

NUDGE_AFTER = timedelta(seconds=2)
"""A raised Revision has its replicas after 0.03 to 0.07 s, where the autoscaler heeds it; a busy one takes longer."""
NUDGE_MOST = timedelta(seconds=60)
"""Nudges double their distance up to this."""
FOLLOWED_AFTER = timedelta(seconds=5)
"""A PodAutoscaler that does not have its Revision's min-scale by then belongs to a Knative that does not copy it."""


class Step(StrEnum):
    """What a write does."""

    RAISE = "raise"
    RESTORE = "restore"
    RELEASE = "release"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Write:
    """One change of one object's min-scale.

    RAISE: to `value`, held by `manager`. RESTORE: to `value`, which it was before us, then RELEASE. RELEASE: give up
    our entry, the value stays. DROP: give up the annotation, which goes. `force`: take it over from its maker.
    """

    step: Step
    scheme: Scheme
    target: Scaled
    manager: str
    value: int | None = None
    force: bool = False


class FindingCode(StrEnum):
    """Why a floor is not carried out as it was asked for."""

    NOT_SEEN = "not-seen"
    NEVER_READY = "never-ready"
    CONTESTED = "contested"
    MAX_REPLICAS = "max-replicas"
    NO_REVISION = "no-revision"


@dataclass(frozen=True, slots=True)
class Finding:
    """What stands in a floor's way; `text` says it and what to do."""

    service: ServiceId
    code: FindingCode
    text: str


@dataclass(frozen=True, slots=True)
class Stuck:
    """A raised Revision that has no replicas since `since`; nudged `nudges` times, the next time at `next_at`."""

    since: datetime
    nudges: int
    next_at: datetime


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of Knative. `replicas` by Deployment."""

    services: Mapping[Key, Routed]
    revisions: Mapping[Key, Scaled]
    autoscalers: Mapping[Key, Scaled]
    replicas: Mapping[Key, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now; `stuck` is for the next plan, which is due at `next_at` if nothing happens (None: never)."""

    writes: tuple[Write, ...] = ()
    nudges: tuple[Key, ...] = ()
    findings: tuple[Finding, ...] = ()
    stuck: Mapping[Key, Stuck] = field(default_factory=dict)
    next_at: datetime | None = None


def plan(
    now: datetime, floors: Mapping[ServiceId, int], seen: Seen, scheme: Scheme, stuck: Mapping[Key, Stuck]
) -> Plan:
    """`floors`: of every service that has one; what we hold for any other is given up."""
    wanted, findings = _wanted(floors, seen)
    targets = seen.revisions if scheme is Scheme.REVISION else seen.autoscalers
    writes = []
    for key, replicas in sorted(wanted.items()):
        target = targets.get(key)
        if target is not None:
            write, finding = _raise(target, replicas, seen.revisions.get(key, target).max_scale, scheme)
            writes += [write] if write else []
            findings += [finding] if finding else []
    needed = {(scheme, key) for key in wanted}
    for kind, objects in ((Scheme.REVISION, seen.revisions), (Scheme.POD_AUTOSCALER, seen.autoscalers)):
        writes += [_lower(held, kind) for held in _held(objects) if (kind, held.key) not in needed]
    after = _stuck(now, (targets[key] for key in wanted if key in targets), seen.replicas, stuck)
    nudges = tuple(sorted(key for key, state in after.items() if state.next_at <= now))
    after |= {key: _nudged(now, after[key]) for key in nudges}
    next_at = min((state.next_at for state in after.values()), default=None)
    return Plan(tuple(writes), nudges, tuple(findings), after, next_at)


def shares(service: Routed, floor: int) -> dict[str, int]:
    """How many replicas of each Revision a floor of `floor` ≥ 1 is. Each part of the traffic is served: rounded up.

    While a newer ready Revision takes over, both have the share: the old one serves until the new one has the traffic.
    """
    found: dict[str, int] = {}
    percents: dict[str, int] = {}
    for part in service.traffic:
        names = {part.revision, service.latest_ready} if part.latest else {part.revision}
        for name in names - {""}:
            percents[name] = percents.get(name, 0) + part.percent
    for name, percent in percents.items():
        if percent > 0:
            found[name] = math.ceil(floor * min(percent, 100) / 100)
    if not found and service.latest_ready and not service.traffic:
        found[service.latest_ready] = floor
    return found


def copies_min_scale(now: datetime, seen: Seen) -> bool | None:
    """Whether this Knative copies a Revision's min-scale to its PodAutoscaler, by what it did; None: unknown."""
    if any(_old(now, autoscaler) for autoscaler in seen.autoscalers.values()):
        return False  # since 1.21 ours would be gone at once
    for key, revision in seen.revisions.items():
        autoscaler = seen.autoscalers.get(key)
        if revision.held is None or autoscaler is None:
            continue
        if autoscaler.min_scale == revision.min_scale != revision.held.was:
            return True
        if autoscaler.min_scale != revision.min_scale and _old(now, revision):
            return False
    return None


def _old(now: datetime, target: Scaled) -> bool:
    """Whether our floor stands on it for long enough to have had its effect."""
    return target.held is not None and target.held.at is not None and now - target.held.at >= FOLLOWED_AFTER


def _wanted(floors: Mapping[ServiceId, int], seen: Seen) -> tuple[dict[Key, int], list[Finding]]:
    """Replicas by Revision, and the services where there is none to write to."""
    services = {routed.service: routed for routed in seen.services.values()}
    wanted: dict[Key, int] = {}
    findings = []
    for service, floor in sorted(floors.items()):
        if floor <= 0:
            continue
        routed = services.get(service)
        if routed is None:
            text = f"{service} has no Knative Service: it is not there, or not in Knative mode"
            findings.append(Finding(service, FindingCode.NOT_SEEN, text))
            continue
        found = {Key(service.namespace, name): count for name, count in shares(routed, floor).items()}
        if not found:
            text = (
                f"no Revision of {service} has traffic, none was ever ready: `kubectl describe ksvc {routed.key.name}`"
            )
            findings.append(Finding(service, FindingCode.NEVER_READY, text))
        # Not by the difference of two key views: that walks all Revisions for each service.
        for key in sorted(key for key in found if key not in seen.revisions):
            text = f"{service} routes to the Revision {key.name}, which is not there"
            findings.append(Finding(service, FindingCode.NO_REVISION, text))
        wanted |= found
    return wanted, findings


def _raise(target: Scaled, replicas: int, max_scale: int, scheme: Scheme) -> tuple[Write | None, Finding | None]:
    """Have min-scale at least `replicas`, within max-scale; where the user's own is as high, nothing of ours stays."""
    finding = None
    service = target.service or ServiceId(target.key.namespace, target.key.name)
    if max_scale and replicas > max_scale:
        text = f"{replicas} replicas of {target.key.name} wanted, its maxReplicas is {max_scale}"
        finding = Finding(service, FindingCode.MAX_REPLICAS, text)
        replicas = max_scale
    if replicas <= (target.base or 0):
        return (_lower(target, scheme) if target.held else None), finding
    if target.foreign is not None:
        if (target.min_scale or 0) >= replicas:
            return None, finding
        text = (
            f"min-scale of {target.key.name} was set by {target.foreign!r}, which is respected: {replicas} wanted, "
            f"{target.min_scale or 0} there; give it up there to let floors act again"
        )
        return None, Finding(service, FindingCode.CONTESTED, text)
    if target.held is not None and target.min_scale == replicas:
        return None, finding
    return Write(Step.RAISE, scheme, target, manager_over(target.base), replicas, force=target.held is None), finding


def _lower(target: Scaled, scheme: Scheme) -> Write:
    """Put back what was there before us."""
    held = target.held
    assert held is not None  # noqa: S101  (callers give what we hold)
    if target.foreign is not None or (held.was is not None and target.min_scale == held.was):
        return Write(Step.RELEASE, scheme, target, held.manager)
    if held.was is None:
        return Write(Step.DROP, scheme, target, held.manager)
    return Write(Step.RESTORE, scheme, target, held.manager, held.was)


def _held(objects: Mapping[Key, Scaled]) -> Iterable[Scaled]:
    return (objects[key] for key in sorted(key for key, value in objects.items() if value.held is not None))


def _stuck(
    now: datetime, targets: Iterable[Scaled], replicas: Mapping[Key, int], before: Mapping[Key, Stuck]
) -> dict[Key, Stuck]:
    """Which raised Revisions have no replicas, and since when we see it."""
    found = {}
    for target in targets:
        raised = target.kpa and (target.min_scale or 0) > 0
        if raised and replicas.get(deployment_of(target.key)) == 0:
            found[target.key] = before.get(target.key) or Stuck(now, 0, now + NUDGE_AFTER)
    return found


def _nudged(now: datetime, state: Stuck) -> Stuck:
    distance = min(NUDGE_MOST, NUDGE_AFTER * 2 ** min(state.nudges + 1, 8))
    return Stuck(state.since, state.nudges + 1, now + distance)
