"""Short ways to write the values that the tests of the core are made of."""

from datetime import UTC, datetime, timedelta

from activator_ext.core.model import (
    Config,
    Hold,
    Observation,
    Policy,
    QueueView,
    ReplicaView,
    Schedule,
    ServiceId,
    ServiceObservation,
    Warmth,
)

CHAT = ServiceId("team-a", "chat")
NOW = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)  # a Monday


def utc(text: str) -> datetime:
    """`2026-03-29 01:00` as an instant in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def at(seconds: float) -> datetime:
    """So many seconds after NOW."""
    return NOW + timedelta(seconds=seconds)


def office(
    ready_by: str = "0 9 * * 1-5", until: str = "0 18 * * 1-5", zone: str = "UTC", replicas: int = 1
) -> Schedule:
    return Schedule("office", zone, until, ready_by=ready_by, replicas=replicas)


def replica(warmth: Warmth = Warmth.WARM, ready_at: datetime | None = None, ordinal: int = 0) -> ReplicaView:
    if ready_at is None and warmth in (Warmth.WARM, Warmth.BUSY):
        ready_at = at(-3600)
    return ReplicaView(f"{CHAT}/{ordinal}", warmth, at(-3600), ready_at)


def queue(waiting: int = 0, running: int = 0, seen: float = 0, activity: float | None = None) -> QueueView:
    return QueueView(at(seen), waiting, running, None if activity is None else at(activity))


def hold(replicas: int = 1, until: float = 3600, ready_by: float | None = None, name: str = "h1") -> Hold:
    return Hold(name, CHAT, replicas, at(-60), at(until), None if ready_by is None else at(ready_by))


def seen(service: ServiceObservation, *holds: Hold) -> Observation:
    return Observation({CHAT: service}, holds)


def config(policy: Policy) -> Config:
    return Config({CHAT: policy})
