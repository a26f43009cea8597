"""The progress deadline that a service's own starts advise, and how its next start would begin."""

from datetime import timedelta

import pytest

from activator_ext.adapters.starts import deadline
from activator_ext.adapters.starts.kinds import of_next
from activator_ext.adapters.starts.objects import Node
from runtime.contract import Mark, PodTimes, StartKind, StartRecord
from tests.unit.adapters.starts.build import at, node, pod


def start(ready_s: float, *, outcome: str | None = "ready", restart: int = 0, teaches: bool = True) -> StartRecord:
    pod = PodTimes(uid="u", name="n", restart=restart, teaches=teaches, created_at=at(0), ready_at=at(ready_s))
    marks = {Mark.T0: at(-30), Mark.T9: at(ready_s - 1)}
    values = {"service": "team-a/chat", "replica": "r", "kind": StartKind.COLD_NODE, "outcome": outcome}
    return StartRecord(id=f"u-{ready_s}", marks=marks, pod=pod, **values)


def test_none_without_a_start_of_its_own() -> None:
    unfit = [start(100, outcome="failed"), start(100, outcome=None), start(100, restart=1), start(100, teaches=False)]
    assert deadline.advise([], 600) is None
    assert deadline.advise(unfit, 600) is None


@pytest.mark.parametrize(
    ("seconds", "advised"),
    [
        pytest.param([10.0], 120, id="never under two minutes"),
        pytest.param([240.0], 720, id="few: three times the slowest"),
        pytest.param([240.0] * 20 + [400.0], 600, id="twenty-one: half more than the P99"),
        pytest.param([240.0] * 199 + [4000.0], 360, id="one wild start in two hundred counts for nothing"),
        pytest.param([1620.0] * 30, 2460, id="27 minutes: 40.5, so 41"),
    ],
)
def test_advice(seconds: list[float], advised: int) -> None:
    advice = deadline.advise([start(each) for each in seconds], 600)
    assert advice is not None
    assert (advice.deadline_s, advice.samples) == (advised, len(seconds))
    assert advice.deadline_s % 60 == 0


def test_what_the_present_one_cuts() -> None:
    """Knative takes a pod away 30 s after its deadline: 625 s just made it, 700 s did not."""
    advice = deadline.advise([start(each) for each in (500, 625, 700, 800)], 600)
    assert advice is not None
    assert (advice.cuts, advice.too_short, advice.p99_s) == (0.5, True, 800)
    fine = deadline.advise([start(100)], 600)
    assert fine is not None
    assert (fine.cuts, fine.too_short) == (0, False)


def test_counted_from_creation_to_ready() -> None:
    """T0 is earlier and T9 may be: Knative sees neither."""
    advice = deadline.advise([start(100)], 600)
    assert advice is not None
    assert advice.p99_s == 100
    unready = start(100)
    assert unready.pod is not None
    unready = unready.model_copy(update={"pod": unready.pod.model_copy(update={"ready_at": None})})
    answered = deadline.advise([unready], 600)
    assert answered is not None
    assert answered.p99_s == (at(99) - at(0)) / timedelta(seconds=1)


IMAGE = "registry.example/vllm:1"


@pytest.mark.parametrize(
    ("nodes", "kind"),
    [
        pytest.param([], StartKind.NEW_NODE, id="no node"),
        pytest.param([node(0, None, images=(IMAGE,))], StartKind.NEW_NODE, id="none is Ready"),
        pytest.param([node(0, 1, images=(IMAGE,), unschedulable=True)], StartKind.NEW_NODE, id="cordoned"),
        pytest.param([node(0, 1, images=(IMAGE,), gpus=1)], StartKind.NEW_NODE, id="too small"),
        pytest.param([node(0, 1, images=(IMAGE,))], StartKind.CACHED_NODE, id="it has the image"),
        pytest.param([node(0, 1)], StartKind.COLD_NODE, id="it has not"),
        pytest.param([node(0, 1, "a", images=(IMAGE,)), node(0, 1, "b")], StartKind.COLD_NODE, id="it may be either"),
        pytest.param(
            [node(0, 1, "a", images=(IMAGE,)), node(0, 1, "b", gpus=0)],
            StartKind.CACHED_NODE,
            id="the other has no GPU",
        ),
    ],
)
def test_next_kind(nodes: list[Node], kind: StartKind) -> None:
    assert of_next(nodes, pod(None, limits={"nvidia.com/gpu": "2", "memory": "48Gi"})) is kind


def test_next_kind_by_the_nodes_that_its_selector_allows() -> None:
    here, elsewhere = {"pool": "a100"}, {"pool": "l4"}
    nodes = [node(0, 1, "a", images=(IMAGE,), labels=here), node(0, 1, "b", labels=elsewhere)]
    assert of_next(nodes, pod(None, selector=here)) is StartKind.CACHED_NODE
    assert of_next(nodes, pod(None, selector=elsewhere)) is StartKind.COLD_NODE
    assert of_next(nodes, pod(None, selector={"pool": "h200"})) is StartKind.NEW_NODE
