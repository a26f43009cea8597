"""Connections: pipelined requests are answered in order, and a connection lives on after whatever was read whole."""

import json
import threading
from collections.abc import Callable

import pytest

from tests.http.engine import OK, Seat, Seen
from tests.http.house import Place, chunked, request


def echo(seat: Seat) -> None:
    while True:
        body = seat.request().body
        seat.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


def test_pipelined_requests_are_answered_in_order(settle: Callable[..., Place]) -> None:
    here = settle(echo)
    line = here.line()
    line.send(b"".join(here.chat(n=n) for n in range(50)))

    said = [json.loads(line.answer().body)["n"] for _ in range(50)]

    assert said == list(range(50))
    assert [json.loads(seen.body)["n"] for seen in here.engine.seen] == list(range(50))


def test_pipelined_requests_reach_the_engine_one_at_a_time(settle: Callable[..., Place]) -> None:
    at_once: list[int] = []
    lock, here_now = threading.Lock(), 0

    def counting(seat: Seat) -> None:
        nonlocal here_now
        while True:
            seat.request()
            with lock:
                here_now += 1
                at_once.append(here_now)
            # The portal's turn: were it to send the next request too, it would come in while this one is open.
            here.house.health()
            with lock:
                here_now -= 1
            seat.send(OK)

    here = settle(counting)
    line = here.line()
    line.send(here.post() * 10)

    assert [line.answer().status for _ in range(10)] == [200] * 10
    assert at_once == [1] * 10


def test_pipelined_requests_of_several_services_keep_their_order(settle: Callable[..., Place]) -> None:
    slow, quick = settle(echo, warm=False), settle(echo)
    line = slow.line()
    line.send(slow.chat(who="slow") + quick.chat(who="quick"))
    slow.waiting(1)
    slow.warm()

    assert [json.loads(line.answer().body)["who"] for _ in range(2)] == ["slow", "quick"]


def test_pipelined_local_answers_and_refusals_stand_in_order(settle: Callable[..., Place]) -> None:
    here = settle(echo)
    line = here.line()
    line.send(
        request("GET", "/v1/models", body=None)
        + here.chat()
        + request("POST", "/v1/chat/completions", body=b'{"model": "nobody"}')
        + request("GET", "/nowhere", body=None)
        + here.chat()
    )

    assert [line.answer().status for _ in range(5)] == [200, 200, 404, 404, 200]


REUSED: dict[str, Callable[[Place], tuple[bytes, int]]] = {
    "the engine's answer": lambda here: (here.chat(), 200),
    "unknown model": lambda here: (request(body=b'{"model": "nobody"}'), 404),
    "no model": lambda here: (request(body=b"{}"), 400),
    "not JSON": lambda here: (request(body=b"{"), 400),
    "not served": lambda here: (request("POST", "/metrics", body=b"12345"), 404),
    "method": lambda here: (request("PUT", here.path, body=b"12345"), 405),
    "unknown model, chunked": lambda here: (
        request("POST", "/v1/completions", "Transfer-Encoding: chunked", body=None) + chunked(b'{"mod', b'el": "no"}'),
        404,
    ),
}


@pytest.mark.parametrize("case", REUSED)
def test_a_connection_lives_on_or_says_that_it_ends(here: Place, case: str) -> None:
    raw, status = REUSED[case](here)
    line = here.line()
    line.send(raw)
    first = line.answer()

    assert first.status == status
    if first.closes:
        assert line.ended() == b""
        assert status != 200
        return
    line.send(here.chat())
    assert line.answer().status == 200


@pytest.mark.parametrize("case", ["the engine's answer", "unknown model", "no model", "not JSON"])
def test_a_connection_is_kept_after_a_refusal_whose_body_was_read(here: Place, case: str) -> None:
    raw, status = REUSED[case](here)
    line = here.line()
    for _ in range(3):
        line.send(raw)
        answer = line.answer()
        assert (answer.status, answer.closes) == (status, False)


@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/1.0"])
def test_connection_close_is_honoured(here: Place, version: str) -> None:
    line = here.line()
    line.send(here.post("Connection: close", version=version), here.post())
    answer = line.answer()

    assert (answer.status, answer.closes) == (200, True)
    assert line.ended() == b""
    assert len(here.engine.seen) == 1


@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/1.0"])
@pytest.mark.parametrize("options", ["keep-alive, close", "close, keep-alive", "keep-alive\r\nConnection: CLOSE"])
def test_close_counts_more_than_keep_alive(here: Place, version: str, options: str) -> None:
    """RFC 9112 §9.3: the first rule that fits, and that of `close` is the first."""
    line = here.line()
    line.send(here.post(f"Connection: {options}", version=version), here.post())

    assert [answer.closes for answer in line.answers()] == [True]
    assert len(here.engine.seen) == 1


def test_an_http_1_0_client_may_keep_its_connection(here: Place) -> None:
    line = here.line()
    for _ in range(3):
        line.send(here.post("Connection: keep-alive", version="HTTP/1.0"))
        answer = line.answer()
        assert (answer.status, answer.framing, answer.closes) == (200, "length", False)


def test_an_http_1_0_client_that_does_not_ask_is_closed(here: Place) -> None:
    line = here.line()
    line.send(here.post(version="HTTP/1.0"))

    assert line.answer().closes
    assert line.ended() == b""


def test_empty_lines_before_a_request_are_passed_over(here: Place) -> None:
    line = here.line()
    line.send(b"\r\n" + here.post())
    assert line.answer().status == 200
    line.send(b"\r\n\r\n" + here.post())
    assert line.answer().status == 200


def test_the_engines_connection_is_used_again(here: Place) -> None:
    line = here.line()
    for _ in range(5):
        line.send(here.post())
        assert line.answer().status == 200

    assert {seen.connection for seen in here.engine.seen} == {0}


def test_an_idle_engine_connection_that_was_closed_costs_no_request(settle: Callable[..., Place]) -> None:
    closed = threading.Event()

    def closes_after_its_answer(seat: Seat) -> None:
        seat.request()
        seat.send(OK)
        seat.close()
        closed.set()

    here = settle(closes_after_its_answer)
    line = here.line()
    for _ in range(20):
        closed.clear()
        line.send(here.post())
        assert line.answer().status == 200
        assert closed.wait(10)


def test_a_request_that_meets_a_closing_connection_is_sent_again(settle: Callable[..., Place]) -> None:
    def one_then_nothing(seat: Seat) -> None:
        seat.request()
        if seat.number == 0:
            seat.send(OK)
            seat.request()  # read, then closed without an answer: what a server does whose idle limit just ran out
            return
        seat.send(OK)

    here = settle(one_then_nothing)
    line = here.line()
    for _ in range(2):
        line.send(here.post())
        assert line.answer().status == 200


def _headers(seen: Seen) -> set[str]:
    return {name.lower() for name, _ in seen.headers}


def test_what_belongs_to_one_hop_stays_there(here: Place) -> None:
    line = here.line()
    line.send(
        here.post(
            "Connection: keep-alive, X-Mine, close-not",
            "X-Mine: 1",
            "X-Yours: 2",
            "Keep-Alive: timeout=5",
            "Proxy-Authorization: Basic eA==",
            "Proxy-Connection: keep-alive",
            "TE: trailers",
            "Trailer: X-Mine",
            "Upgrade: h2c",
        )
    )
    assert line.answer().status == 200

    (seen,) = here.engine.seen
    named = {"x-mine", "keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer", "upgrade"}
    assert _headers(seen) & named == set()
    assert seen.all("x-yours") == ["2"]
