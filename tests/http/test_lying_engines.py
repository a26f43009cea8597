"""Engines that answer wrongly: nothing of it reaches another client, and a client can always tell a broken answer.

Each case is what an engine says to one request. What the client of that request may read stands beside it; the client
after it must get its own answer, over a connection on which nothing strange was said.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.http.engine import OK, Script, Seat, hello
from tests.http.house import Place, chunked
from tests.http.test_bodies import head
from tests.http.wire import SOON_S

EVIL = b"HTTP/1.1 200 OK\r\nSet-Cookie: evil\r\nContent-Length: 4\r\n\r\nevil"


@dataclass(frozen=True, slots=True)
class Lie:
    """`body` None: the client gets 502. `broken`: its answer visibly breaks off. `or_502`: that is as good."""

    raw: bytes
    body: bytes | None = None
    broken: bool = False
    or_502: bool = False


LIES = {
    # More than was announced: what follows belongs to nobody.
    "a second answer": Lie(head("Content-Length: 5") + b"hello" + EVIL, b"hello"),
    "more than its length": Lie(head("Content-Length: 5") + b"hello, world", b"hello"),
    "a body with 204": Lie(head("Content-Length: 4", status="204 No Content") + b"evil" + EVIL, b"", or_502=True),
    "a body with 304": Lie(head("Content-Length: 4", status="304 Not Modified") + b"evil" + EVIL, b""),
    "more after the last chunk": Lie(head("Transfer-Encoding: chunked") + chunked(b"hello") + EVIL, b"hello"),
    "an answer to nothing": Lie(head("Content-Length: 0") + EVIL, b""),
    # Less than was announced.
    "less than its length": Lie(head("Content-Length: 9") + b"hello", b"hello", broken=True),
    "no last chunk": Lie(head("Transfer-Encoding: chunked") + b"5\r\nhello\r\n", b"hello", broken=True),
    "half a chunk": Lie(head("Transfer-Encoding: chunked") + b"9\r\nhello", b"hello", broken=True),
    "half a last chunk": Lie(head("Transfer-Encoding: chunked") + b"5\r\nhello\r\n0\r\n", b"hello", broken=True),
    "no byte of its body": Lie(head("Content-Length: 9"), b"", broken=True, or_502=True),
    "half a head": Lie(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "nothing": Lie(b""),
    "only 100": Lie(head(status="100 Continue")),
    "a protocol nobody asked for": Lie(head("Upgrade: x", "Connection: upgrade", status="101 Switching") + EVIL),
    # No HTTP.
    "garbage": Lie(b"\x00\xff garbage \r\n\r\n"),
    "another protocol": Lie(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "HTTP/0.9": Lie(b"<html>hello</html>"),
    "HTTP/2": Lie(b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x80"),
    "a version that is none": Lie(head("Content-Length: 5", version="HTTP/2.0") + b"hello"),
    "a status of two digits": Lie(head("Content-Length: 5", status="20 OK") + b"hello"),
    "a status of four digits": Lie(head("Content-Length: 5", status="2000 OK") + b"hello"),
    "a status of letters": Lie(head("Content-Length: 5", status="abc OK") + b"hello"),
    "a status of 0": Lie(head("Content-Length: 5", status="000 OK") + b"hello"),
    # Two lengths, or none that can be believed.
    "two lengths": Lie(head("Content-Length: 5", "Content-Length: 9") + b"hello"),
    "a length and chunks": Lie(
        head("Content-Length: 3", "Transfer-Encoding: chunked") + chunked(b"hello"), b"hello", or_502=True
    ),
    "chunks and a length": Lie(
        head("Transfer-Encoding: chunked", "Content-Length: 3") + chunked(b"hello"), b"hello", or_502=True
    ),
    "a length with a sign": Lie(head("Content-Length: +5") + b"hello"),
    "a length below zero": Lie(head("Content-Length: -5") + b"hello"),
    "a length twice in one": Lie(head("Content-Length: 5, 9") + b"hello"),
    "a length in hex": Lie(head("Content-Length: 0x5") + b"hello"),
    "a length of letters": Lie(head("Content-Length: five") + b"hello"),
    "no length": Lie(head("Content-Length:") + b"hello"),
    "a length beyond all bounds": Lie(head("Content-Length: 99999999999999999999999") + b"hello"),
    "a coding that nobody knows": Lie(head("Transfer-Encoding: xchunked") + chunked(b"hello")),
    "a coding after chunked": Lie(head("Transfer-Encoding: chunked, gzip") + chunked(b"hello")),
    "chunked twice": Lie(head("Transfer-Encoding: chunked", "Transfer-Encoding: chunked") + chunked(b"hello")),
    "a coding before chunked": Lie(head("Transfer-Encoding: gzip, chunked") + chunked(b"hello")),
    # Chunks that are none.
    "a chunk size of letters": Lie(
        head("Transfer-Encoding: chunked") + b"xyz\r\nhello\r\n0\r\n\r\n", b"", broken=True, or_502=True
    ),
    "a chunk size below zero": Lie(
        head("Transfer-Encoding: chunked") + b"-5\r\nhello\r\n0\r\n\r\n", b"", broken=True, or_502=True
    ),
    "a chunk size beyond all bounds": Lie(
        head("Transfer-Encoding: chunked") + b"fffffffffffffffff\r\nhello", b"", broken=True, or_502=True
    ),
    "a chunk without its end": Lie(
        head("Transfer-Encoding: chunked") + b"5\r\nhelloXX0\r\n\r\n", b"hello", broken=True, or_502=True
    ),
    "a bad chunk after a good one": Lie(
        head("Transfer-Encoding: chunked") + b"5\r\nhello\r\nzz\r\n", b"hello", broken=True, or_502=True
    ),
    # Headers that would be something else to a lenient client.
    "a space before the colon": Lie(head("Content-Length : 5") + b"hello"),
    "a header without a colon": Lie(head("Content-Length: 5", "X-Mine") + b"hello"),
    "a header without a name": Lie(head("Content-Length: 5", ": x") + b"hello"),
    "a bare CR in a header": Lie(head("X-Mine: a\rSet-Cookie: evil", "Content-Length: 5") + b"hello"),
    "a NUL in a header": Lie(head("X-Mine: a\0b", "Content-Length: 5") + b"hello"),
    "a NUL in a name": Lie(head("X-Mi\0ne: ab", "Content-Length: 5") + b"hello"),
    "a bare CR in the status line": Lie(head("Content-Length: 5", status="200 OK\rSet-Cookie: evil") + b"hello"),
    # More than anyone reads.
    "a head without end": Lie(b"HTTP/1.1 200 OK\r\n" + b"X-A: %s\r\n" % (b"a" * 1000) * 5000),
    "a header without end": Lie(b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 5_000_000),
}


def once(raw: bytes) -> Script:
    """Say it, and close; whoever is unhappy with it may try again and hears the same."""

    def script(seat: Seat) -> None:
        seat.request()
        seat.send(raw)

    return script


def kept_open(raw: bytes) -> Script:
    """Say it, and then be a good engine on the same connection, were it used again."""

    def script(seat: Seat) -> None:
        seat.request()
        seat.send(raw)
        hello(seat)

    return script


def check(here: Place, lie: Lie) -> None:
    line = here.line()
    line.send(here.post())
    answer = line.answer()

    assert answer.interim == ()
    assert not answer.all("set-cookie")
    if lie.body is None or (lie.or_502 and answer.status == 502):
        assert (answer.status, answer.whole) == (502, True)
        assert answer.error()["type"] == "upstream_error"
    else:
        assert answer.status < 400
        assert answer.body == lie.body
        assert answer.whole != lie.broken
    if not answer.whole:
        assert line.ended() == b""
    elif not answer.closes:
        here.engine.script = hello
        line.send(here.post())
        assert line.answer().body == b'{"said": "hello"}'
    here.serves()


@pytest.mark.parametrize("case", LIES)
def test_a_lie_stays_with_the_client_it_was_told(settle: Callable[..., Place], case: str) -> None:
    check(settle(once(LIES[case].raw)), LIES[case])


TOO_MUCH = [
    "a second answer",
    "more than its length",
    "more after the last chunk",
    "an answer to nothing",
    "a body with 304",
]


@pytest.mark.parametrize("case", TOO_MUCH)
def test_a_connection_that_said_too_much_is_not_used_again(settle: Callable[..., Place], case: str) -> None:
    here = settle(kept_open(LIES[case].raw))
    check(here, LIES[case])

    assert all(seen.connection > 0 for seen in here.engine.seen[1:])


def test_what_an_idle_connection_says_is_no_answer(settle: Callable[..., Place]) -> None:
    say, said = threading.Event(), threading.Event()

    def unasked(seat: Seat) -> None:
        seat.request()
        seat.send(OK)
        if seat.number == 0:
            assert say.wait(SOON_S)
            seat.send(EVIL)
            said.set()
        hello(seat)

    here = settle(unasked)
    line = here.line()
    line.send(here.post())
    assert line.answer().status == 200
    say.set()
    assert said.wait(SOON_S)
    here.house.health()  # the portal's loop has turned: it can know
    for _ in range(3):
        line.send(here.post())
        assert line.answer().body == b'{"said": "hello"}'
    assert {seen.connection for seen in here.engine.seen[1:]} == {1}


def test_the_same_length_twice_is_one_length_or_none(settle: Callable[..., Place]) -> None:
    here = settle(once(head("Content-Length: 5", "Content-Length: 5") + b"hello" + EVIL))
    line = here.line()
    line.send(here.post())
    answer = line.answer()

    assert (answer.status, answer.body) == (200, b"hello") or answer.status == 502
    here.serves()


def test_a_folded_header_is_one_line_to_the_client_or_an_error(settle: Callable[..., Place]) -> None:
    here = settle(once(head("X-Mine: a\r\n Set-Cookie: evil", "Content-Length: 5") + b"hello"))
    line = here.line()
    line.send(here.post())
    answer = line.answer()  # reading it proves that no line of it is folded

    assert answer.status in (200, 502)
    assert not answer.all("set-cookie")


def test_many_1xx_do_not_end_the_portal(settle: Callable[..., Place]) -> None:
    here = settle(once(head(status="100 Continue") * 10_000 + OK))
    line = here.line()
    line.send(here.post())

    assert line.answer().status in (200, 502)
    here.serves()
