"""The one decision: what is observed, remembered and configured becomes the floors, why, and when to ask again.

Controller, local mode, replay and tests all call `decide`. It is pure: same input, same output.
"""

from collections.abc import Iterable
from datetime import datetime

from activator_ext.core import warmth
from activator_ext.core.demand import (
    LOOK_AHEAD,
    Planned,
    hold_plans,
    live_replicas,
    needs,
    queue_demands,
    schedule_plans,
    warming_replicas,
)
from activator_ext.core.leadtime import LeadTimes
from activator_ext.core.model import (
    Asked,
    Config,
    Decision,
    Demand,
    Hold,
    Observation,
    Policy,
    ServiceDecision,
    ServiceId,
    ServiceObservation,
    ServiceState,
    SetFloor,
    State,
    Warmth,
)


def decide(now: datetime, observation: Observation, state: State, config: Config) -> Decision:
    """The floor of every configured service.

    `SetFloor` is emitted where the floor's number changed, and for each service that `state` does not know. Services
    gone from `config` leave the state: whoever carries out actions removes what is not ordered any more. Until
    `next_at`, with nothing else happening, every floor stays as it is (None: forever).
    """
    holds: dict[ServiceId, list[Hold]] = {}
    for hold in observation.holds:
        holds.setdefault(hold.service, []).append(hold)
    actions = []
    states: dict[ServiceId, ServiceState] = {}
    decisions: dict[ServiceId, ServiceDecision] = {}
    changes: list[datetime] = []
    for service in sorted(config.services):
        seen = observation.services.get(service, ServiceObservation())
        before = state.services.get(service)
        after, decided, change = _decide_one(now, seen, before, config.services[service], tuple(holds.get(service, ())))
        states[service], decisions[service] = after, decided
        changes += change
        if before is None or before.floor.replicas != after.floor.replicas:
            actions.append(SetFloor(service, after.floor.replicas, after.floor.until, after.floor.reason))
    return Decision(tuple(actions), State(states), decisions, min(changes, default=None))


def _decide_one(
    now: datetime, seen: ServiceObservation, before: ServiceState | None, policy: Policy, holds: tuple[Hold, ...]
) -> tuple[ServiceState, ServiceDecision, list[datetime]]:
    """One service: what to remember, what is decided, and the instants ahead at which that may change."""
    leads = LeadTimes(seen.lead_samples, policy.prior_lead_s)

    def lead_s_of(replicas: int) -> float:
        # More than bounds.max are never started, so they are not waited for either.
        return leads.plan_s(seen.next_kind, replicas=max(1, min(replicas, policy.bounds.max)))

    asked = before.asked if before else ()
    plans = [*schedule_plans(now, policy, lead_s_of, asked), *hold_plans(now, holds, lead_s_of, asked)]
    known = needs(now, seen, policy, before)
    demands = [*queue_demands(now, seen.queue, policy, known), *(plan.demand for plan in plans)]
    # At a first look, what lives stands for the floor that is not known: a start under way is not stopped.
    # The lease keeps what lives: of two starts one may have failed, and is not tried again for it.
    live = live_replicas(seen)
    previous = min(before.floor.replicas, live) if before else live
    floor = warmth.floor(now, demands, policy.bounds, previous, warming_replicas(seen))
    after = ServiceState(floor, known.last_needed, known.awaited, _asked(now, plans))
    # What is warm already need not be waited for; a window not asked for yet comes on top.
    known_warm = warmth.best_warmth(seen.replicas) in (Warmth.WARM, Warmth.BUSY)
    ahead = (plan.ready_by for plan in plans if plan.ready_by > now and (plan.demand.since > now or not known_warm))
    next_warm_at = min(ahead, default=None)
    decided = ServiceDecision(floor, warmth.strongest_first(demands, now), next_warm_at, lead_s_of(1))
    changes = [*_instants(demands), *(plan.ready_by for plan in plans)]
    if policy.schedules:
        changes.append(now + LOOK_AHEAD)
    return after, decided, [instant for instant in changes if instant > now]


def _asked(now: datetime, plans: Iterable[Planned]) -> tuple[Asked, ...]:
    """What is asked for ahead of its time, to be remembered until then."""
    return tuple(
        Asked(plan.demand.kind, plan.name, plan.ready_by, plan.demand.since)
        for plan in plans
        if plan.demand.since <= now < plan.ready_by
    )


def _instants(demands: Iterable[Demand]) -> Iterable[datetime]:
    for demand in demands:
        yield demand.since
        if demand.until is not None:
            yield demand.until
