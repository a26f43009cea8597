"""What is known of one service, as the status of policies and holds shows it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from activator_ext.core.leadtime import LeadTime, LeadTimes
from activator_ext.core.model import Floor, Policy, ServiceDecision, ServiceObservation, Warmth
from activator_ext.core.warmth import best_warmth
from runtime.contract import Failure, StartRecord


@dataclass(frozen=True)
class Report:
    """One service now. `last_start`: the newest that has ended; `last_failure`: it outlives its replica."""

    warmth: Warmth
    ready_replicas: int
    floor: Floor
    next_warm_at: datetime | None
    lead_s: float
    lead_times: tuple[LeadTime, ...] = ()
    last_start: StartRecord | None = None
    last_failure: Failure | None = None

    @classmethod
    def of(
        cls,
        decided: ServiceDecision,
        seen: ServiceObservation,
        policy: Policy,
        starts: Sequence[StartRecord] = (),
        last_failure: Failure | None = None,
    ) -> "Report":
        """From a decision and what it was made of; `starts` oldest first."""
        ended = [start for start in starts if start.outcome is not None]
        return cls(
            warmth=best_warmth(seen.replicas),
            ready_replicas=sum(replica.warmth in (Warmth.WARM, Warmth.BUSY) for replica in seen.replicas),
            floor=decided.floor,
            next_warm_at=decided.next_warm_at,
            lead_s=decided.lead_s,
            lead_times=LeadTimes(seen.lead_samples, policy.prior_lead_s).explain(),
            last_start=ended[-1] if ended else None,
            last_failure=last_failure,
        )
