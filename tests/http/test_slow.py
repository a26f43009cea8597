"""Slow clients and slow engines: whoever is slow slows whom he speaks with, and costs the portal no memory."""

import hashlib
import resource
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.http.engine import Seat
from tests.http.house import Place, request
from tests.http.test_bodies import head
from tests.http.wire import SOON_S, Line, dial

MB = 2**20
# Socket buffers of both connections (tcp_wmem and tcp_rmem grow to 4 and 6 MB each) and the portal's own.
IN_BETWEEN_BYTES = 32 * MB
QUIET_S = 1.0  # nothing is taken for so long: it stands


@pytest.fixture
def descriptors() -> Iterator[None]:
    """As many as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    "framing", ["chunked", *(pytest.param(each, marks=pytest.mark.prove) for each in ("length", "close"))]
)
def test_an_answer_of_1_gb_stands_when_its_client_does(settle: Callable[..., Place], framing: str) -> None:
    size = 1000 * MB
    stood: list[int] = []
    stands, read_on = threading.Event(), threading.Event()

    def flood(seat: Seat) -> None:
        seat.request()
        if framing == "chunked":
            seat.send(head("Transfer-Encoding: chunked") + b"%x\r\n" % size)
        else:
            seat.send(head(*([f"Content-Length: {size}"] if framing == "length" else [])))
        stood.append(seat.push(size, quiet_s=QUIET_S))
        stands.set()
        assert read_on.wait(SOON_S)
        seat.push(size - stood[0], quiet_s=SOON_S)
        seat.send(b"\r\n0\r\n\r\n" if framing == "chunked" else b"")

    here = settle(flood)
    here.house.forget_peak()
    before = here.house.rss_bytes()
    line = here.line()
    line.send(here.post("Connection: close"))
    line.until(b"\r\n\r\n")
    assert stands.wait(2 * SOON_S)
    read_on.set()
    read = line.drain()

    assert 0 < stood[0] < IN_BETWEEN_BYTES, "the engine was read on although the client stood"
    assert read >= size
    assert here.house.rss_bytes() - before < IN_BETWEEN_BYTES


@pytest.mark.parametrize("clients", [40, pytest.param(400, marks=pytest.mark.prove)])
def test_many_clients_that_do_not_read(settle: Callable[..., Place], descriptors: None, clients: int) -> None:
    standing = threading.Semaphore(0)
    leave = threading.Event()

    def flood(seat: Seat) -> None:
        seat.request()
        seat.send(head(f"Content-Length: {64 * MB}"))
        assert seat.push(64 * MB, quiet_s=QUIET_S) < IN_BETWEEN_BYTES
        standing.release()
        assert leave.wait(60)
        seat.gone()

    here = settle(flood)
    here.house.forget_peak()
    before = here.house.rss_bytes()
    for _ in range(clients):
        line = here.line()
        line.send(here.post())
        line.until(b"\r\n\r\n")
    for _ in range(clients):
        assert standing.acquire(timeout=60)
    grown = here.house.rss_bytes() - before
    here.running(clients)
    for line in here.lines:
        line.close()
    leave.set()
    here.running(0)

    assert grown < clients * MB, f"{grown / clients / 1024:.0f} KiB each"


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_an_upload_stands_when_its_engine_does(settle: Callable[..., Place], framing: str) -> None:
    size = 200 * MB
    go = threading.Event()
    digest, read = hashlib.sha256(), 0

    def slow_reader(seat: Seat) -> None:
        parts = seat.head()
        assert go.wait(2 * SOON_S)
        seen = seat.rest(*parts)
        digest.update(seen.body)
        seat.send(head("Content-Length: 0"))

    here = settle(slow_reader)
    here.house.forget_peak()
    before = here.house.rss_bytes()
    line = here.line()
    length = f"Content-Length: {size}" if framing == "length" else "Transfer-Encoding: chunked"
    line.send(request("POST", here.path, length, body=None) + (b"%x\r\n" % size if framing == "chunked" else b""))
    taken = line.push(size, quiet_s=QUIET_S)
    stood_at = here.house.rss_bytes() - before
    go.set()
    while taken + read < size:
        read += line.push(size - taken - read, quiet_s=SOON_S)
    line.send(b"\r\n0\r\n\r\n" if framing == "chunked" else b"")

    assert line.answer().status == 200
    assert taken < IN_BETWEEN_BYTES + 8 * MB, "the client was read on although the engine stood"
    assert stood_at < IN_BETWEEN_BYTES
    assert here.house.rss_bytes() - before < IN_BETWEEN_BYTES
    assert digest.digest() == hashlib.sha256(bytes(size)).digest()


def test_2000_idle_connections_hurt_nobody(here: Place, descriptors: None) -> None:
    line = here.line()
    line.send(here.post())
    assert line.answer().status == 200
    before = here.house.rss_bytes("VmRSS")
    idle = [Line(here.address) for _ in range(2000)]
    try:
        for each in idle[::2]:
            each.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: por")  # half of them in the middle of a head
        here.house.health()
        grown = here.house.rss_bytes("VmRSS") - before
        for _ in range(50):
            with dial(here.address) as fresh:
                fresh.send(here.chat())
                assert fresh.answer().status == 200
            line.send(here.post())
            assert line.answer().status == 200
    finally:
        for each in idle:
            each.close()

    assert grown < 2000 * 32 * 1024, f"{grown / 2000 / 1024:.1f} KiB each"


def test_a_slow_client_does_not_slow_the_next(settle: Callable[..., Place]) -> None:
    """Both read from the same engine; one never does."""

    def flood(seat: Seat) -> None:
        seen = seat.request()
        size = 100 * MB if seen.body == b"{}" else 1 * MB
        seat.send(head(f"Content-Length: {size}"))
        seat.push(size, quiet_s=2 * SOON_S)

    here = settle(flood)
    slow, quick = here.line(), here.line()
    slow.send(here.post())
    slow.until(b"\r\n\r\n")
    quick.send(here.post(body=b'{"quick": 1}'))

    assert len(quick.answer().body) == MB
