"""One publisher for each fingerprint: who compiles and publishes, who waits for it, who starts without. Pure.

A start that finds no bundle asks `decide` with the lock's record as it last read it. What is decided is data; the
effects (reading and writing the record on a condition, waiting) belong to `turn`. A record is only ever replaced by
one that was decided from it, so of several who decide the same only one gets through.

Clocks: a record's instants are its writer's. As long as any two hosts' clocks differ by less than `skew_s`, there are
never two holders: a holder stops being one at `expires_at` by its own clock, another takes over `skew_s` later by its
own. What a third party sees of two holders with worse clocks is two publications of bundles that both passed their
golden prompt: wasted work, nothing wrong.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class LockRecord:
    """Who publishes, as the lock says it.

    `holder`: None once it gave the lock up. `token` ≥ 1: grows by one with each taking over, never falls; it goes into
    the bundle's metadata. `renewed_at`: the last heartbeat, aware UTC, by the holder's clock. `ttl_s` > 0: it counts
    as dead so long after that. `begun_at`: when this holder took its turn, by its own clock; None where nobody says.
    """

    holder: str | None
    token: int
    renewed_at: datetime
    ttl_s: float
    begun_at: datetime | None = field(default=None, compare=False)  # told to who waits; no part of who holds

    def __post_init__(self) -> None:
        if self.holder == "" or self.token < 1 or not 0 < self.ttl_s < float("inf"):
            raise ValueError(f"no lock record: {self}")
        if self.renewed_at.utcoffset() is None:
            raise ValueError("a heartbeat must be an aware instant")
        if self.begun_at is not None and self.begun_at.utcoffset() is None:
            raise ValueError("the begin of a turn must be an aware instant")

    @property
    def expires_at(self) -> datetime:
        """The holder stops believing that it holds at this instant, unless it renews before."""
        return self.renewed_at + timedelta(seconds=self.ttl_s)


@dataclass(frozen=True, slots=True)
class Terms:
    """How this host plays: its heartbeat's life, and how far apart clocks may be.

    The defaults: renewed every ttl/3 = 20 s, so two lost heartbeats are survived; 5 s is far more than NTP leaves.
    """

    ttl_s: float = 60.0
    skew_s: float = 5.0

    def __post_init__(self) -> None:
        if self.ttl_s <= 0 or self.skew_s < 0:
            raise ValueError(f"a heartbeat's life must be > 0 s and the skew ≥ 0 s: {self}")

    @property
    def renew_every_s(self) -> float:
        """How often a holder writes."""
        return self.ttl_s / 3


@dataclass(frozen=True, slots=True)
class Hold:
    """It is ours: compile, prove, publish; write `record` by `renew_at`."""

    record: LockRecord
    renew_at: datetime


@dataclass(frozen=True, slots=True)
class Follow:
    """Another publishes: look again at `until` (or when something is published)."""

    until: datetime
    holder: str


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Nobody publishes: write `record` over what was read. If that fails, another was quicker: read, decide again."""

    record: LockRecord


@dataclass(frozen=True, slots=True)
class GoWithout:
    """Another publishes, and there is no more time to wait: start without a bundle, publish nothing."""

    holder: str


Decision = Hold | Follow | TakeOver | GoWithout


def decide(now: datetime, record: LockRecord | None, me: str, wait_until: datetime, terms: Terms) -> Decision:
    """What `me` does now. `record`: the lock as last read (None: there is none). `wait_until`: the wait's budget."""
    if record is None:
        return TakeOver(LockRecord(me, 1, now, terms.ttl_s, now))
    if record.holder == me and now < record.expires_at:
        renewed = replace(record, renewed_at=max(now, record.renewed_at), ttl_s=terms.ttl_s)
        return Hold(renewed, record.renewed_at + timedelta(seconds=min(terms.renew_every_s, record.ttl_s / 3)))
    # What we let expire ourselves is as free as what was given up: nobody else ever believed to hold it.
    free_at = now if record.holder in (None, me) else record.expires_at + timedelta(seconds=terms.skew_s)
    if now >= free_at:
        return TakeOver(LockRecord(me, record.token + 1, now, terms.ttl_s, now))
    holder = str(record.holder)
    if now >= wait_until:
        return GoWithout(holder)
    return Follow(min(free_at, wait_until), holder)


def released(record: LockRecord, now: datetime) -> LockRecord:
    """The record with which a holder gives the lock up. The token stays, so that the next one is greater."""
    return replace(record, holder=None, renewed_at=now)
