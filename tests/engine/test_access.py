"""Access to a real engine: what it listens on, who may connect, and that its logs hold no word of a prompt."""

from pathlib import Path

import httpx
import pytest

from tests.access.canary import CANARY, JSON, requests, traces
from tests.access.exposure import beyond_loopback, open_to_others, tcp_listeners, unix_sockets
from tests.engine.conftest import ARGS, model
from tests.engine.test_serving import START_S, text
from tests.serving import Up, running, runtime, service


def test_a_real_engine_listens_on_loopback_and_on_private_sockets_only(up: Up) -> None:
    text(up.ask("one", timeout_s=START_S))
    # portal, API, receiver of spans; of the engine its server, and its worker's ports for a group of one.
    assert len(tcp_listeners(up)) > 4
    assert beyond_loopback(up) == set()
    sockets = set(unix_sockets(up))
    of_engines = [path for path in sockets if path.is_relative_to(up.state / "engines")]
    assert of_engines, "vLLM's processes speak to each other on unix sockets"
    assert [path for path in sockets if open_to_others(path, up.state)] == []


def test_a_real_engines_logs_hold_no_word_of_a_prompt(up: Up) -> None:
    text(up.ask("one", timeout_s=START_S))
    answers = []
    for body in requests("one"):
        answers.append(
            httpx.post(f"http://{up.portal}/v1/chat/completions", content=body, headers=JSON, timeout=START_S)
        )
    for path in ("/tokenize", "/v1/completions", "/v1/responses"):
        for field in ("prompt", "input"):
            httpx.post(f"http://{up.portal}{path}", json={"model": "one", field: CANARY}, timeout=START_S)
    said = [(answer.status_code, answer.text[:300]) for answer in answers]
    assert {200, 400} <= {status for status, _ in said}, said
    assert traces(up, "/v1/chat/completions"), "the engine's log was looked into: it names the paths"
    assert traces(up, CANARY) == []


@pytest.mark.prove
def test_not_at_the_engines_own_debug_level_either(tmp_path: Path) -> None:
    own = Up(tmp_path)
    loud = "env: [{name: VLLM_LOGGING_LEVEL, value: DEBUG}]\n    args:"
    (own.files / "runtime.yaml").write_text(runtime(*ARGS).replace("args:", loud))
    model(own.models / "one", 1)
    (own.files / "one.yaml").write_text(service("one", cost="60s"))
    with running(own):
        text(own.ask("one", timeout_s=START_S))
        for body in requests("one"):
            httpx.post(f"http://{own.portal}/v1/chat/completions", content=body, headers=JSON, timeout=START_S)
        assert traces(own, "DEBUG"), "it was told to tell more"
        assert traces(own, CANARY) == []
