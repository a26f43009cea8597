"""What a host must start and stop to come to its order: a pure decision over what it has.

Ordinals name a replica's private directory (compile cache, log), so one is free only when its process is gone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Phase(StrEnum):
    """Where one replica is in its life."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True)
class Held:
    """One replica that exists: its ordinal, the digest of the spec it was started from, its phase."""

    ordinal: int
    digest: str
    phase: Phase


@dataclass(frozen=True, slots=True)
class Start:
    """Start a replica in this ordinal from the current spec."""

    ordinal: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Drain and stop this replica (a start under way is cancelled)."""

    ordinal: int


Step = Start | Stop


def plan(
    *,
    wanted: int,
    digest: str,
    replicas: Sequence[Held],
    now: datetime,
    retry_at: datetime | None,
    asked_again: bool = True,
) -> tuple[Step, ...]:
    """The steps from `replicas` to `wanted` replicas of the spec `digest`.

    - Missing ones start in the lowest free ordinals, unless a back-off runs until `retry_at`, or something failed and
      nobody has asked again since (`asked_again`): what wanted it may be gone.
    - Of too many, starts under way go first (what is ready is worth more), then the highest ordinal.
    - A replica of an older spec serves on until one of the new spec is ready in its place, and no more of them than are
      missing; an older start under way is cancelled, as its result is no longer wanted.
    """
    current = [r for r in replicas if r.digest == digest and r.phase is not Phase.DRAINING]
    stale = [r for r in replicas if r.digest != digest and r.phase is not Phase.DRAINING]
    steps: list[Step] = []

    surplus = len(current) - wanted
    if surplus > 0:
        by_worth = sorted(current, key=lambda r: (r.phase is Phase.READY, -r.ordinal))
        steps += [Stop(r.ordinal) for r in by_worth[:surplus]]

    ready = sum(r.phase is Phase.READY for r in current)
    older = sorted(r.ordinal for r in stale if r.phase is Phase.READY)
    steps += [Stop(r.ordinal) for r in stale if r.phase is Phase.STARTING]
    steps += [Stop(ordinal) for ordinal in older[max(wanted - ready, 0) :]]

    if surplus < 0 and asked_again and (retry_at is None or now >= retry_at):
        taken = {r.ordinal for r in replicas}
        free = (n for n in range(len(replicas) - surplus) if n not in taken)
        steps += [Start(next(free)) for _ in range(-surplus)]
    return tuple(steps)
