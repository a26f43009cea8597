"""What the controller knows of the world, and how that becomes the core's `Observation`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from activator_ext.adapters.local.manifests import LocalService
from activator_ext.core.model import (
    Config,
    Hold,
    LeadSample,
    Observation,
    QueueView,
    ReplicaView,
    ServiceId,
    ServiceObservation,
    StartKind,
    Warmth,
)
from runtime.contract import Failure, HostView, PortalReport, ServiceLoad, ServiceView, StartRecord
from runtime.contract import Warmth as WireWarmth

# The portal reports every 10 s even if nothing happens; after a report and a half is missed its queue is unknown.
QUEUE_STALE = timedelta(seconds=25)


@dataclass
class World:
    """The latest of everything observed. `host` None: never seen; `host_reachable` false: the view is an old one."""

    services: Mapping[ServiceId, LocalService] = field(default_factory=dict)
    host: HostView | None = None
    host_reachable: bool = False
    loads: dict[ServiceId, ServiceLoad] = field(default_factory=dict)
    portal_seen_at: datetime | None = None
    lead_samples: dict[ServiceId, tuple[LeadSample, ...]] = field(default_factory=dict)
    holds: tuple[Hold, ...] = ()
    failures: dict[ServiceId, Failure] = field(default_factory=dict)
    _host_services: dict[str, ServiceView] = field(default_factory=dict)
    _host_starts: dict[str, list[StartRecord]] = field(default_factory=dict)

    def take_view(self, view: HostView) -> None:
        """Take the host's view in: it has answered."""
        self.host, self.host_reachable = view, True
        self._host_services = {service.service: service for service in view.services}
        self._host_starts = {}
        for start in view.starts:
            self._host_starts.setdefault(start.service, []).append(start)

    def take_report(self, report: PortalReport) -> bool:
        """Take the portal's queue in; True if a number of waiting or running requests changed."""
        changed = False
        self.portal_seen_at = report.at
        for load in report.services:
            service = ServiceId.parse(load.service)
            if service not in self.services:
                continue  # it has just gone
            before = self.loads.get(service)
            known = (before.waiting, before.running) if before is not None else (0, 0)
            changed = changed or known != (load.waiting, load.running)
            self.loads[service] = load
        return changed

    def take_failure(self, service: ServiceId, failure: Failure) -> None:
        """A start or engine of the service failed; the latest is kept."""
        known = self.failures.get(service)
        if known is None or failure.at >= known.at:
            self.failures[service] = failure

    def last_failure(self, service: ServiceId) -> Failure | None:
        """The service's last failure, whichever host or `up` saw it; it stays until the next one."""
        view = self.host_service(service)
        seen = [self.failures.get(service), view.last_failure if view is not None else None]
        return max((failure for failure in seen if failure is not None), key=lambda failure: failure.at, default=None)

    def forget(self, service: ServiceId) -> None:
        """It is gone; what is worth remembering of it is in the history."""
        for known in (self.loads, self.lead_samples, self.failures):
            known.pop(service, None)

    def starts(self, service: ServiceId) -> Sequence[StartRecord]:
        """The service's starts as the host's view has them, oldest first."""
        return self._host_starts.get(str(service), ())

    def host_service(self, service: ServiceId) -> ServiceView | None:
        """The host's view of one service."""
        return self._host_services.get(str(service))

    def queue(self, service: ServiceId, now: datetime) -> QueueView | None:
        """Its requests at the portal; None where the portal has been silent too long: unknown is not zero."""
        if self.portal_seen_at is None or now - self.portal_seen_at >= QUEUE_STALE:
            return None
        load = self.loads.get(service)
        if load is None:
            return QueueView(seen_at=self.portal_seen_at)
        return QueueView(
            seen_at=self.portal_seen_at,
            waiting=load.waiting,
            running=load.running,
            last_activity_at=load.last_activity_at,
        )

    def observation(self, now: datetime, services: Iterable[ServiceId] | None = None) -> Observation:
        """What `decide` is told of these services (None: of all)."""
        asked = self.services if services is None else services
        return Observation(services={service: self._observed(service, now) for service in asked}, holds=self.holds)

    def config(self, services: Iterable[ServiceId] | None = None) -> Config:
        """What the user wants of these services (None: of all)."""
        asked = self.services if services is None else services
        return Config(services={service: self.services[service].policy for service in asked})

    def replicas(self, service: ServiceId) -> tuple[ReplicaView, ...]:
        """The replicas that serve or will; one that drains is none any more."""
        view = self.host_service(service)
        if view is None:
            return ()
        load = self.loads.get(service)
        busy = 0 if load is None else load.running
        replicas = []
        for replica in view.replicas:
            if replica.draining:
                continue
            warmth = Warmth(replica.warmth.value)
            if replica.warmth is WireWarmth.WARM and busy > 0:
                warmth, busy = Warmth.BUSY, busy - 1
            replicas.append(ReplicaView(id=replica.id, warmth=warmth, since=replica.since, ready_at=replica.ready_at))
        return tuple(replicas)

    def _standing(self, service: ServiceId) -> tuple[ReplicaView, ...]:
        """Its replicas, one for each that is wanted: an older one that serves until its successor is ready is none.

        While an edited engine starts, both live; to count both would ask for another one.
        """
        view = self.host_service(service)
        stale = {replica.id for replica in view.replicas if replica.stale} if view is not None else set()
        replicas = self.replicas(service)
        current = sum(replica.id not in stale for replica in replicas)
        older = [replica for replica in replicas if replica.id in stale]
        return tuple(replica for replica in replicas if replica.id not in stale or replica not in older[:current])

    def _observed(self, service: ServiceId, now: datetime) -> ServiceObservation:
        view = self.host_service(service)
        return ServiceObservation(
            replicas=self._standing(service),
            queue=self.queue(service, now),
            next_kind=StartKind(view.next_kind.value) if view is not None else StartKind.COLD_NODE,
            lead_samples=self.lead_samples.get(service, ()),
        )
