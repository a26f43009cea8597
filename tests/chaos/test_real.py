"""`kill -9` at marks of a start of real vLLM: the same as tests/chaos/test_marks.py shows of a fake engine."""

import importlib.util
import random
from pathlib import Path

import pytest

from tests.chaos.kit import ChaosUp, Part, clients, serves_again
from tests.chaos.rows import Row
from tests.engine.conftest import ARGS, model
from tests.serving import running, runtime, service, wait_for

START_S = 600
"""On a machine that others use too; alone it is a minute."""

pytestmark = [
    pytest.mark.prove,
    pytest.mark.engine,
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed: make setup"),
]


@pytest.fixture
def real(tmp_path: Path) -> ChaosUp:
    """An `up` with real vLLM."""
    made = ChaosUp(tmp_path, engine_command=None)
    (made.files / "runtime.yaml").write_text(runtime(*ARGS))
    return made


@pytest.mark.parametrize(("part", "mark"), [("controller", "T4"), ("portal", "T6"), ("host", "T5"), ("engine", "T7")])
def test_killed_at_a_mark_of_real_vllm(real: ChaosUp, part: Part, mark: str, chance: random.Random, row: Row) -> None:
    model(real.models / "one", 1)
    (real.files / "one.yaml").write_text(service("one", cost="600s"))
    with running(real):
        real.shut(mark)
        hold = real.api("POST", "/v1/holds", {"service": "test/one", "for_s": 3600}).json()
        streams = [chance.random() < 0.5 for _ in range(2)]
        with clients(real, "one", streams=streams, timeout_s=2 * START_S) as asked:
            real.at(mark, within_s=START_S)
            before = real.engines()
            real.kill(part, "one")
            real.open(mark)
            if part == "controller":
                real.begin()
            if part in ("host", "engine"):
                wait_for(
                    lambda: not any(p.is_running() for p in before), within_s=60, saying="the start's engine is gone"
                )
            took_s = serves_again(real, "one", within_s=2 * START_S)
        said = sorted(client.result() for client in asked)
        assert not [answer for answer in said if answer.startswith("SILENT")], said
        assert real.api("GET", "/v1/holds").json()[0]["id"] == hold["id"]
        assert len(real.leaders("one")) == 1
    row.tell(
        done=f"{part} killed at {mark} of real vLLM",
        outcome=", ".join(said),
        figure=f"answers again after {took_s:.0f} s",
    )
