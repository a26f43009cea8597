"""The decision as a whole, stepped through time."""

from dataclasses import replace
from datetime import timedelta
from time import process_time

import pytest

from activator_ext.core.decide import decide
from activator_ext.core.model import (
    Bounds,
    Config,
    Decision,
    LeadSample,
    Observation,
    Policy,
    QueueView,
    ReasonCode,
    Schedule,
    ServiceId,
    ServiceObservation,
    SetFloor,
    StartKind,
    State,
    Warmth,
)

from .build import CHAT, NOW, at, config, hold, office, queue, replica, seen, utc

B = 600.0
POLICY = Policy(Bounds(0, 3), cold_start_cost_s=B, prior_lead_s=60)
IDLE = ServiceObservation((), queue())


def step(
    seconds: float, given: ServiceObservation, before: Decision | None = None, policy: Policy = POLICY
) -> Decision:
    return decide(at(seconds), seen(given), before.state if before else State(), config(policy))


def told(decision: Decision) -> tuple[int, ReasonCode]:
    floor = decision.services[CHAT].floor
    return floor.replicas, floor.reason.code


def starting(waiting: int, asked: float, replicas: int = 1) -> ServiceObservation:
    return ServiceObservation((replica(Warmth.WARMING),) * replicas, queue(waiting, seen=asked))


def idle(ready: float, activity: float | None) -> ServiceObservation:
    return ServiceObservation((replica(Warmth.WARM, at(ready)),), queue(activity=activity))


def test_a_new_service_is_told_its_floor_even_of_nothing() -> None:
    decision = step(0, IDLE)
    assert [(action.service, action.replicas) for action in decision.actions] == [(CHAT, 0)]
    assert decision.next_at is None
    assert step(1, IDLE, decision).actions == ()


def test_a_request_raises_the_floor_once() -> None:
    first = step(0, IDLE)
    asked = step(1, ServiceObservation((), queue(1, seen=1)), first)
    floor = asked.services[CHAT].floor
    assert asked.actions == (SetFloor(CHAT, 1, None, floor.reason),)
    assert floor.reason.text == "1 waiting, 0 running"
    assert step(2, starting(2, asked=2), asked).actions == ()


def test_an_idle_replica_is_let_go_after_exactly_b() -> None:
    busy = step(0, ServiceObservation((replica(Warmth.BUSY),), queue(0, 1)))
    last = step(30, idle(-3600, activity=30), busy)
    assert told(last) == (1, ReasonCode.IDLE_KEEP)
    assert last.next_at == at(30 + B)
    kept = step(30 + B - 0.001, idle(-3600, activity=30), last)
    assert (told(kept), kept.actions) == ((1, ReasonCode.IDLE_KEEP), ())
    let_go = step(30 + B, idle(-3600, activity=30), kept)
    assert told(let_go) == (0, ReasonCode.NO_DEMAND)
    assert [action.replicas for action in let_go.actions] == [0]


def test_the_second_replica_is_let_go_before_the_first() -> None:
    two = (replica(Warmth.BUSY), replica(Warmth.BUSY))
    both = step(0, ServiceObservation(two, queue(0, 9)))
    one = step(100, ServiceObservation(two, queue(0, 1, seen=100)), both)
    assert told(one) == (2, ReasonCode.IDLE_KEEP)
    assert one.next_at == at(B)
    alone = step(B, ServiceObservation(two, queue(0, 1, seen=B)), one)
    assert told(alone) == (1, ReasonCode.REQUESTS)


def test_idle_seconds_begin_when_an_awaited_replica_is_ready() -> None:
    asked = step(0, starting(1, asked=0))
    left = step(60, starting(0, asked=60), asked)
    late = step(2 * B, starting(0, asked=60), left)
    assert told(late) == (1, ReasonCode.LOADING_LEASE)
    ready = step(2 * B + 1, idle(2 * B + 1, activity=60), late)
    assert told(ready) == (1, ReasonCode.IDLE_KEEP)
    assert ready.next_at == at(3 * B + 1)
    assert told(step(3 * B + 1, idle(2 * B + 1, activity=60), ready)) == (0, ReasonCode.NO_DEMAND)


def test_restarts_of_an_idle_replica_do_not_keep_it() -> None:
    needed = step(0, ServiceObservation((replica(),), queue(0, 1)))
    restarted = step(B - 1, idle(B - 1, activity=0), needed)
    assert told(restarted) == (1, ReasonCode.IDLE_KEEP)
    assert told(step(B, idle(B - 1, activity=0), restarted)) == (0, ReasonCode.NO_DEMAND)


def test_a_start_that_failed_is_tried_again_only_for_who_still_wants_it() -> None:
    asked = step(0, ServiceObservation((), queue(1)))
    gone = step(40, starting(0, asked=40), step(1, starting(1, asked=1), asked))
    assert told(gone) == (1, ReasonCode.IDLE_KEEP)
    waits = step(50, ServiceObservation((), queue(1, seen=50)), gone)
    assert told(waits) == (1, ReasonCode.REQUESTS)
    assert told(step(50, IDLE, gone)) == (0, ReasonCode.NO_DEMAND)
    held = decide(at(50), seen(IDLE, hold()), gone.state, config(POLICY))
    assert told(held) == (1, ReasonCode.HOLD_ACTIVE)


def test_what_no_request_needed_is_not_kept_after_its_hold() -> None:
    held = decide(NOW, seen(idle(-30, None), hold(until=60)), State(), config(POLICY))
    assert told(held) == (1, ReasonCode.HOLD_ACTIVE)
    assert held.next_at == at(60)
    over = decide(at(60), seen(idle(-30, None), hold(until=60)), held.state, config(POLICY))
    assert told(over) == (0, ReasonCode.NO_DEMAND)


def test_a_request_within_the_hold_keeps_it_for_b() -> None:
    held = decide(NOW, seen(idle(-30, activity=-5), hold(until=60)), State(), config(POLICY))
    over = decide(at(60), seen(idle(-30, activity=-5), hold(until=60)), held.state, config(POLICY))
    assert (told(over), over.next_at) == ((1, ReasonCode.IDLE_KEEP), at(B - 5))


def test_a_queue_that_cannot_be_seen_keeps_the_floor_until_it_expires() -> None:
    busy = step(0, ServiceObservation((replica(Warmth.BUSY),), queue(0, 1)))
    blind = step(10, ServiceObservation((replica(Warmth.BUSY),), None), busy)
    assert (told(blind), blind.next_at) == ((1, ReasonCode.QUEUE_UNKNOWN), at(B))
    assert told(step(B, ServiceObservation((replica(Warmth.BUSY),), None), blind)) == (0, ReasonCode.NO_DEMAND)


def test_a_service_that_nobody_observes_is_unknown_not_empty() -> None:
    busy = step(0, ServiceObservation((replica(Warmth.BUSY),), queue(0, 1)))
    blind = decide(at(10), Observation({}), busy.state, config(POLICY))
    assert told(blind) == (1, ReasonCode.QUEUE_UNKNOWN)


@pytest.mark.parametrize(
    ("given", "expect"),
    [
        pytest.param(idle(-30, None), (0, ReasonCode.NO_DEMAND), id="idle, seen empty"),
        pytest.param(ServiceObservation((replica(),), None), (1, ReasonCode.QUEUE_UNKNOWN), id="unseen"),
        pytest.param(
            ServiceObservation((replica(Warmth.WARMING),), queue()), (1, ReasonCode.LOADING_LEASE), id="starting"
        ),
        pytest.param(ServiceObservation((replica(Warmth.FAILED),), None), (0, ReasonCode.NO_DEMAND), id="failed"),
    ],
)
def test_a_first_look_at_what_lives_already(given: ServiceObservation, expect: tuple[int, ReasonCode]) -> None:
    assert told(step(0, given)) == expect


OFFICE = replace(POLICY, schedules=(office(replicas=2),))


def test_a_schedule_through_its_day() -> None:
    def look(now: str, warmths: tuple[Warmth, ...], before: Decision | None) -> Decision:
        given = ServiceObservation(
            tuple(replica(warmth, ordinal=i) for i, warmth in enumerate(warmths)), QueueView(utc(now))
        )
        return decide(utc(now), seen(given), before.state if before else State(), config(OFFICE))

    night = look("2026-03-02 06:00", (), None)
    assert told(night) == (0, ReasonCode.NO_DEMAND)
    assert night.next_at == utc("2026-03-02 08:59")
    assert night.services[CHAT].next_warm_at == utc("2026-03-02 09:00")
    assert [demand.replicas for demand in night.services[CHAT].demands] == [2]
    asked = look("2026-03-02 08:59", (), night)
    assert (told(asked), asked.next_at) == ((2, ReasonCode.SCHEDULE_READY_BY), utc("2026-03-02 09:00"))
    assert asked.services[CHAT].next_warm_at == utc("2026-03-02 09:00")
    early = look("2026-03-02 08:59:40", (Warmth.WARM, Warmth.WARM), asked)
    assert early.services[CHAT].next_warm_at == utc("2026-03-03 09:00")
    warm = look("2026-03-02 09:00", (Warmth.WARM, Warmth.WARM), asked)
    assert (told(warm), warm.next_at) == ((2, ReasonCode.SCHEDULE_WINDOW), utc("2026-03-02 18:00"))
    assert warm.services[CHAT].floor.until == utc("2026-03-02 18:00")
    assert warm.services[CHAT].next_warm_at == utc("2026-03-03 09:00")
    assert (asked.actions[0].replicas, warm.actions) == (2, ())
    over = look("2026-03-02 18:00", (Warmth.WARM, Warmth.WARM), warm)
    assert told(over) == (0, ReasonCode.NO_DEMAND)


def test_a_lead_time_that_shrinks_does_not_take_the_request_back() -> None:
    slow, fast = (
        ServiceObservation((), queue(), StartKind.WAKE_L1, (LeadSample(StartKind.WAKE_L1, lead_s, at(-60)),))
        for lead_s in (600, 2)
    )
    ahead = replace(POLICY, prior_lead_s=600, schedules=(office("5 10 * * 1-5"),))
    asked = step(0, slow, policy=ahead)
    assert told(asked) == (1, ReasonCode.SCHEDULE_READY_BY)
    much_faster = replace(ahead, prior_lead_s=2)
    still = step(1, fast, asked, policy=much_faster)
    assert (told(still), still.actions) == ((1, ReasonCode.SCHEDULE_READY_BY), ())
    assert told(step(1, fast, policy=much_faster)) == (0, ReasonCode.NO_DEMAND)
    assert step(300, fast, still, policy=much_faster).state.services[CHAT].asked == ()


def test_a_schedule_out_of_sight_is_looked_for_again() -> None:
    yearly = replace(POLICY, schedules=(office("0 9 1 9 *"),))
    decision = step(0, IDLE, policy=yearly)
    assert decision.next_at == NOW + timedelta(days=8)
    assert decision.services[CHAT].next_warm_at is None


def test_more_than_bounds_max_are_not_waited_for() -> None:
    samples = tuple(LeadSample(StartKind.COLD_NODE, float(lead_s), at(-lead_s)) for lead_s in range(1, 42))
    given = replace(IDLE, lead_samples=samples)
    greedy = replace(POLICY, bounds=Bounds(0, 1), schedules=(office(replicas=50),))
    (demand,) = step(-7200, given, policy=greedy).services[CHAT].demands
    # P95 of the 41 is 39 s, their slowest 41 s: with w = 1/42, 39.5 s for one and 41.5 s for fifty.
    assert demand.since == utc("2026-03-02 09:00") - timedelta(seconds=(60 + 41 * 39) / 42)


def test_only_the_own_holds_count_and_only_configured_services_are_decided() -> None:
    other, gone = ServiceId("team-a", "other"), ServiceId("team-b", "gone")
    before = decide(NOW, Observation({gone: IDLE}), State(), Config({gone: POLICY}))
    both = Config({other: POLICY, CHAT: POLICY})
    held = Observation({CHAT: IDLE, other: IDLE, gone: IDLE}, (hold(2), replace(hold(3), service=gone)))
    decision = decide(NOW, held, before.state, both)
    assert [(action.service, action.replicas) for action in decision.actions] == [(CHAT, 2), (other, 0)]
    assert set(decision.state.services) == {CHAT, other}


def test_bounds_hold_over_demand_and_lease() -> None:
    asked = step(0, starting(99, asked=0))
    assert told(asked) == (3, ReasonCode.BOUNDS_MAX)
    narrowed = step(1, starting(0, asked=0, replicas=3), asked, policy=replace(POLICY, bounds=Bounds(1, 1)))
    assert told(narrowed) == (1, ReasonCode.BOUNDS_MAX)
    raised = step(0, IDLE, policy=replace(POLICY, bounds=Bounds(2, 3)))
    assert told(raised) == (2, ReasonCode.BOUNDS_MIN)


def test_a_thousand_services_are_decided_within_a_second() -> None:
    zones = ("Europe/Madrid", "America/New_York", "Asia/Kolkata", "UTC")
    samples = tuple(LeadSample(StartKind.CACHED_NODE, 40 + i % 7, at(-3600 * i)) for i in range(60))
    services = [ServiceId("team-a", f"s{i}") for i in range(1000)]
    observation = Observation({service: replace(IDLE, lead_samples=samples) for service in services})
    policies = {
        service: Policy(
            schedules=(Schedule("s", zones[i % 4], f"{i % 60} 18 * * 1-5", ready_by=f"{i % 60} 9 * * 1-5"),)
        )
        for i, service in enumerate(services)
    }
    begun = process_time()
    decision = decide(NOW, observation, State(), Config(policies))
    assert process_time() - begun < 1
    assert len(decision.actions) == 1000


def test_without_services_there_is_nothing_to_come_back_for() -> None:
    assert decide(NOW, Observation({}), State(), Config({})).next_at is None
