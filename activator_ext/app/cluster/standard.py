"""Standard mode in the loop: floors told to KEDA, and a ScaledObject of ours for each service that has a policy."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from activator_ext.adapters.keda_scaler.floors import Floors, KnownFloor
from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.kubernetes.faults import ApiFault
from activator_ext.adapters.standard.actuator import Actuator, HeldByOthers
from activator_ext.adapters.standard.look import look
from activator_ext.adapters.standard.manifest import Settings
from activator_ext.adapters.standard.objects import Inference
from activator_ext.adapters.standard.plan import Plan, plan
from activator_ext.core.model import Floor, ServiceId

LOOK_AGAIN = timedelta(minutes=5)
"""What others do to a ScaledObject is seen so late at most; our own reasons to look are acted on at once."""
AFTER_FAULT = timedelta(seconds=10)
AT_ONCE = 8
NOBODY_SERVES = (
    "it is in Standard mode, and this controller serves no KEDA, so its floor has no effect: "
    "give --keda-listen and --scaler-address"
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One service in Standard mode with a policy: what it is, its floor, and its policy's bounds.max."""

    inference: Inference
    floor: Floor
    most: int


@dataclass(frozen=True, slots=True)
class _Done:
    key: tuple[Inference, int]
    again_at: datetime


class StandardMode:
    """`floors` is what our scaler answers KEDA from; `serves`: whether there is one.

    Without `settings` (no scaler address) no ScaledObject is made; whoever makes them by hand still gets floors.
    """

    def __init__(
        self,
        client: Client,
        floors: Floors,
        settings: Settings | None,
        *,
        serves: bool,
        leading: Callable[[], bool],
        clock: Callable[[], datetime],
    ) -> None:
        self._client, self._floors, self._settings, self._serves = client, floors, settings, serves
        self._leading, self._clock = leading, clock
        self._actuator = Actuator(client)
        self._done: dict[ServiceId, _Done] = {}
        self.standing: dict[ServiceId, Plan] = {}

    @property
    def next_at(self) -> datetime | None:
        """When to look again if nothing happens."""
        return min((done.again_at for done in self._done.values()), default=None)

    async def carry_out(self, wanted: Mapping[ServiceId, Wanted]) -> Mapping[ServiceId, str]:
        """Tell all floors; look at those services of which something changed. Why a floor is not carried out, if so."""
        known = {service: KnownFloor(each.floor.replicas, each.floor.until) for service, each in wanted.items()}
        # For good: while nothing changes, the loop sleeps for minutes and tells nothing.
        self._floors.tell(known, forever=True)
        for gone in self._done.keys() - wanted.keys():
            del self._done[gone]
            self.standing.pop(gone, None)
            self._actuator.forget(gone)
        if self._settings is None or not self._leading():
            return {} if self._serves else dict.fromkeys(wanted, NOBODY_SERVES)
        now = self._clock()
        due = [service for service, each in sorted(wanted.items()) if self._is_due(service, each, now)]
        gate = asyncio.Semaphore(AT_ONCE)
        faults = await asyncio.gather(*(self._one(service, wanted[service], self._settings, gate) for service in due))
        standing = {service: plan.message for service, plan in self.standing.items() if not plan.fine}
        return standing | {service: fault for service, fault in zip(due, faults, strict=True) if fault is not None}

    def _is_due(self, service: ServiceId, each: Wanted, now: datetime) -> bool:
        done = self._done.get(service)
        return done is None or done.key != (each.inference, each.most) or done.again_at <= now

    async def _one(self, service: ServiceId, each: Wanted, settings: Settings, gate: asyncio.Semaphore) -> str | None:
        async with gate:
            key = (each.inference, each.most)
            try:
                seen = await look(self._client, service)
                if seen is not None:
                    planned = plan(*seen, settings, each.most)
                    self.standing[service] = planned
                    await self._actuator.carry_out(service, planned)
            except (ApiFault, HeldByOthers) as fault:
                self._done[service] = _Done(key, self._clock() + AFTER_FAULT)
                return str(fault)
            self._done[service] = _Done(key, self._clock() + LOOK_AGAIN)
            return None
