"""Failures of a start as a user of local mode meets them: named, answered, backed off, not repeated for nobody."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.model import make_model
from tests.serving import Up, running, service, wait_for


def prepare(up: Up, *, cost: str = "60s", **ways: Any) -> Path:
    (up.files / "chat.yaml").write_text(service("chat", cost=cost))
    return make_model(up.models / "chat", **ways)


def say(line: str, code: int = 1) -> dict[str, object]:
    return {"stage": "device_init", "code": code, "line": line}


NO_COMPILER = "RuntimeError: Worker failed with error 'InvalidCxxCompiler: No working C++ compiler found', see above"
CASES: dict[str, tuple[str, str, int, str]] = {
    # service: (what the engine says, cause, seconds to the next try, what helps)
    "unsupported": (
        "ValueError: Model architectures ['X'] are not supported for now.",
        "unsupported-model",
        300,
        "name another model",
    ),
    "compiler": (NO_COMPILER, "no-compiler", 300, "g++"),
    "memory": ("MemoryError", "no-memory", 10, "more memory"),
    "other": ("RuntimeError: of no known kind", "exited", 10, "of no known kind"),
}


def test_a_failed_start_answers_counts_and_stays(up: Up) -> None:
    for name, (line, *_) in CASES.items():
        (up.files / f"{name}.yaml").write_text(service(name, cost="60s"))
        make_model(up.models / name, exit_at=say(line))
    with running(up):
        for name, case in CASES.items():
            fails_as(up, name, *case)
        up.end()
        up.begin()
        for name, (_, cause, *_) in CASES.items():
            assert up.status(name)["last_failure"]["cause"] == cause


def fails_as(up: Up, name: str, line: str, cause: str, retry_s: int, words: str) -> None:
    """The first request gets the failure, the second the same at once; it is counted, told, and kept at zero."""
    first = up.ask(name)
    assert first.status_code == 503
    error = first.json()["error"]
    assert (error["code"], error["type"]) == (cause, "unavailable")
    assert words in error["message"]
    second = up.ask(name)
    assert second.json()["error"]["code"] == cause
    assert retry_s - 8 <= int(second.headers["retry-after"]) <= retry_s
    wait_for(lambda: up.status(name)["floor"] == 0, within_s=10, saying="nobody wants it")
    failure = up.status(name)["last_failure"]
    assert failure["cause"] == cause
    assert any(line in told for told in failure["tail"])
    assert len(up.starts(name)) == 1
    metrics = up.api("GET", "/metrics").text
    assert f'pilotlight_failures_total{{cause="{cause}",service="test/{name}"}} 1.0' in metrics
    assert len([text for text in up.events() if words in text]) == 1


def test_a_taken_port_is_tried_anew_while_the_client_waits(up: Up) -> None:
    prepare(up, exit_at=say("OSError: [Errno 98] Address already in use"), once=True)
    with running(up):
        assert up.ask("chat").status_code == 200
        ready, failed = up.starts("chat")
        assert (failed["outcome"], failed["failure"]["cause"]) == ("failed", "port-taken")
        assert ready["outcome"] == "ready"


def test_a_mended_model_is_tried_at_once(up: Up) -> None:
    model = prepare(up)
    (model / "config.json").rename(model / "aside.json")
    with running(up):
        answer = up.ask("chat")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "model-incomplete")
        assert int(answer.headers["retry-after"]) > 200
        (model / "aside.json").rename(model / "config.json")
        wait_for(lambda: up.status("chat")["retry_at"] is None, within_s=20, saying="the change is seen")
        assert up.ask("chat").status_code == 200


def test_an_edit_ends_the_wait(up: Up) -> None:
    prepare(up, exit_at=say("vllm: error: unrecognized arguments: --x", code=2))
    make_model(up.models / "sound")
    with running(up):
        assert up.ask("chat").json()["error"]["code"] == "bad-arguments"
        (up.files / "chat.yaml").write_text(service("chat", model="sound"))
        wait_for(lambda: up.ask("chat").status_code == 200, within_s=20, saying="it serves")


def test_nothing_is_tried_again_for_nobody_but_for_a_hold(up: Up) -> None:
    prepare(up, exit_at=say("RuntimeError: again"))
    with running(up):
        up.ask("chat")
        wait_for(lambda: up.status("chat")["floor"] == 0, within_s=10, saying="nobody wants it")
        wait_for(lambda: up.status("chat")["retry_at"] is None, within_s=20, saying="the back-off is over")
        assert up.status("chat")["warmth"] == "cold"
        assert len(up.starts("chat")) == 1
        up.api("POST", "/v1/holds", {"service": "test/chat", "for_s": 600})
        status = up.wait_warmth("chat", "failed", within_s=20)
        assert (status["floor"], len(up.starts("chat"))) == (1, 2)
        at, retry = (datetime.fromisoformat(text) for text in (status["last_failure"]["at"], status["retry_at"]))
        assert (retry - at).total_seconds() == pytest.approx(20, abs=1), "the second in a row waits twice as long"


def test_a_signal_is_named(up: Up) -> None:
    prepare(up, exit_at={"stage": "device_init", "signal": "SIGKILL"})
    with running(up):
        error = up.ask("chat").json()["error"]
        assert error["code"] == "killed"
        assert "SIGKILL" in error["message"]
        assert "no out-of-memory kill" in error["message"]
        assert up.status("chat")["last_failure"]["numbers"]["signal"] == "SIGKILL"


def test_a_frozen_engine_is_replaced(up: Up) -> None:
    prepare(up)
    with running(up), ThreadPoolExecutor(1) as pool:
        before = up.ask("chat").json()["choices"]
        pid = up.status("chat")["replicas"][0]["pid"]
        os.kill(pid, signal.SIGSTOP)
        answer = pool.submit(up.ask, "chat").result()
        assert answer.json()["choices"] == before
        assert up.status("chat")["last_failure"]["cause"] == "frozen"
        assert up.status("chat")["replicas"][0]["pid"] != pid
