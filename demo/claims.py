"""What the demo claims, and how each claim is judged from what was measured. Pure: no clock, no I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from demo.watch import Sample

# An answer that did not wait for a start: forwarding plus a dozen tokens of a tiny model.
IMMEDIATE_S = 5.0
# Idle time before its minute that a start may cost. The quantile planned with is larger than the start on purpose.
NEEDLESSLY_EARLY_S = 60.0
# From the moment to ask to the host taking the order: one tick of the loop and one call.
ASKED_LATE_S = 5.0
# Looks at the process table that must have seen nothing, two a second.
LEAST_LOOKS = 10


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence, what was measured for it, and whether it holds."""

    text: str
    measured: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Prewarm:
    """One announced warmth as it went.

    `source`: what announced it (`schedule` or `hold`). `asked_at` is T0 of the start, `ready_at` its T9. `lead_s`: the
    lead time it was planned with. `samples`: looks at the process table since `announced_at`. `why`: the start's own
    reason. `answer_s`: seconds that a request took after it was ready.
    """

    source: str
    announced_at: datetime
    ready_by: datetime
    asked_at: datetime
    ready_at: datetime
    lead_s: float
    why: str
    answer_s: float
    samples: Sequence[Sample]

    @property
    def idle_s(self) -> float:
        """Seconds between ready and the minute it was wanted for; negative: late."""
        return (self.ready_by - self.ready_at).total_seconds()

    @property
    def took_s(self) -> float:
        """Seconds from asked for to ready."""
        return (self.ready_at - self.asked_at).total_seconds()


def engines_seen(samples: Sequence[Sample], begin: datetime, end: datetime) -> tuple[int, int]:
    """How many looks fell between two instants, and the most engine processes that one of them saw."""
    seen = [sample.engine_processes for sample in samples if begin <= sample.at < end]
    return len(seen), max(seen, default=0)


def nothing_runs(text: str, samples: Sequence[Sample], begin: datetime, end: datetime) -> Claim:
    """No look between two instants saw an engine process, and there were enough looks to say so."""
    looks, most = engines_seen(samples, begin, end)
    return Claim(text, f"{most} engine processes in {looks} looks", looks >= LEAST_LOOKS and most == 0)


def immediate(text: str, seconds: float) -> Claim:
    """An answer that waited for no start."""
    return Claim(text, f"{seconds:.2f} s", seconds <= IMMEDIATE_S)


def prewarm_claims(run: Prewarm) -> list[Claim]:
    """Ready at its minute, before any request, not needlessly early, with nothing running before it was asked for."""
    planned_s = (run.ready_by - run.asked_at).total_seconds()
    return [
        nothing_runs(f"{run.source}: no engine before it is due", run.samples, run.announced_at, run.asked_at),
        Claim(
            f"{run.source}: asked for its lead time ahead, no sooner",
            f"{planned_s:.1f} s ahead, lead time {run.lead_s:.1f} s",
            abs(planned_s - run.lead_s) <= ASKED_LATE_S,
        ),
        Claim(f"{run.source}: started by it, not by a request", run.why.split(":")[0], run.why.startswith(run.source)),
        Claim(
            f"{run.source}: ready by {run.ready_by:%H:%M:%S}",
            f"ready at {run.ready_at:%H:%M:%S} after {run.took_s:.1f} s",
            run.idle_s >= 0,
        ),
        Claim(
            f"{run.source}: not needlessly early",
            f"{run.idle_s:.1f} s idle before its time" if run.idle_s >= 0 else "not early",
            run.idle_s <= NEEDLESSLY_EARLY_S,
        ),
        immediate(f"{run.source}: the first request is answered at once", run.answer_s),
    ]
