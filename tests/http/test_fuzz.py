"""Mutated requests and answers: the portal never falls, never stands, and never reads more into them than h11 does.

A short slice, the same each time, runs with every test run; `make prove` runs the long form with new cases each time.
A failing case is printed by hypothesis with its bytes, and can be sent again as it is.
"""

import itertools
import re
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.http import reference
from tests.http.engine import OK, Seat, says
from tests.http.house import House, Place, chunked, place, request
from tests.http.wire import SOON_S, Answer, dial

SHORT, LONG = 400, 30_000
PATH = "/http/fuzz/v1/completions"

REQUESTS = [
    request("POST", PATH, body=b"hello"),
    request("POST", PATH, "Transfer-Encoding: chunked", body=None) + chunked(b"hel", b"lo"),
    request("POST", PATH, "Transfer-Encoding: chunked", body=None) + b"5;a=b\r\nhello\r\n0\r\nX-A: b\r\n\r\n",
    request("GET", PATH, body=None),
    request("GET", PATH, "Connection: close", body=None),
    request("POST", PATH, "Connection: keep-alive, X-A", "X-A: b", body=b"0\r\n\r\n"),
    request("POST", PATH, body=b"x", version="HTTP/1.0"),
    request("POST", PATH, "Connection: keep-alive", body=b"x", version="HTTP/1.0"),
    request("POST", PATH, "Connection: Upgrade", "Upgrade: h2c", body=b"hello"),
    request("POST", PATH, "Content-Type: application/json", body=b'{"model": "fuzz"}'),
    request("POST", PATH, body=request("GET", PATH, body=None)),
]
HELLO = b"HTTP/1.1 200 OK\r\n"
ANSWERS = [
    HELLO + b"Content-Length: 5\r\n\r\nhello",
    HELLO + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(b"hel", b"lo"),
    HELLO + b"Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX-A: b\r\n\r\n",
    HELLO + b"\r\nhello",
    b"HTTP/1.0 200 OK\r\n\r\nhello",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n" + HELLO + b"Content-Length: 5\r\nConnection: close\r\n\r\nhello",
]
# What parsers have disagreed on.
TOKENS = [
    b"\r\n", b"\r", b"\n", b"\r\n\r\n", b"\n\n", b"\0", b"\t", b"\x0b", b":", b";", b",", b"+", b"-", b"0", b"\xff",
    b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"Content-Length : 5\r\n", b"Content-Length:\r\n 5\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: identity\r\n", b"Transfer-Encoding:\x0bchunked\r\n",
    b"Transfer-Encoding : chunked\r\n", b"Host: other\r\n", b"Connection: close\r\n", b"Expect: 100-continue\r\n",
    b"HTTP/1.0", b"HTTP/1.1", b"HTTP/2.0", b"GET /http/fuzz/v1/x HTTP/1.1\r\nHost: a\r\n\r\n", b"5\r\n", b"0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", b"ffffffffffffffff", b"10000000000000005\r\n", b"0x5", b" ",
]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn, seeds: list[bytes], most: int) -> bytes:
    """Up to `most` seeds in a row with up to four wounds: bytes cut out, put in, doubled or changed."""
    raw = bytearray(b"".join(draw(st.lists(st.sampled_from(seeds), min_size=1, max_size=most))))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(raw)))
        until = min(len(raw), at + draw(st.integers(0, 8)))
        kind = draw(st.sampled_from(["put in", "cut out", "double", "change", "line"]))
        if kind == "put in":
            raw[at:at] = draw(st.sampled_from(TOKENS))
        elif kind == "cut out":
            del raw[at:until]
        elif kind == "double":
            raw[at:at] = raw[at:until]
        elif kind == "change" and at < len(raw):
            raw[at] = draw(st.integers(0, 255))
        elif kind == "line":  # a whole line where one may stand
            ends = [n + 2 for n in range(len(raw) - 1) if raw[n : n + 2] == b"\r\n"] or [0]
            raw[(where := draw(st.sampled_from(ends))) : where] = draw(st.sampled_from(TOKENS))
    return bytes(raw)


def pieces(raw: bytes, cuts: list[int]) -> list[bytes]:
    """`raw` cut at these places, counted modulo its length."""
    at = sorted({cut % (len(raw) + 1) for cut in cuts} | {0, len(raw)})
    return [raw[begin:end] for begin, end in itertools.pairwise(at)]


cuts = st.lists(st.integers(0, 2000), max_size=6)


@pytest.fixture(scope="module")
def here(portal: House) -> Iterator[Place]:
    with place(portal, says(OK, close=True), service="http/fuzz") as at:
        yield at


def sent(here: Place, raw: bytes, cut: list[int]) -> None:
    """Send it, read what is said, and compare what the engine has seen with what h11 reads."""
    here.engine.seen.clear()
    means = reference.requests(raw)
    if means.then == "a trailer that may be an error":
        return
    with dial(here.address) as line:
        line.send(*pieces(raw, cut))
        answers: list[Answer] = []
        if means.then != "an error":  # else the portal must end it; here it may wait for more, until we do
            while len(answers) < len(means.whole) and line.readable(SOON_S):
                if not (answer := line.next()):
                    break
                answers.append(answer)
            line.half_close()
        answers += line.answers()

    passed = [(seen.method, seen.target, seen.body) for seen in here.engine.seen]
    whole = [(asked.method, _path(asked.target), asked.body) for asked in means.whole]
    answered = [n for n, answer in enumerate(answers) if answer.status == 200]
    assert max(answered, default=-1) < len(whole), (raw, means, answers)
    assert passed == [whole[n] for n in answered], (raw, means, answers)
    # Each whole request has its answer, unless the portal ended the connection with a refusal before.
    assert len(answers) >= len(whole) or answers[-1].closes, (raw, means, answers)
    for answer in answers:
        if answer.status != 200:
            assert 400 <= answer.status < 600, answer
            answer.error()


def _path(target: str) -> str:
    """Without the authority of a whole URL and without the service."""
    return re.sub(r"(?i)^http://[^/]*", "", target).replace("/http/fuzz", "", 1)


@given(mutated(REQUESTS, 3), cuts)
@settings(max_examples=SHORT, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_request_is_more_to_the_portal_than_to_h11(here: Place, raw: bytes, cut: list[int]) -> None:
    sent(here, raw, cut)


@pytest.mark.prove
@given(mutated(REQUESTS, 3), cuts)
@settings(max_examples=LONG, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_request_of_many_is_more_to_the_portal_than_to_h11(here: Place, raw: bytes, cut: list[int]) -> None:
    sent(here, raw, cut)


@pytest.mark.parametrize("raw", REQUESTS, ids=range(len(REQUESTS)))
def test_a_request_means_the_same_wherever_it_is_cut(here: Place, raw: bytes) -> None:
    for cut in range(len(raw)):
        sent(here, raw, [cut])
        assert len(here.engine.seen) == 1


def said(here: Place, raw: bytes, cut: list[int]) -> None:
    """Let the engine say it, and compare what the client reads with what h11 does; the next client reads its own."""

    def script(seat: Seat) -> None:
        seat.request()
        seat.send(*pieces(raw, cut))

    here.engine.script = script
    with dial(here.address) as line:
        line.send(here.post())
        answer = line.answer()
    here.engine.script = says(OK, close=True)
    with dial(here.address) as line:
        line.send(here.post())
        assert line.answer().body == b'{"said": "hello"}', raw

    means = reference.answer(raw)
    if answer.whole and answer.status != 502:
        assert (answer.status, answer.body) == means, (raw, answer)
    if answer.status == 502 and answer.whole:
        answer.error()


@given(mutated(ANSWERS, 2), cuts)
@settings(max_examples=SHORT, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_answer_is_more_to_the_portal_than_to_h11(here: Place, raw: bytes, cut: list[int]) -> None:
    said(here, raw, cut)


@pytest.mark.prove
@given(mutated(ANSWERS, 2), cuts)
@settings(max_examples=LONG, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_answer_of_many_is_more_to_the_portal_than_to_h11(here: Place, raw: bytes, cut: list[int]) -> None:
    said(here, raw, cut)
