"""The floors that are known now, and whoever waits for one to change.

Absent is not zero: a service without a known floor, or an open floor from a source that has gone silent, is *unknown*.
KEDA is then told an error, upon which it keeps the replicas that stand and says so on the ScaledObject; it never goes
to zero for it.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from weakref import WeakValueDictionary

from activator_ext.core.model import ServiceId

STALE_AFTER = timedelta(seconds=60)
"""A source not heard for so long is silent: its open floors are unknown from then on, timed ones end at their time."""

END_GRACE = timedelta(seconds=5)
"""How long after its end a floor still holds: so long its source has to say what comes next, an idle keep for instance.
Without it a sync of the HPA that falls between an end and the next telling takes replicas away that are wanted on."""


@dataclass(frozen=True, slots=True)
class KnownFloor:
    """`replicas` ≥ 0 until an instant (None: open); END_GRACE after it 0, unless told otherwise meanwhile."""

    replicas: int
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """No floor can be told; `why` names what is missing and the fix."""

    why: str


def floor_at(now: datetime, service: ServiceId, known: KnownFloor | None, heard_at: datetime | None) -> int | Unknown:
    """The floor of a service now, from what was last told and when the source was last heard (None: never)."""
    if heard_at is None:
        return Unknown(f"no floors are known yet (asked for {service}): the source has not been read")
    silent = now - heard_at > STALE_AFTER
    if known is not None and known.until is not None:
        # An end that was announced holds without its source, too.
        return known.replicas if now < known.until + END_GRACE else 0
    if silent:
        return Unknown(
            f"the source of floors is silent for {(now - heard_at).total_seconds():.0f} s (asked: {service})"
        )
    if known is None:
        return Unknown(
            f"no floor is known for {service}: is it spelt as its InferenceService, and does it have a policy?"
        )
    return known.replicas


class Floors:
    """What is known; lives on one event loop. `clock` gives aware UTC."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._known: Mapping[ServiceId, KnownFloor] = {}
        self._heard_at: datetime | None = None
        self._forever = False
        # Of the services that a stream waits for: thousands are not woken for one.
        self._changes: WeakValueDictionary[ServiceId, asyncio.Event] = WeakValueDictionary()

    def tell(self, floors: Mapping[ServiceId, KnownFloor], *, forever: bool = False) -> None:
        """Replace all floors by these. `forever`: also when not told again (a file, a controller in this process)."""
        before, self._known = self._known, dict(floors)
        self._heard_at, self._forever = self._clock(), forever
        for service, change in [*self._changes.items()]:
            if before.get(service) != self._known.get(service):
                del self._changes[service]
                change.set()

    def of(self, service: ServiceId) -> int | Unknown:
        """The floor of a service now."""
        now = self._clock()
        return floor_at(now, service, self._known.get(service), now if self._forever else self._heard_at)

    @property
    def services(self) -> tuple[ServiceId, ...]:
        """Every service with a known floor, by name."""
        return tuple(sorted(self._known))

    def change(self, service: ServiceId) -> asyncio.Event:
        """Set when this service is next told another value. Take it *before* reading the floor, so none is missed."""
        return self._changes.setdefault(service, asyncio.Event())

    def ends_within_s(self, service: ServiceId, most_s: float) -> float:
        """Seconds until this service's floor ends by itself, at most `most_s`."""
        known = self._known.get(service)
        if known is None or known.until is None:
            return most_s
        left_s = (known.until + END_GRACE - self._clock()).total_seconds()
        return min(left_s, most_s) if left_s > 0 else most_s
