"""What progress deadline a service's own starts advise: one that cuts none of them, and still ends one that hangs."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from runtime.contract import Mark, StartRecord

QUANTILE = 0.99
FACTOR = 1.5
"""Room over the slowest start but one in a hundred: a registry or a disk on a bad day."""
FEW = 20
"""Under so many starts the slowest one stands for the P99, with twice the room."""
LEAST_S = 120.0
GRACE_S = 30.0
"""Knative takes a pod away this much after its deadline."""


@dataclass(frozen=True, slots=True)
class Advice:
    """`deadline_s`: for `serving.knative.dev/progress-deadline`, whole minutes; `p99_s` and `samples` it rests on.

    `cuts`: the share of the samples that the present deadline, `present_s`, would have ended before they were ready.
    """

    deadline_s: int
    p99_s: float
    samples: int
    present_s: float
    cuts: float

    @property
    def too_short(self) -> bool:
        """Whether the present deadline would end a start that only needs its time."""
        return self.present_s < self.p99_s


def advise(records: Iterable[StartRecord], present_s: float) -> Advice | None:
    """The advice from every start that became ready in its pod's first run; None: there is none yet.

    Counted from the pod's creation, as Knative does, not from when a replica was asked for: 21 starts of 240 s and one
    of 400 s: P99 is the slowest, 400 s; × 1.5 is 600 s, so ten minutes.
    """
    took = sorted(_progress_s(each) for each in records if _counts(each))
    if not took:
        return None
    p99_s = took[ceil(QUANTILE * (len(took) - 1) - 1e-9)]
    room = FACTOR if len(took) >= FEW else 2 * FACTOR
    deadline_s = 60 * ceil(max(p99_s * room, LEAST_S) / 60)
    cuts = sum(each > present_s + GRACE_S for each in took) / len(took)
    return Advice(deadline_s, round(p99_s, 1), len(took), present_s, round(cuts, 4))


def _counts(record: StartRecord) -> bool:
    pod = record.pod
    return pod is not None and pod.restart == 0 and pod.teaches and record.outcome == "ready"


def _progress_s(record: StartRecord) -> float:
    """Creation → Kubernetes' Ready, which is what the deadline waits for; where that is not known, the first answer."""
    pod = record.pod
    assert pod is not None  # noqa: S101  (`_counts` asked)
    return max(((pod.ready_at or record.marks[Mark.T9]) - pod.created_at).total_seconds(), 0.0)
