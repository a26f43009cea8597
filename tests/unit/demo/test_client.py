"""The demo's client against every way in which a stream can go."""

from collections.abc import Iterator

import httpx
import pytest

from demo.client import Answer, AskFailed, Heartbeat, ask

HELLO = """: pilotlight waiting stage=queued position=1

: pilotlight waiting stage=compile eta_s=31 position=1

data: {"choices": [{"delta": {"role": "assistant"}}]}

data: {"choices": [{"delta": {"content": "Hel"}}]}

data: {"choices": [{"delta": {"content": "lo"}}]}

data: [DONE]

"""


def ticking() -> Iterator[float]:
    second = 0.0
    while True:
        yield second
        second += 1.0


def asked(status: int, body: str) -> tuple[Answer, list[tuple[float, Heartbeat]]]:
    beats: list[tuple[float, Heartbeat]] = []
    transport = httpx.MockTransport(lambda request: httpx.Response(status, text=body))
    with httpx.Client(base_url="http://portal", transport=transport) as client:
        clock = ticking()
        answer = ask(
            client, "demo/chat", "?", on_wait=lambda s, beat: beats.append((s, beat)), clock=lambda: next(clock)
        )
    return answer, beats


def test_an_answer_after_waiting() -> None:
    answer, beats = asked(200, HELLO)

    assert answer == Answer("Hello", first_token_s=3.0, seconds=4.0, heartbeats=2)
    assert beats == [(1.0, Heartbeat("queued", None)), (2.0, Heartbeat("compile", 31))]


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (503, '{"error": {"message": "no room"}}', "HTTP 503.*no room"),
        (200, HELLO.replace("data: [DONE]", ""), "broke off after 'Hello'"),
        (200, "data: [DONE]\n\n", "without a token"),
        (200, 'data: {"error": {"message": "the engine died"}}\n\n', "within the stream.*the engine died"),
        (200, "", "broke off"),
    ],
    ids=["refused", "cut", "empty", "error-in-stream", "nothing"],
)
def test_what_is_no_answer(status: int, body: str, message: str) -> None:
    with pytest.raises(AskFailed, match=message):
        asked(status, body)


def test_a_server_that_is_not_there() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused")

    with (
        httpx.Client(base_url="http://portal", transport=httpx.MockTransport(refuse)) as client,
        pytest.raises(AskFailed, match="ConnectError: connection refused"),
    ):
        ask(client, "demo/chat", "?", on_wait=lambda s, beat: None)
