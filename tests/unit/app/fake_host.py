"""A host in memory: takes orders, and starts end when the test says so.

It is a fake: the real host is proven in tests/unit/runtime/host and, on real vLLM, in tests/engine.
"""

from datetime import datetime

from activator_ext.adapters.hosts import HostUnreachable
from runtime.contract import (
    Failure,
    HostView,
    Lease,
    Mark,
    ReplicaView,
    ServiceOrder,
    ServiceView,
    StartKind,
    StartRecord,
    Warmth,
    replica_id,
)


class FakeHost:
    """`up` false: no call is answered. `now` is the test's clock, to be moved by it."""

    socket = "host.sock"

    def __init__(self, now: datetime, name: str = "host-a") -> None:
        self.now = now
        self.name = name
        self.up = True
        self.golden_key = "key"
        self.orders: list[ServiceOrder] = []
        self.forgotten: list[str] = []
        self.leases: list[Lease] = []
        self._revision = 0
        self._generation = 0
        self._services: dict[str, ServiceView] = {}
        self._starts: dict[str, StartRecord] = {}

    async def view(self) -> HostView:
        self._answering()
        return HostView(
            host=self.name,
            version="0",
            revision=self._revision,
            lease_until=None,
            services=tuple(self._services.values()),
            starts=tuple(self._starts.values()),
        )

    async def renew(self, lease: Lease) -> HostView:
        self.leases.append(lease)
        return await self.view()

    async def order(self, order: ServiceOrder) -> None:
        self._answering()
        self.orders.append(order)
        name = order.spec.service
        view = self._services.get(name, ServiceView(service=name, replicas_wanted=0))
        replicas = list(view.replicas[: order.replicas])
        retry_at = view.retry_at if view.retry_at is not None and self.now < view.retry_at else None
        while len(replicas) < order.replicas and retry_at is None:
            replicas.append(self._begin(order, len(replicas)))
        wanted = {"replicas_wanted": order.replicas, "replicas": tuple(replicas), "retry_at": retry_at}
        self._put(view.model_copy(update=wanted))

    def replacing(self, service: str) -> None:
        """The service's replica is of an older spec and serves until its successor, which starts, is ready."""
        view = self._services[service]
        old = view.replicas[0].model_copy(update={"stale": True})
        self._put(view.model_copy(update={"replicas": (old, self._begin(self.orders[-1], 1))}))

    def forget_starts(self, service: str) -> None:
        """Other starts have pushed its own out of the view."""
        self._starts = {name: start for name, start in self._starts.items() if start.service != service}
        self._revision += 1

    def wants(self, service: str, replicas: int) -> None:
        """It brings the service to so many by itself, whatever was ordered."""
        self._put(self._services[service].model_copy(update={"replicas_wanted": replicas}))

    async def forget(self, service: str) -> None:
        self._answering()
        self.forgotten.append(service)
        self._services.pop(service, None)

    def replicas(self, service: str) -> tuple[ReplicaView, ...]:
        """The service's replicas as they are now."""
        return self._services[service].replicas if service in self._services else ()

    def ready(self, service: str, start_id: str | None = None) -> None:
        """Every start of the service under way is done, or this one alone."""
        view = self._services[service]
        replicas = []
        for replica in view.replicas:
            record = self._starts[replica.start_id]
            if record.outcome is None and start_id in (None, record.id):
                marks = {**record.marks, Mark.T9: self.now}
                ready_s = (self.now - marks[Mark.T0]).total_seconds()
                done = {"marks": marks, "outcome": "ready", "ready_s": ready_s}
                done |= {"golden_key": self.golden_key, "golden_tokens": (1, 2, 3)}
                self._starts[replica.start_id] = record.model_copy(update=done)
                warm = {"warmth": Warmth.WARM, "ready_at": self.now, "since": self.now}
                replica = replica.model_copy(update=warm)  # noqa: PLW2901 — the warm one stands for it from here on
            replicas.append(replica)
        self._put(view.model_copy(update={"replicas": tuple(replicas)}))

    def restart(self, service: str, order: ServiceOrder) -> None:
        """The starts under way are cancelled and begun anew from `order`."""
        view = self._services[service]
        for replica in view.replicas:
            record = self._starts[replica.start_id]
            self._starts[record.id] = record.model_copy(update={"outcome": "cancelled"})
        replicas = tuple(self._begin(order, ordinal) for ordinal, _ in enumerate(view.replicas))
        self._put(view.model_copy(update={"replicas": replicas}))

    def fail(self, service: str, failure: Failure, retry_at: datetime) -> None:
        """Every start of the service under way failed."""
        view = self._services[service]
        for replica in view.replicas:
            record = self._starts[replica.start_id]
            self._starts[record.id] = record.model_copy(update={"outcome": "failed", "failure": failure})
        gone = {"replicas": (), "replicas_wanted": 0, "last_failure": failure, "retry_at": retry_at}
        self._put(view.model_copy(update=gone))

    def die(self, service: str, failure: Failure) -> None:
        """Every ready engine of the service died, for the first time."""
        view = self._services[service]
        for replica in view.replicas:
            record = self._starts[replica.start_id]
            self._starts[record.id] = record.model_copy(update={"ended": failure})
        self._put(view.model_copy(update={"replicas": (), "replicas_wanted": 0, "last_failure": failure}))

    def _begin(self, order: ServiceOrder, ordinal: int) -> ReplicaView:
        self._generation += 1
        record = StartRecord(
            id=f"{self.name}-{self._generation}",
            service=order.spec.service,
            replica=replica_id(order.spec.service, ordinal),
            kind=StartKind.COLD_NODE,
            marks={Mark.T0: order.asked_at},
            why=order.why,
        )
        self._starts[record.id] = record
        return ReplicaView(
            id=record.replica,
            service=record.service,
            warmth=Warmth.WARMING,
            since=self.now,
            start_id=record.id,
            url=f"http://127.0.0.1:{40000 + self._generation}",
        )

    def _put(self, view: ServiceView) -> None:
        self._revision += 1
        self._services[view.service] = view

    def _answering(self) -> None:
        if not self.up:
            raise HostUnreachable("no host answers")
