"""What a floor is for the HPA, proven on the HPA's own arithmetic; and what a trigger's metadata may ask for."""

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from activator_ext.adapters.keda_scaler.answers import BadTrigger, Question, metric_value, question, wanted_by_hpa
from activator_ext.adapters.keda_scaler.wire import ScaledObjectRef
from activator_ext.core.model import ServiceId


@pytest.mark.parametrize(
    ("value", "current", "tolerance", "wanted"),
    [
        (2.0, 1, 0.1, 2),
        (1.0, 2, 0.1, 1),
        (9.0, 10, 0.1, 10),  # 0.9: within
        (8.9, 10, 0.1, 9),
        (11.0, 10, 0.1, 10),  # 1.1: within
        (11.002, 10, 0.1, 12),
        (11.0, 10, 0.0, 11),
        (0.0, 3, 0.1, 0),
    ],
)
def test_an_hpa_as_its_source_says(value: float, current: int, tolerance: float, wanted: int) -> None:
    assert wanted_by_hpa(value, current, tolerance) == wanted


# floor → metric, and what an HPA of tolerance 0.1 makes of it from floor − 1, floor, floor + 1 and 2 × floor replicas.
TABLE = [
    (1, 1.0, (1, 1, 1)),
    (2, 2.0, (2, 2, 2, 2)),
    (3, 3.0, (3, 3, 3, 3)),
    (8, 8.0, (8, 8, 8, 8)),
    (9, 8.9, (9, 9, 9, 9)),
    (10, 10.0, (10, 10, 11, 10)),
    (11, 11.002, (12, 11, 12, 12)),
    (20, 20.902, (21, 20, 21, 21)),
]


@pytest.mark.parametrize(("floor", "value", "wanted"), TABLE)
def test_the_table(floor: int, value: float, wanted: tuple[int, ...]) -> None:
    currents = [current for current in (floor - 1, floor, floor + 1, 2 * floor) if current > 0]

    assert metric_value(floor) == value
    assert tuple(wanted_by_hpa(value, current) for current in currents) == (wanted if floor > 1 else wanted[:3])


@given(st.integers(1, 9), st.integers(1, 10_000))
def test_a_floor_below_ten_is_exact_from_any_number(floor: int, current: int) -> None:
    assert wanted_by_hpa(metric_value(floor), current) == floor


@given(st.integers(1, 10_000), st.integers(1, 20_000))
def test_without_tolerance_every_floor_is_exact(floor: int, current: int) -> None:
    assert wanted_by_hpa(metric_value(floor, 0.0), current, 0.0) == floor


@given(st.integers(1, 10_000), st.integers(1, 20_000), st.sampled_from([0.01, 0.05, 0.1, 0.2, 0.25]))
def test_never_fewer_than_the_floor_and_too_many_within_bounds(floor: int, current: int, tolerance: float) -> None:
    wanted = wanted_by_hpa(metric_value(floor, tolerance), current, tolerance)

    assert wanted >= floor
    raised = floor * (1 + tolerance) + 1
    assert wanted <= (raised if current <= floor else max(raised, raised / (1 - tolerance)))


@given(st.integers(1, 2000), st.integers(1, 4000))
def test_it_comes_to_rest_in_one_step(floor: int, current: int) -> None:
    wanted = wanted_by_hpa(metric_value(floor), current)

    assert wanted_by_hpa(metric_value(floor), wanted) == wanted


HOW_TO = (Path(__file__).resolve().parents[4] / "docs" / "how-to" / "keda.md").read_text()


def test_the_how_to_shows_the_values() -> None:
    rows = re.findall(r"^\| (\d+) \| ([\d.]+) \| (\d+) \| (\d+) \| (\d+) \|$", HOW_TO, re.MULTILINE)

    assert [row[0] for row in rows] == ["9", "10", "11", "20"]
    for floor, value, *wanted in rows:
        assert float(value) == metric_value(int(floor))
        currents = (int(floor) - 1, int(floor) + 1, 2 * int(floor))
        assert [wanted_by_hpa(float(value), current) for current in currents] == [int(each) for each in wanted]
    assert all(metric_value(floor) == floor for floor in range(1, 9))


def test_the_how_tos_scaled_object_is_answered() -> None:
    (shown,) = re.findall(r"```yaml\n(apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\n.*?)```", HOW_TO, re.DOTALL)
    scaled_object = yaml.safe_load(shown)
    metadata = scaled_object["spec"]["triggers"][0]["metadata"]

    assert question(ScaledObjectRef("chat-prewarm", "team-a", metadata)) == Question(ServiceId("team-a", "chat"))


def test_no_floor_is_no_metric() -> None:
    assert metric_value(0) == 0.0


def ref(**metadata: str) -> ScaledObjectRef:
    return ScaledObjectRef("chat-prewarm", "team-a", {"scalerAddress": "scaler:9090", **metadata})


CHAT = ServiceId("team-a", "chat")


@pytest.mark.parametrize(
    ("metadata", "asked"),
    [
        ({"service": "chat"}, Question(CHAT)),
        ({"service": "team-a/chat"}, Question(CHAT)),
        ({"service": "chat", "tolerance": "0"}, Question(CHAT, 0.0)),
        ({"service": "chat", "enableTLS": "true"}, Question(CHAT)),
    ],
)
def test_what_a_trigger_asks_for(metadata: dict[str, str], asked: Question) -> None:
    assert question(ref(**metadata)) == asked


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ({}, "names no service"),
        ({"service": "team-b/chat"}, "not in the ScaledObject's namespace 'team-a'"),
        ({"service": "chat", "servce": "x"}, "unknown key 'servce'"),
        ({"service": "Chat"}, "no name of an InferenceService"),
        ({"service": "team-a/chat/x"}, "not in the ScaledObject's namespace"),
        ({"service": "chat", "tolerance": "ten"}, "tolerance 'ten'"),
        ({"service": "chat", "tolerance": "nan"}, "tolerance 'nan'"),
        ({"service": "chat", "tolerance": "-0.1"}, "tolerance '-0.1'"),
        ({"service": "chat", "tolerance": "1"}, "tolerance '1'"),
    ],
)
def test_what_a_trigger_may_not_ask_for(metadata: dict[str, str], told: str) -> None:
    with pytest.raises(BadTrigger, match=told):
        question(ref(**metadata))
