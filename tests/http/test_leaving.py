"""Who goes away: clients that leave free at once what they had, engines that die are seen to have died.

The engine's side of each connection tells when the portal let go; each place checks that its counts return to zero.
"""

import threading
from collections.abc import Callable

import pytest

from tests.http.controller import route
from tests.http.engine import OK, Seat, Seen
from tests.http.house import Place, chunked, request
from tests.http.test_bodies import head
from tests.http.wire import SOON_S, Line

LEAVE: dict[str, Callable[[Line], None]] = {"closes": Line.close, "resets": Line.reset, "half-closes": Line.half_close}
ways = pytest.mark.parametrize("way", LEAVE)


class Watch:
    """A script whose request goes as far as `begin` says; `left` is set when the portal has let go of it."""

    def __init__(self, begin: Callable[[Seat], None]) -> None:
        self.begun, self.left = threading.Event(), threading.Event()
        self._begin = begin

    def __call__(self, seat: Seat) -> None:
        self._begin(seat)
        self.begun.set()
        seat.gone()
        self.left.set()


def silent(seat: Seat) -> None:
    seat.request()


def begun_with_chunks(seat: Seat) -> None:
    seat.request()
    seat.send(head("Transfer-Encoding: chunked") + b"5\r\nhello\r\n")


def begun_with_length(seat: Seat) -> None:
    seat.request()
    seat.send(head("Content-Length: 10") + b"hello")


@ways
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_leaves_while_it_waits(settle: Callable[..., Place], way: str, stream: bool) -> None:
    here = settle(warm=False)
    line = here.line()
    line.send(here.chat(stream=stream))
    here.waiting(1)
    LEAVE[way](line)
    here.waiting(0)
    here.warm()

    assert here.engine.raw == b""
    if way == "half-closes":
        assert line.ended() == b""


@ways
@pytest.mark.parametrize("begin", [silent, begun_with_chunks, begun_with_length])
def test_a_client_leaves_while_it_is_served(
    settle: Callable[..., Place], way: str, begin: Callable[[Seat], None]
) -> None:
    watch = Watch(begin)
    here = settle(watch)
    line = here.line()
    line.send(here.chat())
    assert watch.begun.wait(SOON_S)
    if begin is not silent:
        line.until(b"hello")
    LEAVE[way](line)

    assert watch.left.wait(SOON_S), "the engine goes on for nobody"
    here.running(0)
    if way == "half-closes":
        assert b"0\r\n\r\n" not in line.ended(), "an answer that was cut off looks whole"


@ways
def test_a_client_leaves_in_the_middle_of_its_upload(settle: Callable[..., Place], way: str) -> None:
    begun, left = threading.Event(), threading.Event()

    def script(seat: Seat) -> None:
        seat.head()
        begun.set()
        seat.gone_after_reading()
        left.set()

    here = settle(script)
    line = here.line()
    line.send(request("POST", here.path, f"Content-Length: {9 * 2**20}", body=None), bytes(2**20))
    assert begun.wait(SOON_S)
    LEAVE[way](line)

    assert left.wait(SOON_S)
    here.running(0)


@ways
@pytest.mark.parametrize("raw", [b"POST /v1/comp", b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n", None])
def test_a_client_leaves_before_its_request_is_whole(here: Place, way: str, raw: bytes | None) -> None:
    """Closed; not one byte reaches the engine. `None`: in the middle of a body that is kept."""
    line = here.line()
    line.send(raw or here.chat(text="x" * 100)[:-5])
    LEAVE[way](line)
    if way == "half-closes":
        said = line.ended()
        assert said == b"" or said.startswith(b"HTTP/1.1 400 ")

    here.serves()


@ways
def test_a_client_leaves_before_its_large_upload_finds_an_engine(settle: Callable[..., Place], way: str) -> None:
    """Its body waits in the network meanwhile, and hides that there is nobody any more."""
    here = settle(warm=False)
    line = here.line()
    line.send(request("POST", here.path, f"Content-Length: {9 * 2**20}", body=None), bytes(2**20))
    here.waiting(1)
    LEAVE[way](line)

    here.waiting(0)


def test_a_client_is_torn_off_in_an_upload_that_stands(settle: Callable[..., Place]) -> None:
    """An orderly close stays unseen here: its FIN comes after data that nobody has room for."""
    begun, left = threading.Event(), threading.Event()

    def stands(seat: Seat) -> None:
        seat.head()
        assert begun.wait(2 * SOON_S)
        seat.gone_after_reading()
        left.set()

    here = settle(stands)
    line = here.line()
    line.send(request("POST", here.path, f"Content-Length: {2**30}", body=None))
    assert line.push(2**30, quiet_s=0.5) < 2**30
    LEAVE["resets"](line)
    here.running(0)
    begun.set()

    assert left.wait(SOON_S)


@ways
@pytest.mark.parametrize("count", [2, 50])
def test_leaving_with_more_requests_behind_takes_them_along(settle: Callable[..., Place], way: str, count: int) -> None:
    watch = Watch(silent)
    here = settle(watch)
    line = here.line()
    line.send(here.chat() * count)
    assert watch.begun.wait(SOON_S)
    LEAVE[way](line)

    assert watch.left.wait(SOON_S)
    here.running(0)
    assert len(here.engine.seen) == 1


def test_leaving_while_the_answer_stands_frees_all(settle: Callable[..., Place]) -> None:
    """The portal waits to write, and reads nothing meanwhile: it must see the client go all the same."""
    left = threading.Event()

    def flood(seat: Seat) -> None:
        seat.request()
        seat.send(head(f"Content-Length: {2**30}"))
        seat.push(2**30, quiet_s=0.5)
        seat.gone()
        left.set()

    here = settle(flood)
    line = here.line()
    line.send(here.post())
    line.until(b"\r\n\r\n")
    line.reset()

    assert left.wait(SOON_S)


DIES: dict[str, Callable[[Seat], None]] = {"closes": Seat.close, "resets": Seat.reset}
deaths = pytest.mark.parametrize("death", DIES)


def mortal(before: bytes, death: str, *, times: int) -> Callable[[Seat], None]:
    """Says `before` and dies, so many times; after that it is a good engine."""
    lives = iter(range(times))

    def script(seat: Seat) -> None:
        seat.request()
        if next(lives, None) is None:
            seat.send(OK)
            return
        seat.send(before)
        DIES[death](seat)

    return script


@deaths
@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 20", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_an_engine_that_dies_before_its_answer_is_followed_by_another(
    settle: Callable[..., Place], death: str, before: bytes
) -> None:
    here = settle(mortal(before, death, times=1))
    line = here.line()
    line.send(here.chat(text="kept"))
    answer = line.answer()

    assert (answer.status, answer.body) == (200, b'{"said": "hello"}')
    one, other = here.engine.seen
    assert (one.body, one.target) == (other.body, other.target)
    assert _from_the_client(one) == _from_the_client(other)


def _from_the_client(seen: Seen) -> list[tuple[str, str]]:
    return [pair for pair in seen.headers if pair[0].lower() not in ("host", "traceparent")]


@deaths
def test_two_deaths_are_an_error_of_the_engine(settle: Callable[..., Place], death: str) -> None:
    here = settle(mortal(b"", death, times=2))
    line = here.line()
    line.send(here.chat())
    answer = line.answer()

    assert (answer.status, answer.error()["code"]) == (502, "engine_lost")
    assert answer.header("retry-after")
    assert len(here.engine.seen) == 2
    if not answer.closes:
        line.send(here.chat())
        assert line.answer().status == 200


@deaths
@pytest.mark.parametrize(
    ("before", "framing"),
    [
        (head("Content-Length: 9") + b"hello", "length"),
        (head("Transfer-Encoding: chunked") + b"5\r\nhello\r\n", "chunked"),
        (head("Transfer-Encoding: chunked", "Content-Type: text/event-stream") + b"9\r\nhello", "chunked"),
    ],
)
def test_a_death_after_the_first_byte_is_seen_by_the_client(
    settle: Callable[..., Place], death: str, before: bytes, framing: str
) -> None:
    read = threading.Event()

    def dies(seat: Seat) -> None:
        seat.request()
        seat.send(before)
        assert read.wait(SOON_S)  # a reset overtakes what was sent before it
        DIES[death](seat)

    here = settle(dies)
    line = here.line()
    line.send(here.chat())
    assert line.readable(SOON_S)
    read.set()
    answer = line.answer()

    assert (answer.status, answer.framing, answer.whole) == (200, framing, False)
    assert b"hello".startswith(answer.body)
    assert line.ended() == b""
    assert len(here.engine.seen) == 1, "what was answered in part must not be asked again"


def test_an_upload_that_cannot_be_kept_is_not_sent_twice(settle: Callable[..., Place]) -> None:
    def dies(seat: Seat) -> None:
        seat.head()
        seat.reset()

    here = settle(dies)
    line = here.line()
    line.send(request("POST", here.path, f"Content-Length: {9 * 2**20}", body=None), bytes(9 * 2**20))
    answer = line.answer()

    assert answer.status == 502
    assert len(here.engine.seats) == 1


def test_an_engine_that_takes_no_connection_costs_no_request(settle: Callable[..., Place]) -> None:
    """It has seen nothing of the request, which waits until there is one that does."""
    here, other = settle(), settle()
    here.engine.close()
    line = here.line()
    line.send(here.chat())
    here.waiting(1)
    here.house.push(route(here.service, other.engine.url))

    assert line.answer().status == 200
    assert len(other.engine.seen) == 1


def test_a_stream_over_chunks_ends_only_when_its_engine_says_so(settle: Callable[..., Place]) -> None:
    """The control of the cases above: the same words, ended in order, are whole."""

    def good(seat: Seat) -> None:
        seat.request()
        seat.send(head("Transfer-Encoding: chunked") + chunked(b"hello"))

    here = settle(good)
    line = here.line()
    line.send(here.chat())
    answer = line.answer()

    assert (answer.body, answer.whole) == (b"hello", True)
