"""Bounds of a request's head, and what becomes of a client that sends too slowly or nothing at all."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.http.house import House, Place, house, place, request
from tests.http.wire import dial

TARGET_BYTES = 8 * 2**10
HEAD_BYTES = 64 * 2**10
FIELDS = 100


def _target(here: Place, size: int) -> bytes:
    """A request whose target has `size` bytes."""
    target = f"{here.path}?q="
    return request("POST", target + "a" * (size - len(target)), body=b"{}")


def _fields(here: Place, count: int) -> bytes:
    """A request with `count` header fields, Host and Content-Length among them."""
    return here.post(*(f"X-{n}: a" for n in range(count - 2)))


def _head(here: Place, size: int) -> bytes:
    """A request whose head, with its last empty line, has `size` bytes; no field of it is longer than 8 KiB."""
    whole = here.post(*(f"X-{n}: " + "a" * 8000 for n in range(size // 8200)))
    missing = size - len(whole.partition(b"\r\n\r\n")[0]) - 4
    return whole.replace(b"Host:", b"X-Rest: " + b"a" * (missing - len("X-Rest: \r\n")) + b"\r\nHost:", 1)


BOUNDS: dict[Callable[[Place, int], bytes], int] = {_target: TARGET_BYTES, _fields: FIELDS, _head: HEAD_BYTES}


@pytest.mark.parametrize("raw", [_target, _fields, _head], ids=["target", "fields", "head"])
def test_up_to_the_bound_all_is_served(here: Place, raw: Callable[[Place, int], bytes]) -> None:
    line = here.line()
    line.send(raw(here, BOUNDS[raw]))

    assert line.answer().status == 200


BEYOND: dict[str, tuple[Callable[[Place], bytes], int | tuple[int, ...]]] = {
    "a target one byte too long": (lambda here: _target(here, TARGET_BYTES + 1), 414),
    "a target of 60 KiB": (lambda here: _target(here, 60_000), 414),
    "a target of 100 KiB": (lambda here: _target(here, 100_000), (414, 431)),
    "a line without end": (lambda _: b"GET /" + b"a" * 10_000_000, (414, 431)),
    "a method without end": (lambda _: b"A" * 1_000_000, (400, 414, 431)),
    "one field too many": (lambda here: _fields(here, FIELDS + 1), 431),
    "10,000 fields": (lambda here: _fields(here, 10_000), 431),
    "a head of 1 KiB too many": (lambda here: _head(here, HEAD_BYTES + 2**10), 431),  # its first line may not count
    "a head of 1 MiB": (lambda here: _head(here, 2**20), 431),
    "a value without end": (lambda here: here.post()[:-6] + b"\r\nX-A: " + b"a" * 10_000_000, 431),
    "a name without end": (lambda here: here.post()[:-6] + b"\r\n" + b"a" * 10_000_000, (400, 431)),
    "fields without end": (lambda here: here.post()[:-6] + b"\r\nX-A: b" * 1_000_000, 431),
}


@pytest.mark.parametrize("case", BEYOND)
def test_beyond_the_bound_it_is_refused_and_closed(here: Place, case: str) -> None:
    make, statuses = BEYOND[case]
    with dial(here.address) as line:
        line.send(make(here))
        answers = line.answers()

    assert len(answers) == 1
    assert answers[0].status in (statuses if isinstance(statuses, tuple) else (statuses,))
    assert answers[0].closes
    answers[0].error()
    assert here.engine.raw == b""
    here.serves()


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A portal whose patience is short."""
    options = ["--head-s", "0.3", "--body-idle-s", "0.3", "--keep-alive-s", "0.3"]
    with house(tmp_path_factory.mktemp("hasty"), *options) as at:
        yield at


SLOW = {
    "nothing of it": (b"", None),
    "half a request line": (b"POST /v1/compl", 408),
    "half a head": (b"POST /v1/completions HTTP/1.1\r\nHost: portal\r\nX-A", 408),
    "all but its last line": (b"POST /v1/completions HTTP/1.1\r\nHost: portal\r\nContent-Length: 2\r\n", 408),
    "an empty line": (b"\r\n", None),
    "no body": (request("POST", "/v1/completions", "Content-Length: 5", body=None), 408),
    "half a body": (request("POST", "/v1/completions", "Content-Length: 5", body=None) + b"he", 408),
    "half a chunk": (request("POST", "/v1/completions", "Transfer-Encoding: chunked", body=None) + b"5\r\nhe", 408),
    "no last chunk": (
        request("POST", "/v1/completions", "Transfer-Encoding: chunked", body=None) + b"2\r\n{}\r\n",
        408,
    ),
    "no body after the invitation": (
        request("POST", "/v1/completions", "Content-Length: 5", "Expect: 100-continue", body=None),
        408,
    ),
}


@pytest.mark.parametrize("case", SLOW)
def test_whoever_stops_in_the_middle_is_told_and_closed(hasty: House, case: str) -> None:
    """A connection on which nothing began just ends: its client may be about to reuse it, and an answer would be read
    as that of its next request."""
    raw, status = SLOW[case]
    with dial(hasty.address) as line:
        line.send(raw)
        answers = line.answers()

    assert [answer.status for answer in answers] == ([] if status is None else [status])
    for answer in answers:
        assert answer.closes
        answer.error()


def test_a_trickle_does_not_renew_the_time_of_a_head(hasty: House) -> None:
    """Slow loris: a byte now and then. It is cut off though it never falls silent."""
    with dial(hasty.address) as line:
        line.send(b"POST /v1/completions HTTP/1.1\r\nHost: portal\r\n")
        sent = 0
        while not line.readable(0.05):
            sent += 1
            line.send(b"X-%d: a\r\n" % sent)
            assert sent < 200, "it was let go on"
        assert [answer.status for answer in line.answers()] == [408]


def test_a_body_that_goes_on_slowly_is_read(hasty: House) -> None:
    """The bound of a body is between two pieces: a slow line is no attack. Longer in all than the bound."""
    with place(hasty) as here:
        line = here.line()
        line.send(request("POST", here.path, "Content-Length: 12", body=None))
        for _ in range(12):
            assert not line.readable(0.05), "cut off in the middle of what it was sending"
            line.send(b"x")
        assert line.answer().status == 200
        assert here.engine.seen[0].body == b"x" * 12


def test_an_upload_that_stops_gives_its_engine_free(hasty: House) -> None:
    with place(hasty) as here:
        line = here.line()
        line.send(request("POST", here.path, f"Content-Length: {9 * 2**20}", body=None), bytes(2**20))
        answers = line.answers()
        assert [answer.status for answer in answers] in ([408], [])
        here.running(0)


def test_an_idle_connection_ends_after_an_answer(hasty: House) -> None:
    with place(hasty) as here:
        line = here.line()
        line.send(here.post())
        assert line.answer().status == 200
        assert line.ended() == b""


def test_patience_with_a_client_is_no_bound_for_an_engine(hasty: House) -> None:
    """Waiting for the engine, be it seconds, is not the client's silence."""
    with place(hasty, warm=False) as here:
        line = here.line()
        line.send(here.chat())
        here.waiting(1)
        with dial(hasty.address) as other:  # it is idle for as long as the bound: a clock that both see
            assert other.ended() == b""
        assert not line.readable(0)
        here.warm()
        assert line.answer().status == 200


def test_the_options_are_told(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="--head-s"), house(tmp_path, "--head-s", "-1"):
        pass
