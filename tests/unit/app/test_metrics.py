"""What the controller's metrics count, and that their series stay bounded."""

from datetime import UTC, datetime

import pytest
from prometheus_client.parser import text_string_to_metric_families

from activator_ext.app.learning import loader_events
from activator_ext.app.metrics import Metrics
from activator_ext.core.model import Decision, Floor, Reason, ReasonCode, ServiceDecision, ServiceId, State
from runtime.contract import FailureCause, Stage, WeightsTry, WeightsUse
from tests.unit.app.fakes import cold_service, failed_start, ready_start, warm_service

CHAT = ServiceId("team-a", "chat")
NOW = datetime(2026, 11, 30, tzinfo=UTC)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("0.1.0")


def samples(metrics: Metrics, portal_text: str | None = None) -> dict[str, float]:
    """Every sample as `name{label="value",…}` with labels in order."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(metrics.exposition(portal_text)):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            name = f"{sample.name}{{{labels}}}"
            assert name not in found, f"{name} stands twice"
            found[name] = sample.value
    return found


def decision(replicas: int, code: ReasonCode) -> Decision:
    floor = Floor(replicas, None, Reason(code))
    return Decision((), State(), {CHAT: ServiceDecision(floor, (), None, 44.0)}, None)


def test_a_ready_start_is_counted_with_its_stages(metrics: Metrics) -> None:
    metrics.observe_start(ready_start())
    found = samples(metrics)
    assert found["pilotlight_starts_total{cause=none,kind=cached-node,outcome=ready,service=team-a/chat}"] == 1
    assert found["pilotlight_start_seconds_sum{kind=cached-node,service=team-a/chat}"] == 20
    assert found["pilotlight_start_seconds_bucket{kind=cached-node,le=15.0,service=team-a/chat}"] == 0
    assert found["pilotlight_start_seconds_bucket{kind=cached-node,le=20.0,service=team-a/chat}"] == 1
    assert found["pilotlight_start_stage_seconds_sum{kind=cached-node,service=team-a/chat,stage=compile}"] == 5


def test_a_failed_start_is_counted_by_cause_and_is_no_sample_of_seconds(metrics: Metrics) -> None:
    metrics.observe_start(failed_start())
    found = samples(metrics)
    assert found["pilotlight_starts_total{cause=exited,kind=cached-node,outcome=failed,service=team-a/chat}"] == 1
    assert not [name for name in found if name.startswith("pilotlight_start_s")]


def failed_loaders() -> WeightsUse:
    failed = WeightsTry(
        loader="prefetch", source="local", why="", cause=FailureCause.EXITED, stage=Stage.WEIGHT_LOAD, failed="no"
    )
    after = WeightsTry(loader="default", source="local", why="the last resort")
    return WeightsUse(tries=(failed, after), peer="1 of 2 ranks from a peer", fell_back=1)


def test_loaders_that_failed_are_counted_once(metrics: Metrics) -> None:
    start = ready_start().model_copy(update={"weights": failed_loaders()})
    metrics.observe_start(start)
    metrics.observe_start(start)
    found = samples(metrics)
    assert {name: value for name, value in found.items() if name.startswith("pilotlight_loader_failures_total")} == {
        "pilotlight_loader_failures_total{cause=exited,loader=prefetch,service=team-a/chat,source=local}": 1,
        "pilotlight_loader_failures_total{cause=fell-back,loader=modelexpress,service=team-a/chat,source=peer}": 1,
    }
    metrics.forget("team-a/chat")
    assert not [name for name in samples(metrics) if "team-a/chat" in name]


def test_a_loader_that_failed_is_told() -> None:
    start = ready_start().model_copy(update={"weights": failed_loaders()})
    assert list(loader_events(start)) == [
        "the loader prefetch from local failed (no); default from local was next",
        "ModelExpress fell back: 1 of 2 ranks from a peer",
    ]
    assert list(loader_events(ready_start())) == []


def test_a_start_is_counted_once_when_it_ends(metrics: Metrics) -> None:
    metrics.observe_start(ready_start().model_copy(update={"outcome": None}))
    assert not [name for name in samples(metrics) if name.startswith("pilotlight_starts_total")]
    metrics.observe_start(ready_start())
    metrics.observe_start(ready_start())
    assert samples(metrics)["pilotlight_start_seconds_count{kind=cached-node,service=team-a/chat}"] == 1


def test_decisions_count_changes_of_the_floor_by_reason(metrics: Metrics) -> None:
    steps = [
        decision(0, ReasonCode.NO_DEMAND),
        decision(1, ReasonCode.REQUESTS),
        decision(1, ReasonCode.IDLE_KEEP),
        decision(0, ReasonCode.NO_DEMAND),
    ]
    for previous, step in zip([None, *steps], steps, strict=False):
        metrics.observe_decision(step, previous)
    assert {name: value for name, value in samples(metrics).items() if "decisions" in name} == {
        "pilotlight_decisions_total{reason=requests,service=team-a/chat}": 1,
        "pilotlight_decisions_total{reason=no-demand,service=team-a/chat}": 1,
    }


def test_services_show_floor_warmth_and_replicas(metrics: Metrics) -> None:
    metrics.observe_services([warm_service(), cold_service()])
    found = samples(metrics)
    assert found["pilotlight_floor{service=team-a/chat}"] == 1
    assert found["pilotlight_warmth{service=team-a/chat,warmth=warm}"] == 1
    assert found["pilotlight_warmth{service=team-a/chat,warmth=cold}"] == 0
    assert found["pilotlight_replicas{service=team-a/chat,warmth=warm}"] == 1
    assert found["pilotlight_warmth{service=team-a/draft,warmth=cold}"] == 1
    metrics.observe_services([cold_service("team-a/chat"), cold_service()])
    found = samples(metrics)
    assert found["pilotlight_warmth{service=team-a/chat,warmth=warm}"] == 0
    assert found["pilotlight_replicas{service=team-a/chat,warmth=warm}"] == 0


@pytest.mark.parametrize(
    ("lateness_s", "le_zero", "idle_s"),
    [
        pytest.param(-42.0, 1, 42.0, id="early"),
        pytest.param(0.0, 1, 0.0, id="at its minute"),
        pytest.param(7.5, 0, 0.0, id="late"),
    ],
)
def test_lateness_against_the_minute(metrics: Metrics, lateness_s: float, le_zero: int, idle_s: float) -> None:
    metrics.observe_ready_by("team-a/chat", "hold", "kept", lateness_s)
    found = samples(metrics)
    assert found["pilotlight_ready_by_total{kind=hold,outcome=kept,service=team-a/chat}"] == 1
    assert found["pilotlight_schedule_lateness_seconds_bucket{le=0.0,service=team-a/chat}"] == le_zero
    assert found["pilotlight_schedule_lateness_seconds_count{service=team-a/chat}"] == 1
    assert found["pilotlight_idle_before_ready_by_seconds_sum{service=team-a/chat}"] == idle_s


@pytest.mark.parametrize("how", ["told to forget", "no longer among the services"])
def test_a_service_that_is_gone_leaves_no_series(metrics: Metrics, how: str) -> None:
    metrics.observe_services([warm_service(), cold_service()])
    metrics.observe_start(ready_start())
    metrics.observe_start(failed_start())
    metrics.observe_decision(decision(1, ReasonCode.REQUESTS), None)
    metrics.observe_ready_by("team-a/chat", "schedule", "late", 1.0)
    if how == "told to forget":
        metrics.forget("team-a/chat")
    else:
        metrics.observe_services([cold_service()])
    found = samples(metrics)
    assert [name for name in found if "team-a/chat" in name] == []
    assert "pilotlight_floor{service=team-a/draft}" in found


def test_the_portals_text_follows(metrics: Metrics) -> None:
    portal = '# TYPE pilotlight_waiting gauge\npilotlight_waiting{service="team-a/chat"} 3\n'
    found = samples(metrics, portal)
    assert found["pilotlight_waiting{service=team-a/chat}"] == 3
    assert found["pilotlight_portal_up{}"] == 1
    assert found["pilotlight_build_info{version=0.1.0}"] == 1


@pytest.mark.parametrize(
    "portal",
    [
        pytest.param(None, id="no answer"),
        pytest.param("<html>not metrics</html>\n", id="other text"),
        pytest.param("pilotlight_floor 3\n", id="a name of the controller"),
    ],
)
def test_a_portal_that_cannot_be_joined_is_down(metrics: Metrics, portal: str | None) -> None:
    metrics.observe_services([warm_service()])
    found = samples(metrics, portal)
    assert found["pilotlight_portal_up{}"] == 0
    assert found["pilotlight_floor{service=team-a/chat}"] == 1
