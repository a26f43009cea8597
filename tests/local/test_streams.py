"""A stream is whole, whatever happens to its replica on purpose."""

import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.fakes.model import make_model
from tests.serving import Up, running, service, wait_for

TOKENS = 120


def stream(up: Up, begun: threading.Event) -> list[str]:
    """The data lines of one streaming chat answer of `TOKENS` tokens, 50 ms apart."""
    body = {"model": "chat", "messages": [{"role": "user", "content": "hello"}], "stream": True}
    lines = []
    with httpx.stream("POST", f"http://{up.portal}/v1/chat/completions", json=body, timeout=60) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            if line.startswith("data: "):
                lines.append(line)
                begun.set()
    return lines


def whole(lines: list[str]) -> bool:
    return lines[-1] == "data: [DONE]" and sum('"content"' in line for line in lines) >= TOKENS


def prepare(up: Up) -> None:
    make_model(up.models / "chat", chunk_s=0.05, tokens=TOKENS)
    (up.files / "chat.yaml").write_text(service("chat"))


def test_through_a_scale_down(up: Up) -> None:
    """Two streams on two replicas; the hold for the second ends, and it drains while its stream runs on."""
    prepare(up)
    with running(up), ThreadPoolExecutor(2) as pool:
        hold = up.api("POST", "/v1/holds", {"service": "test/chat", "for_s": 600, "replicas": 2}).json()
        wait_for(lambda: warm(up) == 2, within_s=30, saying="two warm replicas")
        begun = threading.Event(), threading.Event()
        answers = [pool.submit(stream, up, event) for event in begun]
        assert all(event.wait(30) for event in begun)
        up.api("DELETE", f"/v1/holds/{hold['id']}")
        wait_for(lambda: any(r["draining"] for r in up.status("chat")["replicas"]), within_s=10, saying="one drains")
        assert not any(answer.done() for answer in answers)
        assert all(whole(answer.result()) for answer in answers)
        wait_for(lambda: len(up.status("chat")["replicas"]) <= 1, within_s=20, saying="it is gone")


def test_through_the_end_of_its_service(up: Up) -> None:
    """The file of the service is removed while it answers."""
    prepare(up)
    make_model(up.models / "other")
    (up.files / "other.yaml").write_text(service("other"))
    with running(up), ThreadPoolExecutor(1) as pool:
        begun = threading.Event()
        answer = pool.submit(stream, up, begun)
        assert begun.wait(30)
        (up.files / "chat.yaml").unlink()
        wait_for(lambda: "test/chat" not in up.api("GET", "/v1/services").text, within_s=10, saying="it is gone")
        assert not answer.done()
        assert whole(answer.result())
        wait_for(lambda: not up.engines(), within_s=20, saying="engines are gone")


def warm(up: Up) -> int:
    return sum(r["warmth"] in ("warm", "busy") for r in up.status("chat")["replicas"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_through_an_orderly_end(up: Up, number: int) -> None:
    prepare(up)
    with running(up), ThreadPoolExecutor(1) as pool:
        begun = threading.Event()
        answer = pool.submit(stream, up, begun)
        assert begun.wait(30)
        assert up.end(number) == 0
        assert whole(answer.result())
        assert up.processes() == []


def test_sigint_ends_it_though_a_shell_began_it_with_sigint_ignored(up: Up) -> None:
    prepare(up)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        up.begin()
    finally:
        signal.signal(signal.SIGINT, before)
    assert up.end(signal.SIGINT) == 0
    assert up.processes() == []


def test_through_the_death_of_the_controller(up: Up) -> None:
    prepare(up)
    with running(up), ThreadPoolExecutor(1) as pool:
        begun = threading.Event()
        answer = pool.submit(stream, up, begun)
        assert begun.wait(30)
        assert up.end(signal.SIGKILL) == -signal.SIGKILL
        up.begin()
        assert whole(answer.result())
