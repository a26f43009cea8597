"""What engines computed decides what later ones capture: kept by the host, for each service."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import psutil
import pytest

from runtime.contract import EngineSpec, ServiceOrder
from runtime.host.shapes import FLAG, Shapes
from tests.fakes.model import make_model
from tests.serving import wait_for
from tests.unit.runtime.host.test_host import CHAT, HostProcess

NOW = datetime(2026, 11, 30, 9, tzinfo=UTC)
QUIET = {1: 6000.0, 4: 2000.0}


def spec(*args: str, service: str = "team/chat") -> EngineSpec:
    return EngineSpec(service=service, served_names=("chat",), model="/m", args=args, platform="cuda")


SEQS = spec("--max-num-seqs=64")


class Clock:
    """A wall clock that a test sets."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def shapes(tmp_path: Path, clock: Clock) -> Shapes:
    return Shapes(tmp_path, clock)


def told(shapes: Shapes, ordered: EngineSpec, steps: dict[int, float]) -> None:
    take = shapes.taker(ordered)
    assert take is not None
    take(steps)


def test_a_first_start_has_vllm_s_own(shapes: Shapes, tmp_path: Path) -> None:
    shaped = shapes.shaped(SEQS)
    assert shaped.spec is SEQS
    assert shaped.why == "vLLM's own sizes: 0 steps seen, fewer than 1000"
    assert list(tmp_path.iterdir()) == []


def test_what_was_computed_shapes_the_next_start(shapes: Shapes) -> None:
    told(shapes, SEQS, QUIET)
    shaped = shapes.shaped(SEQS)
    assert shaped.spec.args == ("--max-num-seqs=64", FLAG, "1", "4", "64")
    assert shaped.why.startswith("1 4 64 of 8000 steps: 0.0% padded")
    assert shaped.spec.model_copy(update={"args": SEQS.args}) == SEQS


def test_another_host_process_reads_what_was_kept(shapes: Shapes, tmp_path: Path, clock: Clock) -> None:
    told(shapes, SEQS, QUIET)
    assert Shapes(tmp_path, clock).shaped(SEQS) == shapes.shaped(SEQS)
    clock.now += timedelta(days=60)
    assert Shapes(tmp_path, clock).shaped(SEQS).spec.args[-3:] == ("1", "4", "64")


def test_each_service_by_itself(shapes: Shapes) -> None:
    told(shapes, SEQS, QUIET)
    other = spec("--max-num-seqs=64", service="team/other")
    assert shapes.shaped(other).spec is other


def test_another_limit_chooses_anew_from_the_same_steps(shapes: Shapes) -> None:
    told(shapes, SEQS, QUIET)
    assert shapes.shaped(spec("--max-num-seqs=128")).spec.args[-3:] == ("1", "4", "128")


def test_a_replica_of_before_counts_and_does_not_take_the_limit_back(shapes: Shapes) -> None:
    before, after = SEQS, spec("--max-num-seqs=128")
    take = shapes.taker(before)
    assert take is not None
    take(QUIET)
    shapes.shaped(after)
    take({100: 8000.0})
    assert shapes.shaped(after).spec.args[-4:] == ("1", "4", "100", "128")


def test_a_damaged_file_is_begun_anew(shapes: Shapes, tmp_path: Path, clock: Clock) -> None:
    told(shapes, SEQS, QUIET)
    (tmp_path / "team" / "chat" / "shapes.json").write_text("{")
    fresh = Shapes(tmp_path, clock)
    assert fresh.shaped(SEQS).spec is SEQS
    told(fresh, SEQS, QUIET)
    assert json.loads((tmp_path / "team" / "chat" / "shapes.json").read_text())["sizes"] == [1, 4, 64]


def test_a_forgotten_service_begins_anew(shapes: Shapes, tmp_path: Path) -> None:
    told(shapes, SEQS, QUIET)
    (tmp_path / "team" / "chat" / "shapes.json").unlink()
    shapes.forget("team/chat")
    assert shapes.shaped(SEQS).spec is SEQS


def test_what_a_service_says_itself_is_left_alone(shapes: Shapes) -> None:
    eager = spec("--enforce-eager")
    assert shapes.taker(eager) is None
    assert shapes.shaped(eager).spec is eager
    assert shapes.shaped(eager).why == "vLLM's own sizes: eager, the service's choice, captures no graphs"


def test_a_pod_counts_and_tells_and_adopts_nothing(tmp_path: Path, clock: Clock) -> None:
    pod = Shapes(tmp_path, clock, adopt=False)
    told(pod, SEQS, QUIET)
    shaped = pod.shaped(SEQS)
    assert shaped.spec is SEQS
    assert shaped.why.startswith("vLLM's own sizes, as none were asked for; would fit: 1 4 64 of 8000 steps")
    assert Shapes(tmp_path, clock).shaped(SEQS).spec.args[-3:] == ("1", "4", "64")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[HostProcess]:
    make_model(tmp_path / "model", steps={"4": 400})
    begun = HostProcess(tmp_path, 60)
    yield begun
    begun.close()


def test_a_host_counts_its_engine_s_steps_and_captures_by_them_at_the_next_start(host: HostProcess) -> None:
    """The whole way, with a fake engine that is told to be on CUDA: its /metrics, the next argv, the record."""

    def order(replicas: int) -> None:
        model = str(host.root / "model")
        ordered = EngineSpec(
            service=CHAT, served_names=(CHAT,), model=model, args=("--max-num-seqs=64",), platform="cuda",
            drain_timeout_s=10.0,
        )  # fmt: skip
        body = ServiceOrder(spec=ordered, replicas=replicas, asked_at=datetime.now(UTC)).model_dump_json()
        host.call("PUT", f"/v1/services/{CHAT}", body).raise_for_status()

    def argv() -> list[str]:
        (pid,) = host.engine_pids()
        return psutil.Process(pid).cmdline()

    order(1)
    host.warm(1)
    assert FLAG not in argv()
    assert "--custom-histogram-buckets" in argv()
    (replica,) = (r for s in host.view().services for r in s.replicas)
    body = {"model": CHAT, "prompt": "hello", "max_tokens": 4}
    for _ in range(5):
        httpx.post(f"{replica.url}/v1/completions", json=body, timeout=10, trust_env=False).raise_for_status()
    order(0)
    host.warm(0)
    wait_for(lambda: host.engine_pids() == [], within_s=30, saying="it has stopped")
    order(1)
    host.warm(1)
    words = argv()
    assert words[words.index(FLAG) : words.index(FLAG) + 5] == [FLAG, "1", "4", "64", "--middleware"]
    first, second = host.view().starts
    assert first.shapes == "vLLM's own sizes: 0 steps seen, fewer than 1000"
    assert second.shapes.startswith("1 4 64 of ")
