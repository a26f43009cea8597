"""No word of a prompt or an answer is in any log, event, state file or argument, however the request ends."""

import contextlib
import json
import socket

import httpx

from tests.access.canary import CANARY, JSON, requests, traces
from tests.serving import Up


def test_the_search_itself_finds_a_word_that_is_there(up: Up) -> None:
    assert traces(up, "test/chat")


def test_no_prompt_is_kept_or_told(up: Up) -> None:
    for model in ("chat", "broken", "nobody"):
        for body in requests(model):
            with contextlib.suppress(httpx.TimeoutException):
                httpx.post(f"http://{up.portal}/v1/chat/completions", content=body, headers=JSON, timeout=20)
    httpx.post(f"http://{up.portal}/v1/completions?q={CANARY}", content=b'{"model": "chat", ' + CANARY.encode())
    httpx.get(f"http://{up.portal}/{CANARY}", headers={"X-Canary": CANARY})
    half_a_request(up)
    # What the fake prints of itself is no evidence: tests/engine looks into the log of a real engine.
    assert [found for found in traces(up, CANARY) if not found.endswith("engine.log")] == []


def half_a_request(up: Up) -> None:
    """A client that leaves amid its body, and one that sends no HTTP at all."""
    host, port = up.portal.split(":")
    body = json.dumps({"model": "chat", "prompt": CANARY})
    for sent in (
        f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n{body}",
        f"{CANARY}\r\n\r\n",
    ):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(sent.encode())
