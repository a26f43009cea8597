"""Which services are decided on, and the whole way from objects to a floor."""

from datetime import UTC, datetime, timedelta

from activator_ext.adapters.kubernetes.governed import governed
from activator_ext.adapters.kubernetes.holds import holds
from activator_ext.adapters.kubernetes.policies import assign
from activator_ext.adapters.kubernetes.served import Served
from activator_ext.core.decide import decide
from activator_ext.core.model import Bounds, Config, Observation, Policy, QueuePolicy, ServiceId, State
from tests.unit.adapters.kubernetes.objects import hold, policy, served, service

NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)


def config(now: datetime, *objects: dict[str, object], services: list[Served]) -> tuple[Config, Observation]:
    policies = [each for each in objects if each["kind"] == "PrewarmPolicy"]
    held = holds([each for each in objects if each["kind"] == "PrewarmHold"], services, now)
    return governed(assign(policies, services), held, services), Observation({}, held.holds)


def test_a_service_that_nothing_names_is_left_alone() -> None:
    found, _ = config(NINE, policy(), services=served("chat", "other"))

    assert list(found.services) == [ServiceId("team-a", "chat")]


def test_a_hold_alone_brings_its_service_in_within_its_own_bounds() -> None:
    services = [Served.of(service(maxReplicas=2, containerConcurrency=7))]
    found, _ = config(NINE, hold(for_="1h"), services=services)

    assert found.services == {ServiceId("team-a", "chat"): Policy(bounds=Bounds(0, 2), queue=QueuePolicy(7))}
    assert config(NINE + timedelta(hours=1), hold(for_="1h"), services=services)[0].services == {}


def test_a_policy_stands_before_a_hold() -> None:
    found, _ = config(NINE, policy(coldStartCost="1m"), hold(for_="1h"), services=served("chat"))

    assert [each.cold_start_cost_s for each in found.services.values()] == [60.0]


def test_a_hold_of_a_service_that_is_not_there_waits_for_it() -> None:
    assert config(NINE, hold(for_="1h"), services=served("other"))[0].services == {}


def test_from_objects_to_floors() -> None:
    """A hold for ten, ready by half past nine, prior two minutes: asked for at 09:28, gone at ten."""
    objects = (
        policy(leadTime={"prior": "2m"}),
        hold(readyBy="2026-03-02T09:30:00Z", until="2026-03-02T10:00:00Z", replicas=2),
    )
    floors, state = list[tuple[str, int]](), State()
    now: datetime | None = NINE
    while now is not None:
        found, observed = config(now, *objects, services=served("chat"))
        decision = decide(now, observed, state, found)
        floors += [(f"{now:%H:%M}", action.replicas) for action in decision.actions]
        state, now = decision.state, decision.next_at

    assert floors == [("09:00", 0), ("09:28", 2), ("10:00", 0)]
