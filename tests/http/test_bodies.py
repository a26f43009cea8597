"""Bodies in both directions and every framing: what is sent arrives byte for byte, framed as its reader can read it."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.http.engine import HELLO, Seat, says
from tests.http.house import Place, chunked, request
from tests.http.wire import Answer

EVERY_BYTE = bytes(range(256)) * 3


def upload(here: Place, *headers: str) -> bytes:
    """The head of a request by path, without a length."""
    return request("POST", here.path, *headers, body=None)


REQUEST_BODIES: dict[str, tuple[str | None, bytes, bytes]] = {
    "no body": (None, b"", b""),
    "a length of zero": ("Content-Length: 0", b"", b""),
    "a length": (f"Content-Length: {len(EVERY_BYTE)}", EVERY_BYTE, EVERY_BYTE),
    "a length with leading zeros": (f"Content-Length: 000{len(EVERY_BYTE)}", EVERY_BYTE, EVERY_BYTE),
    "one chunk": ("Transfer-Encoding: chunked", chunked(EVERY_BYTE), EVERY_BYTE),
    "no chunk": ("Transfer-Encoding: chunked", chunked(), b""),
    "a chunk for each byte": (
        "Transfer-Encoding: chunked",
        chunked(*(bytes([n]) for n in range(256))),
        bytes(range(256)),
    ),
    "sizes in capitals": ("Transfer-Encoding: chunked", b"A\r\n0123456789\r\n0\r\n\r\n", b"0123456789"),
    "sizes with leading zeros": ("Transfer-Encoding: chunked", b"0005\r\nhello\r\n000\r\n\r\n", b"hello"),
    "chunk extensions": ("Transfer-Encoding: chunked", b'5;a=b;c="d"\r\nhello\r\n0;last\r\n\r\n', b"hello"),
    "trailers": ("Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\nX-Secret: 1\r\nX-Sum: 9\r\n\r\n", b"hello"),
    "the coding in capitals": ("Transfer-Encoding: Chunked", chunked(b"hello"), b"hello"),
    "a chunk that looks like a request": (
        "Transfer-Encoding: chunked",
        chunked(b"POST / HTTP/1.1\r\nHost: a\r\n\r\n", b"0\r\n\r\n"),
        b"POST / HTTP/1.1\r\nHost: a\r\n\r\n0\r\n\r\n",
    ),
}


@pytest.mark.parametrize("case", REQUEST_BODIES)
def test_a_request_body_reaches_the_engine_byte_for_byte(here: Place, case: str) -> None:
    length, sent, means = REQUEST_BODIES[case]
    line = here.line()
    for _ in range(2):  # the second one shows that the first was read to its end and no further
        line.send(upload(here, *([length] if length else [])) + sent)
        assert line.answer().status == 200

    for seen in here.engine.seen:
        assert (seen.method, seen.target, seen.body) == ("POST", "/v1/completions", means)
        assert len(seen.all("content-length")) + len(seen.all("transfer-encoding")) == 1
    assert len(here.engine.seen) == 2
    assert b"secret" not in here.engine.raw.lower()


@pytest.mark.parametrize("case", ["a length", "chunk extensions", "trailers", "a chunk for each byte"])
def test_a_request_may_be_cut_anywhere(here: Place, case: str) -> None:
    length, sent, means = REQUEST_BODIES[case]
    assert length
    raw = upload(here, length) + sent
    line = here.line()
    cuts = [1, 2, 3, 5, 17, len(raw) // 2, len(raw) - len(sent) - 3, len(raw) - len(sent) - 1, len(raw) - len(sent)]
    cuts += [len(raw) - len(sent) + 1, len(raw) - 5, len(raw) - 3, len(raw) - 2, len(raw) - 1]
    for cut in cuts:
        line.send(raw[:cut])
        here.house.health()  # the portal has read so far
        line.send(raw[cut:])
        assert line.answer().status == 200

    assert [seen.body for seen in here.engine.seen] == [means] * len(cuts)


def test_a_request_may_come_byte_by_byte(here: Place) -> None:
    raw = here.chat("Accept: */*", text="ä")
    line = here.line()
    line.send(*(raw[n : n + 1] for n in range(len(raw))))

    assert line.answer().status == 200
    assert here.engine.seen[0].body == raw.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("size", [2**16, 8 * 2**20, 8 * 2**20 + 1, 20 * 2**20])
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_large_bodies_by_path_arrive_whole(here: Place, size: int, framing: str) -> None:
    body = os.urandom(2**16) * (size // 2**16) + b"x" * (size % 2**16)
    line = here.line()
    if framing == "length":
        line.send(upload(here, f"Content-Length: {size}"), body)
    else:
        line.send(
            upload(here, "Transfer-Encoding: chunked"), chunked(*(body[n : n + 2**18] for n in range(0, size, 2**18)))
        )

    assert line.answer().status == 200
    assert here.engine.seen[0].body == body


def test_a_get_carries_no_length(here: Place) -> None:
    line = here.line()
    line.send(request("GET", f"/{here.service}/v1/things?a=b&c=%20", body=None))

    assert line.answer().status == 200
    (seen,) = here.engine.seen
    assert (seen.method, seen.target, seen.body) == ("GET", "/v1/things?a=b&c=%20", b"")
    assert not seen.all("content-length")
    assert not seen.all("transfer-encoding")


def test_a_get_with_a_body_is_read_to_its_end(here: Place) -> None:
    line = here.line()
    line.send(request("GET", f"/{here.service}/v1/things", body=b'{"a": 1}'), here.post())

    assert [line.answer().status for _ in range(2)] == [200, 200]
    assert [seen.body for seen in here.engine.seen] == [b'{"a": 1}', b"{}"]


@dataclass(frozen=True, slots=True)
class Said:
    """What an engine says (`closes` its connection after it), and what the client must read."""

    raw: bytes
    status: int = 200
    body: bytes = b"hello"
    closes: bool = False
    interim: tuple[int, ...] = ()


def head(*lines: str, status: str = "200 OK", version: str = "HTTP/1.1") -> bytes:
    return "\r\n".join([f"{version} {status}", *lines, "", ""]).encode("latin-1")


ANSWERS = {
    "a length": Said(head("Content-Length: 5") + b"hello"),
    "a length of zero": Said(head("Content-Length: 0"), body=b""),
    "chunks": Said(head("Transfer-Encoding: chunked") + chunked(b"hel", b"lo")),
    "no chunk": Said(head("Transfer-Encoding: chunked") + chunked(), body=b""),
    "chunk extensions": Said(head("Transfer-Encoding: chunked") + b'5;a="b"\r\nhello\r\n0;c\r\n\r\n'),
    "trailers": Said(head("Transfer-Encoding: chunked", "Trailer: X-Sum") + b"5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"),
    "capitals": Said(head("TRANSFER-ENCODING: CHUNKED") + b"A\r\n0123456789\r\n0\r\n\r\n", body=b"0123456789"),
    "no length: until it closes": Said(head() + b"hello", closes=True),
    "no length and nothing": Said(head(), body=b"", closes=True),
    "Connection: close and a length": Said(head("Connection: close", "Content-Length: 5") + b"hello", closes=True),
    "HTTP/1.0 and a length": Said(head("Content-Length: 5", version="HTTP/1.0") + b"hello", closes=True),
    "HTTP/1.0 until it closes": Said(head(version="HTTP/1.0") + b"hello", closes=True),
    "no reason": Said(head("Content-Length: 5", status="200 ") + b"hello"),
    "another reason": Said(head("Content-Length: 5", status="200 Fine, thank you") + b"hello"),
    "204": Said(head(status="204 No Content"), 204, b""),
    "204 that closes": Said(head(status="204 No Content"), 204, b"", closes=True),
    "304": Said(head(status="304 Not Modified"), 304, b""),
    "304 with a length": Said(head("Content-Length: 5", status="304 Not Modified"), 304, b""),
    "an error": Said(head("Content-Length: 5", status="422 Unprocessable Entity") + b"hello", 422),
    "a redirect is the client's": Said(head("Location: /v1/x", "Content-Length: 5", status="307 T") + b"hello", 307),
    "100 before it": Said(head(status="100 Continue") + head("Content-Length: 5") + b"hello"),
    "103 before it": Said(head("Link: </a>", status="103 Early Hints") + head("Content-Length: 5") + b"hello"),
    "several 1xx before it": Said(
        head(status="102 Processing") * 3 + head(status="100 Continue") + head("Content-Length: 5") + b"hello"
    ),
}


def _read(here: Place, raw: bytes, method: str = "GET") -> tuple[Answer, bool]:
    """The answer, and whether its connection still answers after it."""
    line = here.line()
    line.send(raw)
    answer = line.answer(method)
    if answer.closes:
        assert line.ended() == b""
        return answer, False
    line.send(raw)
    assert line.answer(method).status == answer.status
    return answer, True


@pytest.mark.parametrize("case", ANSWERS)
def test_an_answer_reaches_the_client_byte_for_byte(settle: Callable[..., Place], case: str) -> None:
    said = ANSWERS[case]
    here = settle(says(said.raw, close=said.closes))

    answer, kept = _read(here, here.post())

    assert (answer.status, answer.body, answer.whole) == (said.status, said.body, True)
    assert answer.interim == ()
    assert kept or answer.framing == "close", "a client's connection does not end because the engine's did"
    assert not {name.lower() for name, _ in answer.headers} & {"trailer", "x-sum", "keep-alive", "link"}


@pytest.mark.parametrize("case", ANSWERS)
@pytest.mark.parametrize("asks", ["", "Connection: keep-alive"])
def test_an_http_1_0_client_never_gets_chunks(settle: Callable[..., Place], case: str, asks: str) -> None:
    said = ANSWERS[case]
    here = settle(says(said.raw, close=said.closes))

    answer, kept = _read(here, here.post(*([asks] if asks else []), version="HTTP/1.0"))

    assert (answer.status, answer.body, answer.whole) == (said.status, said.body, True)
    assert answer.framing != "chunked"
    assert kept == (bool(asks) and answer.framing != "close")
    if answer.framing == "close":
        assert answer.closes


@pytest.mark.parametrize(
    "case", ["a length", "chunks", "no length: until it closes", "several 1xx before it", "trailers"]
)
def test_an_answer_may_be_cut_anywhere(settle: Callable[..., Place], case: str) -> None:
    said = ANSWERS[case]
    cuts = iter(range(1, len(said.raw)))

    def cutting(seat: Seat) -> None:
        while True:
            seat.request()
            cut = next(cuts)
            seat.send(said.raw[:cut])
            here.house.health()  # the portal has read so far
            seat.send(said.raw[cut:])
            if said.closes:
                return

    here = settle(cutting)
    line = here.line()
    for _ in range(1, len(said.raw)):
        line.send(here.post())
        answer = line.answer()
        assert (answer.status, answer.body, answer.whole) == (200, b"hello", True)


def test_each_piece_of_a_stream_is_handed_on_at_once(settle: Callable[..., Place]) -> None:
    """The engine says the next piece only after the client has the one before."""
    got = [threading.Event() for _ in range(20)]

    def piecewise(seat: Seat) -> None:
        seat.request()
        seat.send(head("Content-Type: text/event-stream", "Transfer-Encoding: chunked"))
        for n, event in enumerate(got):
            seat.send(b"%x\r\ndata: %02d\n\n\r\n" % (10, n))
            assert event.wait(10)
        seat.send(b"0\r\n\r\n")

    here = settle(piecewise)
    line = here.line()
    line.send(here.post())
    line.until(b"\r\n\r\n")
    for n, event in enumerate(got):
        line.until(b"data: %02d\n\n" % n)
        event.set()
    line.until(b"0\r\n\r\n")


def test_headers_of_an_answer_arrive_as_they_are(settle: Callable[..., Place]) -> None:
    lines = [
        "Set-Cookie: a=1",
        "Set-Cookie: b=2; Path=/",
        "X-Latin: \xe4",
        "X-Empty:",
        "x-CaSe: Kept",
        "Date: Mon, 02 Mar 2026 09:00:00 GMT",
    ]
    hops = [
        "Connection: X-Hop, keep-alive",
        "X-Hop: 1",
        "Keep-Alive: timeout=5",
        "Proxy-Authenticate: Basic",
        "Upgrade: h2c",
    ]
    here = settle(says(head(*lines, *hops, f"Content-Length: {len(HELLO)}") + HELLO))
    line = here.line()
    line.send(here.post())
    answer = line.answer()

    assert answer.all("set-cookie") == ["a=1", "b=2; Path=/"]
    assert (answer.header("x-latin"), answer.header("x-empty"), answer.header("x-case")) == ("\xe4", "", "Kept")
    assert answer.header("date") == "Mon, 02 Mar 2026 09:00:00 GMT"
    assert not {name.lower() for name, _ in answer.headers} & {"x-hop", "keep-alive", "proxy-authenticate", "upgrade"}
    assert answer.header("x-pilotlight-service") == here.service


def test_an_engine_may_answer_before_the_body_is_whole(settle: Callable[..., Place]) -> None:
    size = 10 * 2**20

    def early(seat: Seat) -> None:
        seat.head()
        seat.send(head("Content-Length: 5", "Connection: close", status="401 Unauthorized") + b"hello")
        seat.gone_after_reading()

    here = settle(early)
    line = here.line()
    line.send(request("POST", here.path, f"Content-Length: {size}", body=None) + bytes(9 * 2**20))
    answer = line.answer()

    assert (answer.status, answer.body) == (401, b"hello")
    assert answer.closes, "the rest of the body would be read as a request"
    assert line.ended() == b""
    here.serves()
