"""Keeps each ordered service at its order: starts, replaces, restarts with back-off, drains."""

import asyncio
import shutil
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from runtime.contract import (
    STUCK_AFTER_S,
    EngineSpec,
    Failure,
    HostView,
    ServiceOrder,
    ServiceView,
    StageEvent,
    StartKind,
    StartRecord,
    replica_id,
)
from runtime.engine.launch import Launcher
from runtime.engine.spans import SpanReceiver
from runtime.engine.start import EngineDirs, EngineStart
from runtime.host.alike import same_golden, spec_digest
from runtime.host.model_watch import ModelWatch
from runtime.host.plan import Phase, Start, Stop, plan
from runtime.host.replica import Replica
from runtime.host.retry import NO_FAILURES, Row, no_fork_after, wait_s
from runtime.host.shapes import Shapes

# Finished starts that the view still shows, so that a controller that was away can record them.
KEPT_STARTS = 32


@dataclass
class _Service:
    spec: EngineSpec
    digest: str
    wanted: int
    t0: datetime
    why: str
    stuck_after_s: float = STUCK_AFTER_S
    replicas: dict[int, Replica] = field(default_factory=dict)
    last_failure: Failure | None = None
    row: Row = NO_FAILURES
    retry_at: datetime | None = None
    asked_again: bool = True
    forgotten: bool = False
    next_kind: StartKind = StartKind.COLD_NODE
    no_fork: str | None = None
    requests_wait: bool | None = None
    recycled: set[int] = field(default_factory=set)


class Supervisor:
    """All engines of one host. Every public method returns at once; the work goes on in tasks."""

    def __init__(
        self,
        *,
        host: str,
        version: str,
        root: Path,
        spans: SpanReceiver | None,
        clock: Callable[[], datetime],
        on_change: Callable[[], None],
        on_stage: Callable[[StageEvent], None],
        launcher: Launcher,
    ) -> None:
        self._host = host
        self._version = version
        self._root = root
        self._spans = spans
        self._clock = clock
        self._on_change = on_change
        self._on_stage = on_stage
        self._launcher = launcher
        self._services: dict[str, _Service] = {}
        self._finished: deque[StartRecord] = deque(maxlen=KEPT_STARTS)
        self._generation = 0
        self._revision = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._retries: dict[str, asyncio.TimerHandle] = {}
        self._due: deque[str] = deque()
        self._models = ModelWatch()
        self._shapes = Shapes(root, clock)
        self.stopping = False
        self.lease_until: datetime | None = None

    def order(self, order: ServiceOrder) -> None:
        """Take the desired state of one service."""
        name = order.spec.service
        digest = spec_digest(order.spec)
        service = self._services.get(name)
        if service is None:
            service = self._services[name] = _Service(order.spec, digest, 0, order.asked_at, order.why)
        if digest != service.digest or order.replicas > service.wanted:
            service.t0, service.why = order.asked_at, order.why
        if digest != service.digest or not same_golden(order.spec, service.spec):
            self._try_anew(name, service)
        # To want fewer asks for nothing that failed.
        lowered = digest == service.digest and order.replicas < service.wanted
        service.spec, service.digest, service.wanted, service.forgotten = order.spec, digest, order.replicas, False
        service.stuck_after_s, service.requests_wait = order.stuck_after_s, order.requests_wait
        self._launcher.want(order.spec)
        if not lowered:
            # What asks during a back-off may be gone at its end: who still wants it then says so then.
            service.asked_again = service.retry_at is None
        self._reconcile(name)

    def forget(self, name: str) -> None:
        """Drain a service's replicas and drop its order."""
        service = self._services.get(name)
        if service is None:
            return
        service.wanted, service.forgotten = 0, True
        self._reconcile(name)

    def wake(self, name: str) -> bool:
        """Have at least one replica, asked for by a portal that has no controller; False if unknown here."""
        service = self._services.get(name)
        if service is None or service.forgotten:
            return False
        service.requests_wait = True
        if service.wanted == 0 or (not service.asked_again and service.retry_at is None):
            service.wanted, service.t0 = max(service.wanted, 1), self._clock()
            service.asked_again = service.retry_at is None
            service.why = "asked for by the portal while no controller answered"
            self._reconcile(name)
        return True

    def view(self) -> HostView:
        """The whole truth of this host."""
        running = [r.record for s in self._services.values() for r in s.replicas.values()]
        return HostView(
            host=self._host,
            version=self._version,
            revision=self._revision,
            lease_until=self.lease_until,
            stopping=self.stopping,
            services=tuple(self._service_view(name, s) for name, s in sorted(self._services.items())),
            starts=(*self._finished, *running),
        )

    async def stop(self, drain_s: float) -> None:
        """Stop every engine, draining within `drain_s`; returns when no engine is left."""
        self.stopping = True
        for timer in self._retries.values():
            timer.cancel()
        await self._models.close()
        for service in self._services.values():
            service.wanted = 0
            for replica in service.replicas.values():
                replica.stop(drain_s)
        self._changed()
        await self._idle.wait()

    def _service_view(self, name: str, service: _Service) -> ServiceView:
        return ServiceView(
            service=name,
            replicas_wanted=service.wanted if service.asked_again else min(service.wanted, _left(service)),
            replicas=tuple(r.view(current_digest=service.digest) for _, r in sorted(service.replicas.items())),
            next_kind=service.next_kind,
            last_failure=service.last_failure,
            retry_at=service.retry_at,
        )

    def _dirs(self, name: str, ordinal: int) -> EngineDirs:
        base = self._root / name / str(ordinal)
        return EngineDirs(cache=base / "cache", log=base / "engine.log", run=base / "run", shared=self._root)

    def _reconcile(self, name: str) -> None:
        """Bring a service to its order.

        What a step causes (a replica that begins to drain) asks for another round: it comes after this one, for a round
        within a round would start the same replica twice.
        """
        self._due.append(name)
        if len(self._due) > 1:
            return
        try:
            while self._due:
                self._round(self._due[0])
                self._due.popleft()
        finally:
            self._due.clear()

    def _round(self, name: str) -> None:
        service = self._services.get(name)
        if service is None or self.stopping:
            return
        # Kept, not asked for in each view: it reads a file, and only what leads here can change it.
        shaped = self._shapes.shaped(service.spec).spec
        service.next_kind = self._launcher.kind(shaped, self._dirs(name, 0), service.no_fork)
        steps = plan(
            wanted=service.wanted,
            digest=service.digest,
            replicas=[r.held for r in service.replicas.values()],
            now=self._clock(),
            retry_at=service.retry_at,
            asked_again=service.asked_again,
        )
        for step in steps:
            match step:
                case Start(ordinal):
                    self._start(name, service, ordinal)
                case Stop(ordinal):
                    service.replicas[ordinal].stop()
        if service.forgotten and not service.replicas:
            self._try_anew(name, service)
            del self._services[name]
            self._launcher.drop(name)
            self._shapes.forget(name)
            shutil.rmtree(self._root / name, ignore_errors=True)
        self._changed()

    def _start(self, name: str, service: _Service, ordinal: int) -> None:
        self._generation += 1
        dirs, ordered = self._dirs(name, ordinal), service.spec
        shaped = self._shapes.shaped(ordered)
        start = EngineStart(
            spec=shaped.spec,
            start_id=f"{self._host}-{self._generation}",
            replica=replica_id(name, ordinal),
            dirs=dirs,
            asked_at=service.t0,
            why=service.why,
            spans=self._spans,
            on_change=lambda _: self._changed(),
            on_stage=self._on_stage,
            stuck_after_s=service.stuck_after_s,
            clock=self._clock,
            launcher=self._launcher,
            no_fork=service.no_fork,
            awaited=lambda: service.requests_wait,
            recycles=ordinal not in service.recycled,
            shapes=shaped.why,
        )
        replica = Replica(
            start=start,
            spec=shaped.spec,
            digest=service.digest,
            ordinal=ordinal,
            clock=self._clock,
            on_change=lambda: self._after_change(name),
            on_end=lambda r, failure: self._ended(name, r, failure),
            on_steps=self._shapes.taker(ordered),
            busy=self._is_starting,
        )
        service.recycled.discard(ordinal)
        service.replicas[ordinal] = replica
        self._idle.clear()
        replica.begin()

    def _is_starting(self) -> bool:
        """Whether any engine of this host is being started."""
        replicas = (replica for service in self._services.values() for replica in service.replicas.values())
        return any(replica.held.phase is Phase.STARTING for replica in replicas)

    def _after_change(self, name: str) -> None:
        """A replica became ready or began to drain: an older one may now go, or another is needed."""
        self._changed()
        self._reconcile(name)

    def _ended(self, name: str, replica: Replica, failure: Failure | None) -> None:
        service = self._services[name]
        if service.replicas.get(replica.ordinal) is replica:
            del service.replicas[replica.ordinal]
        self._finished.append(replica.record)
        if failure is not None:
            self._count_failure(name, service, replica, failure)
        elif replica.record.outcome == "recycled":
            # It is missing now, so the next round begins it anew: with what it compiled, and for good.
            service.recycled.add(replica.ordinal)
            service.t0, service.why = self._clock(), f"recycled: {replica.record.cache.note}"
        if not any(s.replicas for s in self._services.values()):
            self._idle.set()
        self._after_change(name)

    def _count_failure(self, name: str, service: _Service, replica: Replica, failure: Failure) -> None:
        service.last_failure, service.t0 = failure, failure.at
        if replica.digest != service.digest:
            return
        served_s = None if replica.ready_at is None else (failure.at - replica.ready_at).total_seconds()
        service.row = service.row.after(failure, served_s)
        service.no_fork = no_fork_after(replica.record, failure, service.no_fork)
        service.asked_again = False
        self._end_wait(name)
        if wait := wait_s(failure, service.row.failures):
            service.retry_at = self._clock() + timedelta(seconds=wait)
            self._retries[name] = asyncio.get_running_loop().call_later(wait, self._retry, name)
        else:
            service.retry_at = None
        if failure.permanent:
            self._models.begin(name, service.spec.model, replica.model_stamp, lambda: self._mended(name, service))

    def _retry(self, name: str) -> None:
        service = self._services.get(name)
        if service is not None:
            self._end_wait(name)
            service.retry_at = None
            self._after_change(name)

    def _mended(self, name: str, service: _Service) -> None:
        """The files of a model that could not start have changed: whoever wants it need not wait any longer."""
        if self._services.get(name) is service:
            self._try_anew(name, service)
            self._after_change(name)

    def _try_anew(self, name: str, service: _Service) -> None:
        """What failed is no longer what would be started: no back-off."""
        self._end_wait(name)
        service.row, service.retry_at, service.no_fork = NO_FAILURES, None, None

    def _end_wait(self, name: str) -> None:
        self._models.end(name)
        if timer := self._retries.pop(name, None):
            timer.cancel()

    def _changed(self) -> None:
        self._revision += 1
        self._on_change()


def _left(service: _Service) -> int:
    """How many replicas of the present spec serve or start."""
    current = (replica.held for replica in service.replicas.values())
    return sum(held.digest == service.digest and held.phase is not Phase.DRAINING for held in current)
