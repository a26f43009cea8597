"""The loop: observe → decide → re-read → act → record. Level-triggered: a missed or repeated tick changes nothing."""

import asyncio
import traceback
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from activator_ext.adapters.history import History, HistoryError
from activator_ext.adapters.hosts import Host, HostUnreachable
from activator_ext.adapters.local.manifests import LocalService
from activator_ext.app.clock_watch import in_our_time
from activator_ext.app.lateness import Lateness
from activator_ext.app.learning import Learner
from activator_ext.app.metrics import Metrics
from activator_ext.app.routes import RouteFeed, build_routes
from activator_ext.app.status import service_status, start_eta, start_under_way
from activator_ext.app.views import ServiceStatus
from activator_ext.app.world import QUEUE_STALE, World
from activator_ext.core.decide import decide
from activator_ext.core.model import Decision, DemandKind, Floor, LeadSample, Reason, ReasonCode, ServiceId, State
from activator_ext.core.visible import visible
from runtime.contract import STUCK_AFTER_S, EngineSpec, HostEvents, HostView, Lease, PortalReport, ServiceOrder

# Events that come within this time are answered by one decision.
SETTLE_S = 0.01
# Why a floor keeps what lives: reasons for no start.
_KEEPS = (ReasonCode.IDLE_KEEP, ReasonCode.LOADING_LEASE)
# After a decision that failed by a fault of ours.
RETRY_S = 1.0


class Controller:
    """Holds the world, decides, and gives the host its orders. One per `up`; every method runs on its event loop."""

    def __init__(
        self,
        *,
        host: Host,
        history: History,
        metrics: Metrics,
        feed: RouteFeed,
        clock: Callable[[], datetime],
        lease: Lease,
        report: Callable[[str], None],
        clock_step_s: Callable[[], float | None] = lambda: None,
    ) -> None:
        self.world = World()
        self.decision: Decision | None = None
        self.decided_at: datetime | None = None
        self._host = host
        self._history = history
        self._metrics = metrics
        self._feed = feed
        self._clock = clock
        self._lease = lease
        self._report = report
        self._clock_step_s = clock_step_s
        self._clock_set_at: datetime | None = None
        self._learner = Learner(history, metrics, self._say_service)
        self._lateness = Lateness(history, metrics, self._say_service)
        self._state = State()
        self._orders: dict[ServiceId, tuple[str, EngineSpec, int]] = {}
        self._told_waiting: dict[ServiceId, bool] = {}
        self._created: dict[ServiceId, datetime] = {}
        self._etas: dict[ServiceId, datetime] = {}
        self._wanted = asyncio.Event()
        self._services_read: dict[ServiceId, LocalService] | None = None
        self._ticking = False
        self._troubles: set[str] = set()
        self._told: set[str] = set()

    # What comes in.

    def take_services(self, services: Mapping[ServiceId, LocalService]) -> None:
        """The files were read: these services exist now, and no others. A tick under way ends with those it knows."""
        self._services_read = dict(services)
        if not self._ticking:
            self._adopt_services()
        self.wake()

    def _adopt_services(self) -> None:
        services, self._services_read = self._services_read, None
        if services is None:
            return
        now = self._clock()
        for service in services:
            self._created.setdefault(service, now)
            if service not in self.world.lead_samples:
                self.world.lead_samples[service] = self._known_samples(service)
                self._know_failure(service)
        for gone in set(self.world.services) - set(services):
            self._metrics.forget(str(gone))
            self._created.pop(gone, None)
            self._learner.asked(gone, None)
            self.world.forget(gone)
        self.world.services = services
        self._publish()

    def _known_samples(self, service: ServiceId) -> tuple[LeadSample, ...]:
        try:
            return self._history.lead_samples(service)
        except HistoryError as error:
            self._trouble(str(error))
            return ()

    def _know_failure(self, service: ServiceId) -> None:
        """The last failure of a service that an earlier `up` saw."""
        try:
            failure = self._history.last_failure(service)
        except HistoryError as error:
            self._trouble(str(error))
            return
        if failure is not None:
            self.world.take_failure(service, failure)

    def _stuck_after_s(self, service: ServiceId) -> float:
        try:
            return self._learner.stuck_after_s(service)
        except HistoryError as error:
            self._trouble(str(error))
            return STUCK_AFTER_S

    def portal_reported(self, report: PortalReport) -> None:
        """The portal's queue changed, or it is alive."""
        report = in_our_time(report, self._clock())
        silent = self.world.portal_seen_at is None or self._clock() - self.world.portal_seen_at >= QUEUE_STALE
        if self.world.take_report(report) or silent:
            self.wake()

    def host_changed(self, events: HostEvents) -> None:
        """Something changed at the host; what, its view says."""
        if self.world.host is None or events.revision != self.world.host.revision:
            self.wake()

    def wake(self) -> None:
        """Decide soon."""
        self._wanted.set()

    def say(self, service: ServiceId | None, kind: str, text: str, reason: Reason | None = None) -> None:
        """Record an event and tell it to whoever watches this process; `text` may hold what others wrote."""
        text = visible(text)
        try:
            self._history.add_event(self._clock(), service, kind, text, reason)
        except HistoryError as error:
            self._trouble(str(error))
        self._report(f"{service}: {text}" if service is not None else text)

    def _say_service(self, service: ServiceId, kind: str, text: str) -> None:
        self.say(service, kind, text)

    def _trouble(self, text: str) -> None:
        """Tell what stands in the way, once as long as it does; the loop goes on without."""
        if text not in self._told | self._troubles:
            self._report(f"error: {text}")
        self._troubles.add(text)

    # The loop.

    async def run(self) -> None:
        """Decide whenever something happened and at `next_at`, until cancelled."""
        while True:
            try:
                await self.tick()
            except Exception:  # a fault in deciding must not end the streams that run
                self._trouble(f"a decision failed; what stands stays:\n{traceback.format_exc()}")
                await asyncio.sleep(RETRY_S)
                continue
            try:
                # Not `asyncio.wait_for`: up to Python 3.11 it swallows a cancel that comes as the event is set.
                async with asyncio.timeout(self._sleep_s()):
                    await self._wanted.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(SETTLE_S)

    async def keep_lease(self) -> None:
        """Renew the host's lease at a quarter of its time, until cancelled."""
        while True:
            try:
                view = await self._host.renew(self._lease)
            except HostUnreachable:
                self.world.host_reachable = False
                self.wake()
            else:
                if self.world.host is None or view.revision != self.world.host.revision:
                    self.wake()
            await asyncio.sleep(self._lease.seconds / 4)

    async def tick(self) -> None:
        """One round: observe, decide, act, record."""
        self._wanted.clear()
        self._ticking = True
        try:
            self._adopt_services()
            await self._round()
        finally:
            self._ticking = False

    async def _round(self) -> None:
        self._told, self._troubles = self._troubles, set()
        self._watch_clock()
        await self._look()
        now = self._clock()
        decision = decide(now, self.world.observation(now), self._state, self.world.config())
        self._record(now, decision)
        self._state, self.decision, self.decided_at = decision.state, decision, now
        # Also before acting: hundreds of orders to a new host take seconds, in which requests may wait already.
        self._publish()
        if self.world.host_reachable:
            try:
                await self._act(now, decision)
            except HostUnreachable as error:
                self.world.host_reachable = False
                self._trouble(str(error))
        self._publish()
        self._metrics.observe_services(self.statuses(decision))

    def _watch_clock(self) -> None:
        """Before anything is learned from the host: a step of the wall clock is no time that a start took."""
        by_s = self._clock_step_s()
        if by_s is None:
            return
        self._clock_set_at = self._clock()
        if self.world.portal_seen_at is not None:
            self.world.portal_seen_at += timedelta(seconds=by_s)
        self._learner.clock_set(self.world)
        self._lateness.clock_set()
        text = f"the clock was set {'forth' if by_s > 0 else 'back'} by {abs(by_s):.0f} s, or this machine slept"
        self.say(None, "clock", f"{text}: all is planned anew; starts under way teach no lead time")

    def _sleep_s(self) -> float | None:
        """How long nothing changes by itself: `next_at`, an ETA that passes, a portal silent for too long."""
        moments = list(self._etas.values())
        if self.decision is not None and self.decision.next_at is not None:
            moments.append(self.decision.next_at)
        if self.world.portal_seen_at is not None:
            stale_at = self.world.portal_seen_at + QUEUE_STALE
            if stale_at > self._clock():
                moments.append(stale_at)
        if not moments:
            return None
        return max((min(moments) - self._clock()).total_seconds(), 0.0)

    async def _look(self) -> None:
        try:
            view = await self._host.view()
            if self.world.host is None or view.host != self.world.host.host:
                # A new host does not know yet where to tell of changes; the lease says it.
                view = await self._host.renew(self._lease)
            self._take_view(view)
        except HostUnreachable:
            self.world.host_reachable = False

    def _take_view(self, view: HostView) -> None:
        if self.world.host is not None and self.world.host.host != view.host:
            self.say(None, "host", f"host {view.host} replaces {self.world.host.host}")
        try:
            if self.world.host is not None and self.world.host.host != view.host:
                self._learner.host_lost(self.world, self._clock(), view.host)
            self._learner.learn(self.world, view)
        except HistoryError as error:
            # What could not be kept is still in the host's view, and tried again with the next.
            self._trouble(str(error))
        self.world.take_view(view)

    def _record(self, now: datetime, decision: Decision) -> None:
        for action in decision.actions:
            before = self._state.services.get(action.service)
            if before is None and action.replicas == 0:
                continue
            was = 0 if before is None else before.floor.replicas
            self.say(action.service, "floor", f"floor {was} → {action.replicas}: {action.reason.text}", action.reason)
        self._metrics.observe_decision(decision, self.decision)
        try:
            self._lateness.note(now, self.world, decision)
        except HistoryError as error:
            self._trouble(str(error))

    async def _act(self, now: datetime, decision: Decision) -> None:
        """Bring the host's orders to the floors, judged by the host as it is now, not as it was remembered."""
        view = self.world.host
        if view is None or view.stopping:
            return
        wanted_there = {service.service: service.replicas_wanted for service in view.services}
        for service, decided in decision.services.items():
            spec = self._spec(service)
            floor = decided.floor.replicas
            order = (view.host, spec, floor)
            there = wanted_there.get(str(service))
            # Answers that other services' starts have taught are told, but not where that asked for what failed.
            stands = self._ordered(service, order) and not _asks(decided.floor, there)
            waits = self._requests_wait(service)
            # That requests wait now is told to starts under way as soon as it is so; that none waits can wait.
            told = self._orders.get(service) == order and self._told_waiting.get(service, False) >= bool(waits)
            if stands and (told or there != floor):
                continue
            edited = self._edited(service, order)
            asked_at = now if edited else self._asked_at(service, decided.floor.demand, now)
            if floor == 0 or edited:
                self._learner.asked(service, None)
            if edited and floor:
                self.say(service, "edit", "its engine was edited: a new one replaces it")
                self._learner.asked(service, asked_at)
            elif floor > wanted_there.get(str(service), 0):
                self._learner.asked(service, asked_at)
            why = f"{'its engine was edited; ' if edited else ''}{decided.floor.reason.text}"
            stuck_after_s = self._stuck_after_s(service) if floor else STUCK_AFTER_S
            await self._host.order(
                ServiceOrder(
                    spec=spec,
                    replicas=floor,
                    asked_at=asked_at,
                    why=why,
                    stuck_after_s=stuck_after_s,
                    requests_wait=waits,
                )
            )
            self._orders[service], self._told_waiting[service] = order, bool(waits)
        for name in wanted_there.keys() - {str(service) for service in decision.services}:
            await self._host.forget(name)
            self._orders.pop(ServiceId.parse(name), None)
            self._told_waiting.pop(ServiceId.parse(name), None)
        self._take_view(await self._host.view())

    def _requests_wait(self, service: ServiceId) -> bool | None:
        """Whether requests wait for it now; None: no portal has told."""
        load = self.world.loads.get(service)
        return None if load is None else load.waiting > 0

    def _ordered(self, service: ServiceId, order: tuple[str, EngineSpec, int]) -> bool:
        """Whether this order stands already, but for golden answers learned since."""
        host, spec, replicas = self._orders.get(service, ("", order[1], -1))
        golden = spec.golden.model_copy(update={"learned": order[1].golden.learned})
        return (host, spec.model_copy(update={"golden": golden}), replicas) == order

    def _edited(self, service: ServiceId, order: tuple[str, EngineSpec, int]) -> bool:
        """Whether this host was ordered another engine before: other than by golden answers learned meanwhile."""
        before = self._orders.get(service)
        if before is None or before[0] != order[0]:
            return False
        return before[1].model_copy(update={"golden": order[1].golden}) != order[1]

    def _asked_at(self, service: ServiceId, demand: DemandKind | None, now: datetime) -> datetime:
        """T0: the first waiting request where requests asked, else this decision."""
        load = self.world.loads.get(service)
        if demand is DemandKind.QUEUE and load is not None and load.oldest_waiting_at is not None:
            # What waits since before the clock was set waits since then, as far as we can tell.
            return min(max(load.oldest_waiting_at, self._clock_set_at or load.oldest_waiting_at), now)
        return now

    def _spec(self, service: ServiceId) -> EngineSpec:
        """The engine's spec with the golden answers learned so far."""
        spec = self.world.services[service].spec
        if spec.golden.tokens is not None:
            return spec
        try:
            learned = self._learner.goldens(spec.golden.prompt)
        except HistoryError as error:
            self._trouble(str(error))
            learned = {}
        return spec.model_copy(update={"golden": spec.golden.model_copy(update={"learned": learned})})

    def _publish(self) -> None:
        """Tell the portal how things stand.

        An unreachable host's last view stays: its engines may serve on, and the portal finds out if they do not.
        """
        now = self._clock()
        self._etas = {}
        for service in self.world.services:
            start = start_under_way(self.world, service)
            expected = start_eta(self.world, service, start, now) if start is not None else None
            if expected is not None:
                self._etas[service] = expected
        self._feed.publish(
            build_routes(
                self.world.services,
                self.world.host,
                host_socket=self._host.socket,
                etas=self._etas,
                created_at=self._created,
            )
        )

    def statuses(self, decision: Decision | None = None) -> list[ServiceStatus]:
        """Every service as `decision` has it, by name; None: decided anew, so that idle seconds are those of now."""
        now = self._clock()
        decided = decision or decide(now, self.world.observation(now), self._state, self.world.config())
        return [
            service_status(self.world, service, decided.services[service], now) for service in sorted(decided.services)
        ]

    def status(self, service: ServiceId) -> ServiceStatus:
        """One service, decided anew; others cost nothing."""
        now = self._clock()
        decided = decide(now, self.world.observation(now, (service,)), self._state, self.world.config((service,)))
        return service_status(self.world, service, decided.services[service], now)


def _asks(floor: Floor, wanted_there: int | None) -> bool:
    """Whether a host that was ordered this floor is to be asked again: it wants another number (None: it forgot).

    After a failure it wants less: for what is only kept that is not worth another try.
    """
    if wanted_there is None or wanted_there > floor.replicas:
        return True
    return wanted_there < floor.replicas and floor.reason.code not in _KEEPS
