"""How each announced minute was met: judged once, at the minute, when it is ready after it, or as missed at its end."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from activator_ext.adapters.history import History, Minute
from activator_ext.app.world import World
from activator_ext.core.model import Decision, Demand, ServiceId, Warmth

Outcome = Literal["kept", "late", "missed"]
"""Ready by its minute; after it; not at all before the window or hold was over."""


class MinuteMetrics(Protocol):
    """The part of the metrics that announced minutes feed."""

    def observe_ready_by(self, service: str, kind: str, outcome: Outcome, lateness_s: float) -> None:
        """A minute was met `lateness_s` after itself, below zero before; of a missed one, when it was given up."""


@dataclass
class _Open:
    """A minute that was asked for and not judged. `told`: that it is ready, or late, was said."""

    demand: Demand
    told: bool = False


class Lateness:
    """Follows the minutes that schedules and holds announce, from when they are asked for.

    A minute counts once in the life of its history. One that passed before anything was asked for it (a schedule that
    is added in the middle of its own window) is nobody's lateness. Ready is a service with as many ready replicas as
    the demand wants and bounds allow.
    """

    def __init__(self, history: History, metrics: MinuteMetrics, say: Callable[[ServiceId, str, str], None]) -> None:
        self._history = history
        self._metrics = metrics
        self._say = say
        self._open: dict[Minute, _Open] = {}
        self._over: set[Minute] = set()

    def note(self, now: datetime, world: World, decision: Decision) -> None:
        """Judge what can be judged now. Raises HistoryError; what was not kept then is judged by the next call."""
        asked = {
            Minute(service, demand.kind.value, demand.ready_by): demand
            for service, decided in decision.services.items()
            for demand in decided.demands
            if demand.ready_by is not None and demand.since <= now and _wanted(world, service, demand)
        }
        self._over &= asked.keys()
        for minute, demand in asked.items():
            if minute not in self._over and self._follow(now, minute, demand):
                self._look(now, world, minute)
        for minute in [minute for minute in self._open if minute not in asked]:
            self._give_up(now, world, minute)

    def clock_set(self) -> None:
        """The wall clock was set: how late what is under way is, nobody can say."""
        self._over |= self._open.keys()
        self._open.clear()

    def _follow(self, now: datetime, minute: Minute, demand: Demand) -> bool:
        """Whether the minute is ours to judge."""
        if minute in self._open:
            self._open[minute].demand = demand
            return True
        if self._history.announce(minute, new=now < minute.ready_by):
            self._open[minute] = _Open(demand)
            return True
        self._over.add(minute)
        return False

    def _look(self, now: datetime, world: World, minute: Minute) -> None:
        entry = self._open[minute]
        ready_at = _ready_at(world, minute.service, entry.demand)
        if ready_at is None:
            if now >= minute.ready_by and not entry.told:
                entry.told = True
                text = f"not ready by {minute.ready_by:%Y-%m-%d %H:%M:%S} UTC, the announced minute ({minute.kind})"
                self._say(minute.service, "late", text)
            return
        # What was warm before it was asked for was ready when it was asked for.
        lateness_s = (max(ready_at, entry.demand.since) - minute.ready_by).total_seconds()
        if now >= minute.ready_by:
            self._judge(minute, "kept" if lateness_s <= 0 else "late", lateness_s)
        if lateness_s > 0 or not entry.told:
            entry.told = True
            word = "after" if lateness_s > 0 else "before"
            self._say(minute.service, "ready-by", f"ready {abs(lateness_s):.1f} s {word} its minute ({minute.kind})")

    def _give_up(self, now: datetime, world: World, minute: Minute) -> None:
        """Nobody asks for it any more: its window or hold is over, or was taken back."""
        demand = self._open[minute].demand
        if now <= minute.ready_by or minute.service not in world.services:
            self._history.withdraw(minute)
            del self._open[minute]
            return
        lateness_s = (min(now, demand.until or now) - minute.ready_by).total_seconds()
        self._judge(minute, "missed", lateness_s)
        self._say(
            minute.service,
            "ready-by",
            f"never ready for its minute, given up {lateness_s:.1f} s after it ({minute.kind})",
        )

    def _judge(self, minute: Minute, outcome: Outcome, lateness_s: float) -> None:
        self._history.judge(minute, outcome, lateness_s)
        self._metrics.observe_ready_by(str(minute.service), minute.kind, outcome, lateness_s)
        self._open.pop(minute)
        self._over.add(minute)


def _wanted(world: World, service: ServiceId, demand: Demand) -> int:
    """Replicas that the demand wants and bounds allow: with bounds.max 0 none, and then there is nothing to judge."""
    return min(demand.replicas, world.services[service].policy.bounds.max)


def _ready_at(world: World, service: ServiceId, demand: Demand) -> datetime | None:
    """Since when as many replicas are ready as are wanted; None: they are not."""
    wanted = _wanted(world, service, demand)
    ready = sorted(
        replica.ready_at or replica.since
        for replica in world.replicas(service)
        if replica.warmth in (Warmth.WARM, Warmth.BUSY)
    )
    return ready[wanted - 1] if wanted <= len(ready) else None
