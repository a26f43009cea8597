"""The last decision and the world it was made of, as the API shows them."""

from datetime import datetime

from activator_ext.app.routes import eta
from activator_ext.app.views import (
    DemandView,
    HoldView,
    LeadTimeView,
    ReasonView,
    ReplicaStatus,
    ServiceStatus,
)
from activator_ext.app.world import World
from activator_ext.core.leadtime import LeadTimes
from activator_ext.core.model import (
    Demand,
    Hold,
    Reason,
    ServiceDecision,
    ServiceId,
    StartKind,
    Warmth,
)
from activator_ext.core.warmth import best_warmth
from runtime.contract import StartRecord


def service_status(world: World, service: ServiceId, decided: ServiceDecision, now: datetime) -> ServiceStatus:
    """One service as the user sees it."""
    local = world.services[service]
    view = world.host_service(service)
    queue = world.queue(service, now)
    start = start_under_way(world, service)
    warming = next((r for r in view.replicas if r.start_id == start.id), None) if view and start else None
    return ServiceStatus(
        service=str(service),
        warmth=warmth(world, service),
        replicas=_replicas(world, service),
        floor=decided.floor.replicas,
        floor_until=decided.floor.until,
        reason=reason_view(decided.floor.reason),
        demands=tuple(_demand_view(demand, now) for demand in decided.demands),
        waiting=None if queue is None else queue.waiting,
        running=None if queue is None else queue.running,
        stage=warming.stage if warming is not None else None,
        eta_at=None if start is None else start_eta(world, service, start, now),
        next_warm_at=decided.next_warm_at,
        lead_time_s=decided.lead_s,
        lead_times=_lead_times(lead_times(world, service)),
        last_failure=world.last_failure(service),
        retry_at=None if view is None else view.retry_at,
        last_start_id=_last_start(world, service),
        min=local.policy.bounds.min,
        max=local.policy.bounds.max,
    )


def warmth(world: World, service: ServiceId) -> Warmth:
    """The service's warmth: its best replica's; failed while the host waits before it tries again."""
    if not world.host_reachable:
        return Warmth.UNKNOWN
    best = best_warmth(world.replicas(service))
    view = world.host_service(service)
    if best is Warmth.COLD and view is not None and view.retry_at is not None:
        return Warmth.FAILED
    return best


def lead_times(world: World, service: ServiceId) -> LeadTimes:
    """The service's lead times as learned so far."""
    return LeadTimes(world.lead_samples.get(service, ()), prior_s=world.services[service].policy.prior_lead_s)


def start_under_way(world: World, service: ServiceId) -> StartRecord | None:
    """The oldest start under way of a service, None if there is none."""
    return next((start for start in world.starts(service) if start.outcome is None), None)


def start_eta(world: World, service: ServiceId, start: StartRecord, now: datetime) -> datetime | None:
    """When a start under way is expected to end, None when it has outlasted its P95."""
    known = lead_times(world, service)
    kind = StartKind(start.kind.value)
    return eta(start, p50_s=known.plan_s(kind, q=0.5), p95_s=known.plan_s(kind), now=now)


def reason_view(reason: Reason) -> ReasonView:
    """A reason for the API."""
    return ReasonView(code=reason.code, text=reason.text, numbers=dict(reason.numbers))


def hold_view(hold: Hold, now: datetime) -> HoldView:
    """A hold for the API."""
    begins = hold.ready_by or hold.created_at
    return HoldView(
        id=hold.id,
        service=str(hold.service),
        replicas=hold.replicas,
        created_at=hold.created_at,
        ready_by=hold.ready_by,
        until=hold.until,
        reason=hold.note,
        state="expired" if hold.until <= now else "active" if begins <= now else "announced",
    )


def _demand_view(demand: Demand, now: datetime) -> DemandView:
    return DemandView(
        kind=demand.kind,
        replicas=demand.replicas,
        since=demand.since,
        until=demand.until,
        active=demand.since <= now,
        reason=reason_view(demand.reason),
    )


def _replicas(world: World, service: ServiceId) -> tuple[ReplicaStatus, ...]:
    view = world.host_service(service)
    if view is None:
        return ()
    known = {replica.id: replica.warmth for replica in world.replicas(service)}
    return tuple(
        ReplicaStatus(
            id=replica.id,
            warmth=known.get(replica.id, Warmth(replica.warmth.value)),
            since=replica.since,
            stage=replica.stage,
            ready_at=replica.ready_at,
            draining=replica.draining,
            pid=replica.pid,
            url=replica.url,
        )
        for replica in view.replicas
    )


def _lead_times(known: LeadTimes) -> tuple[LeadTimeView, ...]:
    return tuple(
        LeadTimeView(kind=row.kind, p50_s=row.p50_s, p95_s=row.p95_s, samples=row.samples) for row in known.explain()
    )


def _last_start(world: World, service: ServiceId) -> str | None:
    starts = world.starts(service)
    return starts[-1].id if starts else None
