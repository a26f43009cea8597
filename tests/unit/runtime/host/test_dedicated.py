"""The pod's process with the fake engine (tests/engine/test_dedicated.py does it with real vLLM)."""

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.fakes.model import fake_command, make_model
from tests.serving import free_port, wait_for


class Pod:
    """One `pilotlight-engine` as a container would run it."""

    def __init__(self, root: Path, *options: str, argv: tuple[str, ...] | None = None) -> None:
        self.root, self.port = root, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        ours = ("--listen", f"127.0.0.1:{self.port}", "--root", str(root / "engine"), "--let-go-s", "0.3", *options)
        command = ("--engine-command", shlex.join(fake_command()), "--")
        theirs = ("--model", str(root / "model"), "--served-model-name", "team/chat", "chat")
        words = argv if argv is not None else (*ours, *command, *theirs)
        self._err = (root / "err").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "runtime.host.dedicated", *words],
            stdout=subprocess.PIPE,
            stderr=self._err,
            env={**os.environ, "VLLM_PORT": "1"},
        )
        self.events: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            self.events.extend(json.loads(line) for line in lines)

    @property
    def starts(self) -> list[dict[str, Any]]:
        return [event["start"] for event in self.events if "start" in event]

    @property
    def err(self) -> str:
        return (self.root / "err").read_text()

    def ready(self) -> int | None:
        try:
            return httpx.get(f"{self.url}/pilotlight/ready").status_code
        except httpx.TransportError:
            return None

    def until_ready(self) -> None:
        wait_for(lambda: self.ready() == 200, within_s=30, saying=f"ready\n{self.err}")

    def engine(self) -> psutil.Process:
        return psutil.Process(self.process.pid).children()[0]

    def ended(self) -> int:
        code = self.process.wait(30)
        self._reader.join()
        self._err.close()
        return code


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Callable[..., Pod]]:
    made: list[Pod] = []

    def make(*options: str, argv: tuple[str, ...] | None = None, **ways: Any) -> Pod:
        if not (tmp_path / "model").exists():
            make_model(tmp_path / "model", **ways)
        made.append(Pod(tmp_path, *options, argv=argv))
        return made[-1]

    yield make
    for each in made:
        each.process.kill()
        each.ended()


def ask(pod: Pod, **more: Any) -> httpx.Response:
    body = {"model": "chat", "messages": [{"role": "user", "content": "hi"}], **more}
    return httpx.post(f"{pod.url}/v1/chat/completions", json=body, timeout=30)


def test_it_answers_at_the_pods_port_and_stops_when_told(pod: Callable[..., Pod], tmp_path: Path) -> None:
    chat = pod()
    chat.until_ready()
    assert ask(chat).status_code == 200
    engine = chat.engine()
    chat.process.send_signal(signal.SIGTERM)
    assert chat.ended() == 0
    assert not engine.is_running()
    stages = [event["stage"] for event in chat.events if "stage" in event]
    assert {"model_check", "compile", "golden_prompt"} <= set(stages)
    assert {start["outcome"] for start in chat.starts} == {"ready"}
    assert chat.starts[0]["service"] == "team/chat"
    assert "non-default args" in chat.err, "the engine's own lines are where `kubectl logs` looks"
    assert "PILOTLIGHT_MARK" not in chat.err, "ours are told as stages"
    assert "ready after" in chat.err
    assert "VLLM_PORT" in chat.err
    assert (tmp_path / "engine" / "beat").exists()


def test_a_running_stream_ends_whole_and_readiness_goes_first(pod: Callable[..., Pod]) -> None:
    chat = pod(chunk_s=0.2, tokens=15)
    chat.until_ready()
    body = {"model": "chat", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    with httpx.stream("POST", f"{chat.url}/v1/chat/completions", json=body, timeout=30) as answer:
        lines = answer.iter_lines()
        first = next(lines)
        chat.process.send_signal(signal.SIGTERM)
        wait_for(lambda: chat.ready() == 503, within_s=5, saying="not ready any more")
        rest = [line for line in lines if line]
    assert rest[-1] == "data: [DONE]"
    assert len([line for line in (first, *rest) if "content" in line]) >= 15
    assert chat.ended() == 0


def test_a_second_signal_does_not_wait(pod: Callable[..., Pod]) -> None:
    chat = pod(chunk_s=1.0, tokens=500)
    chat.until_ready()
    engine = chat.engine()
    body = {"model": "chat", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    with httpx.stream("POST", f"{chat.url}/v1/chat/completions", json=body, timeout=30) as answer:
        next(answer.iter_lines())
        chat.process.send_signal(signal.SIGTERM)
        wait_for(lambda: chat.ready() == 503, within_s=5, saying="draining")
        chat.process.send_signal(signal.SIGTERM)
        assert chat.ended() == 0
    assert not engine.is_running()


def test_stopped_while_it_starts(pod: Callable[..., Pod]) -> None:
    chat = pod(hang_at="compile")
    wait_for(lambda: "KV cache layout" in chat.err, within_s=20, saying="the engine begins")
    chat.process.send_signal(signal.SIGTERM)
    assert chat.ended() == 0
    assert chat.starts[-1]["outcome"] == "cancelled"


def test_an_engine_that_served_and_died_is_begun_again(pod: Callable[..., Pod]) -> None:
    chat = pod()
    chat.until_ready()
    first = chat.engine()
    first.send_signal(signal.SIGUSR1)
    wait_for(lambda: not first.is_running(), within_s=10, saying="it is gone")
    chat.until_ready()
    second = chat.engine()
    assert second.pid != first.pid
    second.send_signal(signal.SIGUSR1)
    assert chat.ended() == 1, "at once is tried once: then the kubelet waits"
    assert len({start["id"] for start in chat.starts if start["outcome"] == "ready"}) == 2
    assert "has ended (died-after-ready)" in chat.err


def test_a_start_that_fails_ends_it_with_the_reason(pod: Callable[..., Pod]) -> None:
    chat = pod(exit_at={"stage": "weight_load", "code": 1})
    assert chat.ended() == 1
    assert [start["outcome"] for start in chat.starts] == ["failed"]
    said = [line for line in chat.err.splitlines() if line.startswith("pilotlight-engine: the engine")]
    assert len(said) == 1
    assert "did not start (exited)" in said[0]
    assert "told to end at weight_load" in said[0]


def test_a_model_that_is_not_there_ends_it_at_once(pod: Callable[..., Pod], tmp_path: Path) -> None:
    command = ("--engine-command", shlex.join(fake_command()))
    chat = pod(argv=("--root", str(tmp_path / "engine"), *command, "--", str(tmp_path / "none")))
    assert chat.ended() == 1
    assert "did not start (model-missing)" in chat.err


def test_two_of_them_do_not_share_a_directory(pod: Callable[..., Pod]) -> None:
    chat = pod()
    chat.until_ready()
    other = pod()
    assert other.ended() == 2
    assert "another pilotlight-engine uses" in other.err
    assert chat.ready() == 200


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("--model=a", "--model=b"), "error: two models"),
        (("--root=ROOT", "--store=ftp://x", "--"), "error: 'ftp://x' is no store"),
        (("--root=ROOT", "--trust=/nowhere", "--"), "error: /nowhere"),
        (("--root=/proc/none", "--"), "error: "),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    argv: tuple[str, ...], says: str, pod: Callable[..., Pod], tmp_path: Path
) -> None:
    wrong = pod(argv=tuple(word.replace("ROOT", str(tmp_path / "engine")) for word in argv))
    assert wrong.ended() == 2
    assert says in wrong.err
    assert "Traceback" not in wrong.err
