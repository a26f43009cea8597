"""What holds for every decision, whatever is observed."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from activator_ext.core.decide import decide
from activator_ext.core.demand import live_replicas, warming_replicas
from activator_ext.core.model import (
    Bounds,
    Decision,
    Hold,
    LeadSample,
    Observation,
    Policy,
    QueuePolicy,
    QueueView,
    ReplicaView,
    Schedule,
    ServiceObservation,
    StartKind,
    State,
    Warmth,
)

from .build import CHAT, NOW, at, config, seen

instants = st.integers(-4000, 4000).map(at)
past = st.integers(-4000, 0).map(at)
replicas = st.builds(
    lambda warmth, since, ready_at: ReplicaView(
        "r", warmth, since, ready_at if warmth in (Warmth.WARM, Warmth.BUSY) else None
    ),
    st.sampled_from([Warmth.WARM, Warmth.WARMING, Warmth.BUSY, Warmth.FAILED, Warmth.UNKNOWN]),
    past,
    past,
)
queues = st.builds(QueueView, past, st.integers(0, 12), st.integers(0, 12), st.none() | past)
samples = st.builds(LeadSample, st.sampled_from(StartKind), st.integers(0, 900).map(float), past)
observed = st.builds(
    ServiceObservation,
    st.lists(replicas, max_size=4).map(tuple),
    st.none() | queues,
    st.sampled_from(StartKind),
    st.lists(samples, max_size=5).map(tuple),
)
schedules = st.builds(
    Schedule,
    name=st.sampled_from(["one", "other"]),
    time_zone=st.sampled_from(["UTC", "Europe/Madrid", "Australia/Lord_Howe"]),
    until=st.sampled_from(["*/7 * * * *", "30 * * * *", "0 12 * * *"]),
    ready_by=st.sampled_from(["*/5 * * * *", "15 * * * *", "0 9 * * 1-5", "0 9 1 9 *"]),
    replicas=st.integers(1, 4),
) | st.builds(
    Schedule,
    name=st.just("begun"),
    time_zone=st.just("UTC"),
    until=st.just("45 * * * *"),
    start=st.sampled_from(["20 * * * *", "0 */3 * * *"]),
    replicas=st.integers(1, 4),
)
policies = st.builds(
    Policy,
    bounds=st.builds(lambda low, more: Bounds(low, low + more), st.integers(0, 2), st.integers(0, 4)),
    schedules=st.lists(schedules, max_size=2).map(tuple),
    queue=st.builds(QueuePolicy, st.integers(1, 6)),
    cold_start_cost_s=st.sampled_from([0.0, 1.0, 90.0, 600.0, 3600.0]),
    prior_lead_s=st.sampled_from([0.0, 60.0, 700.0]),
)
holds = st.builds(
    lambda name, count, created, ready, length: Hold(
        name, CHAT, count, created, (ready or created) + timedelta(seconds=length), ready
    ),
    st.sampled_from(["h1", "h2"]),
    st.integers(1, 4),
    past,
    st.none() | instants,
    st.integers(1, 4000),
)
worlds = st.builds(lambda service, some: seen(service, *some), observed, st.lists(holds, max_size=2))


@st.composite
def histories(draw: st.DrawFn) -> State:
    """A state that decisions led to, or none."""
    state = State()
    for ago in sorted(draw(st.lists(st.integers(0, 4000), max_size=3)), reverse=True):
        state = decide(at(-ago), draw(worlds), state, config(draw(policies))).state
    return state


def number(decision: Decision) -> int:
    return decision.services[CHAT].floor.replicas


def property_of(examples: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return lambda test: settings(max_examples=examples, deadline=None)(given(worlds, histories(), policies)(test))


@property_of(150)
def test_bounds_always_hold_and_the_same_input_gives_the_same_output(
    world: Observation, state: State, policy: Policy
) -> None:
    decision = decide(NOW, world, state, config(policy))
    assert policy.bounds.min <= number(decision) <= policy.bounds.max
    assert decision == decide(NOW, world, state, config(policy))
    assert decision.next_at is None or decision.next_at > NOW
    assert len(decision.state.services[CHAT].last_needed) <= policy.bounds.max


@property_of(150)
def test_deciding_again_changes_nothing(world: Observation, state: State, policy: Policy) -> None:
    once = decide(NOW, world, state, config(policy))
    again = decide(NOW, world, once.state, config(policy))
    assert again.actions == ()
    assert number(again) == number(once)


@settings(max_examples=300, deadline=None)
@given(worlds, histories(), policies, st.floats(0, 1, exclude_max=True))
def test_until_next_at_every_floor_stays(world: Observation, state: State, policy: Policy, part: float) -> None:
    decision = decide(NOW, world, state, config(policy))
    end = decision.next_at or NOW + timedelta(days=60)
    later: datetime = min(NOW + part * (end - NOW), end - timedelta(microseconds=1))
    assert number(decide(later, world, state, config(policy))) == number(decision)
    assert number(decide(later, world, decision.state, config(policy))) == number(decision)


@settings(max_examples=150, deadline=None)
@given(worlds, histories(), policies, st.integers(1, 9), holds)
def test_more_demand_never_lowers_the_floor(
    world: Observation, state: State, policy: Policy, more: int, another: Hold
) -> None:
    least = number(decide(NOW, world, state, config(policy)))
    held = replace(world, holds=(*world.holds, another))
    assert number(decide(NOW, held, state, config(policy))) >= least
    service = world.services[CHAT]
    if service.queue is not None:
        busier = replace(service, queue=replace(service.queue, waiting=service.queue.waiting + more))
        assert number(decide(NOW, seen(busier, *world.holds), state, config(policy))) >= least


@property_of(150)
def test_a_start_under_way_is_lowered_by_bounds_max_only(world: Observation, state: State, policy: Policy) -> None:
    service = world.services[CHAT]
    if warming_replicas(service) and CHAT in state.services:
        before = state.services[CHAT].floor.replicas
        assert number(decide(NOW, world, state, config(policy))) >= min(
            before, live_replicas(service), policy.bounds.max
        )


@settings(max_examples=100, deadline=None)
@given(st.floats(0.5, 7200), st.integers(0, 600), st.integers(1, 3))
def test_an_idle_replica_is_let_go_after_exactly_b(keep_s: float, served_s: int, running: int) -> None:
    policy = Policy(Bounds(0, 3), queue=QueuePolicy(1), cold_start_cost_s=keep_s)
    warm = tuple(ReplicaView(f"r{i}", Warmth.BUSY, at(-60), at(-30)) for i in range(3))
    last = at(served_s)
    busy = ServiceObservation(warm, QueueView(last, 0, running, last))
    state = decide(last, seen(busy), State(), config(policy)).state
    idle = seen(ServiceObservation(warm, QueueView(last, 0, 0, last)))
    end = last + timedelta(seconds=keep_s)
    for now, floor in ((last, running), (end - timedelta(microseconds=1), running), (end, 0)):
        decision = decide(now, idle, state, config(policy))
        assert number(decision) == floor
        assert decision.next_at == (end if floor else None)
        state = decision.state
