"""The loop in a cluster: observe → decide → re-read → act → record. Level-triggered: a missed tick changes nothing.

What remembers is the cluster: floors stand on Revisions under our field manager, policies and holds are objects, their
status says what was decided. Lead times are kept in a file that may be lost.
"""

import asyncio
import traceback
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from activator_ext.adapters.history import HistoryError
from activator_ext.adapters.knative.actuator import KnativeActuator
from activator_ext.adapters.kubernetes.assigner import Assigner
from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.kubernetes.events import About, Events
from activator_ext.adapters.kubernetes.faults import ApiFault
from activator_ext.adapters.kubernetes.governed import governed
from activator_ext.adapters.kubernetes.holds import Holds, holds
from activator_ext.adapters.kubernetes.ours import POLICIES
from activator_ext.adapters.kubernetes.policies import Assigned, ObjectId
from activator_ext.adapters.kubernetes.report import Report
from activator_ext.adapters.kubernetes.resource import Json, Key
from activator_ext.adapters.kubernetes.status_writer import delete_hold, write_status
from activator_ext.adapters.kubernetes.statuses import Statuses
from activator_ext.adapters.starts.records import Wanted as WantedStart
from activator_ext.adapters.starts.samples import observation
from activator_ext.adapters.starts.stories import SETTLE, ServiceStarts, settled
from activator_ext.app.cluster.learned import Learned
from activator_ext.app.cluster.sight import ServiceSeen, Sight
from activator_ext.app.cluster.standard import StandardMode, Wanted
from activator_ext.core.decide import decide
from activator_ext.core.model import (
    Config,
    Decision,
    Observation,
    QueueView,
    ServiceId,
    ServiceObservation,
    StartKind,
    State,
    Warmth,
)

SETTLE_S = 0.05
"""Changes that come within this time are answered by one decision: an edit is a handful of them."""
LOOK_S = 2.0
"""How often it is looked whether everything was listed, until it is."""
RETRY_S = 1.0
"""After a decision that failed by a fault of ours."""
UNSETTLED = SETTLE + timedelta(seconds=0.5)
"""A start that is over is learned from so much later, once what ended it is told."""


class ClusterController:
    """One cluster's. `leading` says whether this one writes; one that does not still sees, decides and learns."""

    def __init__(
        self,
        *,
        client: Client,
        sight: Sight,
        knative: KnativeActuator,
        standard: StandardMode,
        learned: Learned,
        events: Events,
        clock: Callable[[], datetime],
        report: Callable[[str], None],
        leading: Callable[[], bool],
    ) -> None:
        self._client, self._sight, self._knative, self._standard = client, sight, knative, standard
        self._learned, self._events, self._clock = learned, events, clock
        self._report, self._leading = report, leading
        self._owners: Mapping[ServiceId, ObjectId] = {}
        self._wanted = asyncio.Event()
        self._state = State()
        self._assigner, self._statuses, self._held = Assigner(), Statuses(), Holds((), {}, ())
        self._known: frozenset[ServiceId] = frozenset()
        self._troubles: set[str] = set()
        self._told: set[str] = set()
        self._next: list[datetime] = []
        self.decision: Decision | None = None

    def wake(self) -> None:
        """Decide soon."""
        self._wanted.set()

    async def run(self) -> None:
        """Decide whenever something changed and when it is due, until cancelled; begins once all was listed."""
        await self._see_all()
        while True:
            self._wanted.clear()
            try:
                await self.tick()
            except Exception:  # a fault in deciding must not end what stands
                self._trouble(f"a decision failed; what stands stays:\n{traceback.format_exc()}")
                await asyncio.sleep(RETRY_S)
                continue
            try:
                async with asyncio.timeout(self._sleep_s()):
                    await self._wanted.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(SETTLE_S)

    async def _see_all(self) -> None:
        """Until all was listed once; what stands against that is told meanwhile, once."""
        synced = asyncio.gather(self._sight.wait_synced(), self._knative.wait_synced())
        try:
            while not (await asyncio.wait({synced}, timeout=LOOK_S))[0]:
                self._told, self._troubles = self._troubles, set()
                self._tell_unseen()
        finally:
            synced.cancel()

    def _tell_unseen(self) -> None:
        for resource, text in sorted(self._sight.troubles.items()):
            self._trouble(f"{resource}: {text}")
        for each in self._knative.watches:
            if each.trouble is not None:
                self._trouble(f"{each.resource}: {each.trouble.text}")

    async def tick(self) -> None:
        """One round."""
        self._told, self._troubles, self._next = self._troubles, set(), []
        self._tell_unseen()
        now = self._clock()
        services = {each.served.id: each for each in self._sight.services.objects.values()}
        served = [each.served for each in services.values()]
        policies, asked = self._sight.policies.objects.values(), self._sight.holds.objects.values()
        assigned = self._assigner.assign(policies, served)
        held = self._held = holds((each.item for each in asked), served, now, self._held.known)
        config = governed(assigned, held, served)
        starts = {service: self._sight.stories.of(service, now) for service in config.services}
        self._learn(starts, now)
        seen = Observation({each: self._seen(each, starts[each], now) for each in starts}, held.holds)
        decision = decide(now, seen, self._state, config)
        self._tell(decision, assigned)
        self._state, self.decision = decision.state, decision
        self._ask(decision, seen, now)
        await self._act(decision, services, config)
        reports = {
            service: Report.of(
                decided,
                seen.services[service],
                config.services[service],
                starts[service].starts,
                starts[service].last_failure or starts[service].trouble,
            )
            for service, decided in decision.services.items()
        }
        await self._write(assigned, held, reports, now)
        self._next += [
            each for each in (decision.next_at, held.next_at(now), self._standard.next_at) if each is not None
        ]
        self._sight.stories.forget(now)

    # Observe.

    def _seen(self, service: ServiceId, starts: ServiceStarts, now: datetime) -> ServiceObservation:
        """Requests are the cluster's own autoscaler's to answer: here they are known to want nothing of us."""
        try:
            return observation(starts, QueueView(now), self._learned.samples(service), self._learned.last_kind(service))
        except HistoryError as error:
            self._trouble(str(error))
            return observation(starts, QueueView(now), (), StartKind.COLD_NODE)

    def _learn(self, starts: Mapping[ServiceId, ServiceStarts], now: datetime) -> None:
        for gone in self._known - starts.keys():
            self._learned.forget(gone)
        self._known = frozenset(starts)
        for service, each in starts.items():
            try:
                for start in self._learned.learn(service, each.starts, now):
                    why = start.failure.message if start.failure is not None else f"ready after {start.ready_s:.1f} s"
                    self._report(f"{service}: start {start.id} ({start.kind}): {why}")
                    if start.failure is not None:
                        self._event(service, "StartFailed", why, warning=True)
            except HistoryError as error:
                self._trouble(str(error))
            if any(start.outcome is not None and not settled(start, now) for start in each.starts):
                self._next.append(now + UNSETTLED)

    # Act.

    def _ask(self, decision: Decision, seen: Observation, now: datetime) -> None:
        """From when on a start counts as ours, and its lead time runs."""
        for service, decided in decision.services.items():
            replicas, floor = seen.services[service].replicas, decided.floor.replicas
            ready = sum(each.warmth in (Warmth.WARM, Warmth.BUSY) for each in replicas)
            asked_at = self._learned.asked(service, now if floor > ready else None)
            missing = floor > len(replicas)
            wanted = WantedStart(written_at=asked_at, why=decided.floor.reason.text) if missing else None
            self._sight.stories.wanted(service, wanted)

    async def _act(self, decision: Decision, services: Mapping[ServiceId, ServiceSeen], config: Config) -> None:
        floors: dict[ServiceId, int] = {}
        standard: dict[ServiceId, Wanted] = {}
        for service, decided in decision.services.items():
            inference = services[service].inference
            if inference.standard is False:
                floors[service] = decided.floor.replicas
            elif inference.standard:
                standard[service] = Wanted(inference, decided.floor, config.services[service].bounds.max)
        done = await self._knative.carry_out(floors)
        for each in done.done:
            self._report(
                f"{each.write.target.key}: min-scale {each.write.step.value} {each.write.value or ''}".rstrip()
            )
        for key in done.nudged:
            self._report(f"{key}: nudged through the activator, its min-scale had no effect")
        for text in (*(finding.text for finding in done.findings), *done.faults):
            self._trouble(text)
        if done.next_at is not None:
            self._next.append(done.next_at)
        for service, text in (await self._standard.carry_out(standard)).items():
            self._trouble(f"{service}: {text}")
            if standard[service].floor.replicas:
                self._event(service, "FloorWithoutEffect", text, warning=True)

    # Record.

    def _tell(self, decision: Decision, assigned: Assigned) -> None:
        self._owners = assigned.owners
        for action in decision.actions:
            before = self._state.services.get(action.service)
            if before is not None or action.replicas:
                was = 0 if before is None else before.floor.replicas
                text = f"floor {was} → {action.replicas}: {action.reason.text}"
                self._report(f"{action.service}: {text}")

    def _events_of(self, decision: Decision) -> None:
        """An Event for each floor that is another one than the policy's status says: whoever led when that was written.

        So a floor that was decided on while nobody led is told too, and none twice by two controllers.
        """
        statuses = {ObjectId.of(each.item): each.status for each in self._sight.policies.objects.values()}
        for service, decided in decision.services.items():
            floor, owner = decided.floor, self._owners.get(service)
            was = _floor_told(statuses.get(owner, {}) if owner is not None else {}, service)
            if floor.replicas != was:
                text = f"floor {was} → {floor.replicas}: {floor.reason.text}"
                self._event(service, "FloorRaised" if floor.replicas > was else "FloorLowered", text)

    def _event(self, service: ServiceId, reason: str, text: str, *, warning: bool = False) -> None:
        """An Event about the policy that counts for the service, by whoever leads."""
        owner = self._owners.get(service)
        if owner is not None and self._leading():
            about = About(POLICIES, Key(owner.namespace, owner.name), owner.uid)
            self._events.tell(about, reason, f"{service}: {text}", warning=warning)

    async def _write(self, assigned: Assigned, held: Holds, reports: Mapping[ServiceId, Report], now: datetime) -> None:
        """The status of each object that it changed of."""
        if not self._leading():
            return
        if self.decision is not None:
            self._events_of(self.decision)
        policies, asked = self._sight.policies.objects.values(), self._sight.holds.objects.values()
        for write in self._statuses.writes(policies, asked, assigned, held, reports, now):
            try:
                await write_status(self._client, write)
            except ApiFault as fault:
                self._trouble(f"the status of {write.id.namespace}/{write.id.name}: {fault}")
        for stale in held.stale:
            try:
                await delete_hold(self._client, stale)
            except ApiFault as fault:
                self._trouble(f"PrewarmHold {stale.namespace}/{stale.name}: {fault}")

    def _trouble(self, text: str) -> None:
        """Tell what stands in the way, once as long as it does; the loop goes on without."""
        if text not in self._told | self._troubles:
            self._report(f"error: {text}")
        self._troubles.add(text)

    def _sleep_s(self) -> float | None:
        """How long nothing changes by itself."""
        if self._troubles and self._leading():
            self._next.append(self._clock() + timedelta(seconds=10))
        if not self._next:
            return None
        return max((min(self._next) - self._clock()).total_seconds(), 0.0)


def _floor_told(status: Json, service: ServiceId) -> int:
    """The floor of the service as a policy's status has it; of a `default` policy's many the list does."""
    listed = {each.get("name"): each for each in status.get("services") or ()}
    return int(listed.get(service.name, status).get("floor") or 0)
