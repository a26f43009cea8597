"""`Expect: 100-continue`: a body is invited when its request could be served, and refused before it was sent if not."""

from collections.abc import Callable

import pytest

from tests.http.house import Place, request

EXPECT = "Expect: 100-continue"
TOO_LARGE = 8 * 2**20 + 1
CHAT = "/v1/chat/completions"


def _asks(target: str, size: int, *headers: str, version: str = "HTTP/1.1", expect: str = EXPECT) -> bytes:
    return request("POST", target, expect, f"Content-Length: {size}", *headers, body=None, version=version)


@pytest.mark.parametrize("expect", [EXPECT, "expect: 100-Continue"])
def test_a_body_is_invited(here: Place, expect: str) -> None:
    body = b'{"model": "%s"}' % here.name.encode()
    line = here.line()
    for _ in range(2):
        line.send(_asks(CHAT, len(body), expect=expect))
        assert line.interim() == 100
        assert len(here.engine.raw) == sum(len(bytes(seat.raw)) for seat in here.engine.seats)
        line.send(body)
        answer = line.answer()
        assert (answer.status, answer.interim) == (200, ())

    assert [seen.body for seen in here.engine.seen] == [body] * 2
    assert not any(seen.all("expect") for seen in here.engine.seen)


def test_a_body_by_chunks_is_invited(here: Place) -> None:
    line = here.line()
    line.send(request("POST", here.path, EXPECT, "Transfer-Encoding: chunked", body=None))
    assert line.interim() == 100
    line.send(b"5\r\nhello\r\n0\r\n\r\n")

    assert line.answer().status == 200
    assert here.engine.seen[0].body == b"hello"


def test_a_large_body_by_path_is_invited(here: Place) -> None:
    line = here.line()
    line.send(_asks(here.path, TOO_LARGE))
    assert line.interim() == 100
    line.send(bytes(TOO_LARGE))

    assert line.answer().status == 200
    assert here.engine.seen[0].body == bytes(TOO_LARGE)


def test_a_body_is_invited_before_its_service_is_warm(settle: Callable[..., Place]) -> None:
    """It waits at the portal, not on the wire: when the engine is there, nothing else is in the way."""
    here = settle(warm=False)
    line = here.line()
    line.send(_asks(here.path, 2))
    assert line.interim() == 100
    line.send(b"{}")
    here.waiting(1)
    here.warm()

    assert line.answer().status == 200


REFUSED: dict[str, tuple[Callable[[Place], bytes], int]] = {
    "too large for routing by model": (lambda _: _asks(CHAT, TOO_LARGE), 413),
    "a path not served": (lambda _: _asks("/metrics", 5), 404),
    "no such service": (lambda _: _asks("/http/nobody/v1/completions", 5), 404),
    "another method": (lambda here: _asks(here.path, 5).replace(b"POST", b"PUT", 1), 405),
    "another expectation": (lambda here: _asks(here.path, 5, expect="Expect: 200-ok"), 417),
    "two expectations": (lambda here: _asks(here.path, 5, expect="Expect: 100-continue, 200-ok"), 417),
    "a websocket": (lambda here: _asks(here.path, 5, "Connection: upgrade", "Upgrade: websocket"), 501),
    "a coding that nobody can read": (lambda _: _asks(CHAT, 5, "Content-Encoding: x-none"), 415),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_body_is_refused_before_it_is_sent(here: Place, case: str) -> None:
    """The client does not send it then: the connection must end, or else the next request is read as the body."""
    ask, status = REFUSED[case]
    line = here.line()
    line.send(ask(here))
    answer = line.answer()

    assert (answer.status, answer.interim) == (status, ())
    answer.error()
    assert answer.closes
    assert line.ended() == b""
    assert here.engine.raw == b""


def test_a_large_body_that_comes_without_asking_is_refused(here: Place) -> None:
    line = here.line()
    line.send(request("POST", CHAT, f"Content-Length: {TOO_LARGE}", body=None), bytes(TOO_LARGE))
    answer = line.answer()

    assert (answer.status, answer.error()["code"]) == (413, "body_too_large")
    assert answer.closes
    assert line.ended() == b""


def test_a_large_body_by_chunks_is_refused_when_it_is_too_much(here: Place) -> None:
    block = b"100000\r\n" + bytes(2**20) + b"\r\n"
    line = here.line()
    line.send(request("POST", CHAT, "Transfer-Encoding: chunked", body=None), *([block] * 9))
    answer = line.answer()

    assert answer.status == 413
    assert answer.closes
    assert here.engine.raw == b""


def test_whoever_does_not_wait_for_the_invitation_is_served(here: Place) -> None:
    line = here.line()
    for _ in range(2):
        line.send(_asks(here.path, 2) + b"{}")
        answer = line.answer()
        assert (answer.status, set(answer.interim) <= {100}) == (200, True)

    assert [seen.body for seen in here.engine.seen] == [b"{}"] * 2


def test_http_1_0_knows_no_invitation(here: Place) -> None:
    line = here.line()
    line.send(_asks(here.path, 2, version="HTTP/1.0"), b"{}")
    answer = line.answer()

    assert (answer.status, answer.interim) == (200, ())


def test_without_a_body_there_is_nothing_to_invite(here: Place) -> None:
    line = here.line()
    line.send(_asks(here.path, 0))

    assert line.answer().status == 200
