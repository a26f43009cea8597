"""What the HTTP API asks of the controller, answered from memory and the history."""

import secrets
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from activator_ext.adapters.history import History
from activator_ext.app.controller import Controller
from activator_ext.app.metrics import Metrics
from activator_ext.app.preview import preview_view
from activator_ext.app.status import hold_view, lead_times, reason_view
from activator_ext.app.views import (
    EventView,
    HoldRequest,
    HoldView,
    InvalidRequest,
    PlanView,
    PreviewView,
    ServiceStatus,
    UnknownService,
)
from activator_ext.app.world import QUEUE_STALE
from activator_ext.core.model import Hold, ServiceId, StartKind
from runtime.contract import StartRecord

# Names shown in an error; more would hide the fix.
_NAMES_SHOWN = 10
# A hold further ahead is a slip of the pen; what recurs is a schedule.
_FARTHEST = timedelta(days=366)


class Facade:
    """`ControllerFacade` over one controller. `portal_metrics` fetches the portal's exposition, None if it cannot."""

    def __init__(
        self,
        *,
        controller: Controller,
        history: History,
        metrics: Metrics,
        clock: Callable[[], datetime],
        portal_metrics: Callable[[], Awaitable[str | None]],
    ) -> None:
        self._controller = controller
        self._history = history
        self._metrics = metrics
        self._clock = clock
        self._portal_metrics = portal_metrics
        self.refresh_holds()

    def plan(self) -> PlanView:
        """The last decision."""
        decision = self._controller.decision
        return PlanView(
            decided_at=self._controller.decided_at or self._clock(),
            next_at=None if decision is None else decision.next_at,
            services=tuple(self.services()),
        )

    def services(self) -> list[ServiceStatus]:
        """Every service, by name."""
        return self._controller.statuses()

    def service(self, service: ServiceId) -> ServiceStatus:
        """One service; raises UnknownService."""
        self._known(service)
        return self._controller.status(service)

    def starts(self, service: ServiceId, limit: int) -> list[StartRecord]:
        """Its newest starts first, the one under way included; raises UnknownService."""
        self._known(service)
        host = self._controller.world.host
        running = [s for s in host.starts if s.service == str(service) and s.outcome is None] if host else []
        return [*reversed(running), *self._history.starts(service, limit)][:limit]

    def start(self, start_id: str) -> StartRecord | None:
        """One start by id."""
        host = self._controller.world.host
        running = next((s for s in host.starts if s.id == start_id), None) if host else None
        return running or self._history.start(start_id)

    def preview(self, service: ServiceId, start: datetime | None, days: float) -> PreviewView:
        """When it will be warm, by plan; raises UnknownService."""
        self._known(service)
        world = self._controller.world
        begin = start or self._clock()
        if abs(begin - self._clock()) > 10 * _FARTHEST:
            raise InvalidRequest(f"{begin.isoformat()} is more than ten years away: choose a nearer `from`")
        view = world.host_service(service)
        kind = StartKind(view.next_kind.value) if view is not None else StartKind.COLD_NODE
        policy = world.services[service].policy
        return preview_view(service, policy, lead_times(world, service), kind, begin, days)

    def holds(self) -> list[HoldView]:
        """Every hold that has not expired, and those that expired in the last day."""
        now = self._clock()
        return [hold_view(hold, now) for hold in self._history.holds(now)]

    async def add_hold(self, request: HoldRequest, idempotency_key: str | None) -> HoldView:
        """Record a hold and act on it; the same key gives the same hold. Raises UnknownService, InvalidRequest."""
        try:
            service = ServiceId.parse(request.service)
        except ValueError as error:
            raise InvalidRequest(str(error)) from error
        self._known(service)
        bounds = self._controller.world.services[service].policy.bounds
        if request.replicas > bounds.max:
            raise InvalidRequest(
                f"{request.replicas} replicas wanted, but bounds.max of {service} is {bounds.max}: ask for fewer or "
                "raise bounds.max"
            )
        now = self._clock()
        begin = request.ready_by or now
        if begin > now + _FARTHEST:
            raise InvalidRequest(f"ready_by {begin.isoformat()} is more than a year ahead: choose an earlier one")
        until = begin + timedelta(seconds=request.for_s)
        if until <= now:
            raise InvalidRequest(f"the hold would end at {until.isoformat()}, which is past: choose a later ready_by")
        hold = Hold(
            id=f"hold-{secrets.token_hex(4)}",
            service=service,
            replicas=request.replicas,
            created_at=now,
            until=until,
            ready_by=request.ready_by,
            note=request.reason,
        )
        try:
            kept = self._history.add_hold(hold, idempotency_key)
        except ValueError as error:
            raise InvalidRequest(str(error)) from error
        if kept.id == hold.id:
            text = f"hold {hold.id}: {hold.replicas} replica(s) until {until.isoformat(timespec='seconds')}"
            self._controller.say(service, "hold", f"{text} {hold.note}".rstrip())
        self.refresh_holds()
        return hold_view(kept, now)

    async def release_hold(self, hold_id: str) -> bool:
        """End a hold now; False if there is none."""
        released = self._history.release_hold(hold_id, self._clock())
        if released:
            self._controller.say(None, "hold", f"hold {hold_id} released")
            self.refresh_holds()
        return released

    def refresh_holds(self) -> None:
        """Read the holds that still matter and decide again."""
        now = self._clock()
        self._controller.world.holds = tuple(hold for hold in self._history.holds(now) if hold.until > now)
        self._controller.wake()

    def events(self, after: int, limit: int) -> list[EventView]:
        """Events with seq > after, oldest first."""
        return [
            EventView(
                seq=event.seq,
                at=event.at,
                service=str(event.service) if event.service is not None else None,
                kind=event.kind,
                text=event.text,
                reason=reason_view(event.reason) if event.reason is not None else None,
            )
            for event in self._history.events(after, limit)
        ]

    def ready(self) -> str | None:
        """None when the loop has decided and host and portal are reachable, else what is missing."""
        world = self._controller.world
        if self._controller.decision is None:
            return "nothing has been decided yet"
        if not world.host_reachable:
            return "the host does not answer"
        if world.portal_seen_at is None:
            return "the portal has not reported yet"
        if self._clock() - world.portal_seen_at >= QUEUE_STALE:
            return "the portal does not report any more"
        return None

    async def metrics(self) -> str:
        """Prometheus text exposition of the controller, its portal's included."""
        return self._metrics.exposition(await self._portal_metrics())

    def _known(self, service: ServiceId) -> None:
        services = self._controller.world.services
        if service not in services:
            names = ", ".join(str(s) for s in sorted(services)[:_NAMES_SHOWN]) or "none"
            raise UnknownService(f"no service {service}; known: {names}")
