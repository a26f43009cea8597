"""The bench's measures on the real portal: command line, table and metrics are as the bench expects."""

import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal import children, routes, subjects
from portal.build import Programs
from portal.controller import controller
from portal.machine import BenchFailed, Cores
from portal.measures import Bench
from portal.subjects import Subject


@pytest.fixture
def folder() -> Iterator[Path]:
    # Paths of unix sockets are short, and pytest's folders may be too long for them.
    path = Path(tempfile.mkdtemp(prefix="bench-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def portal(folder: Path, direct: Subject, cores: Cores) -> Iterator[Subject]:
    with subjects.portal(folder, cores, direct.ports) as subject:
        yield subject


@pytest.fixture
def bench(programs: Programs, cores: Cores, tmp_path: Path) -> Bench:
    bench = Bench(programs, cores, tmp_path)
    bench.write_requests()
    return bench


def test_the_portal_routes_right_and_is_not_misled(portal: Subject) -> None:
    assert routes.check(portal) == "9 of 9"


def test_its_latency_is_measured_and_its_metrics_count_it(portal: Subject, bench: Bench) -> None:
    measured = bench.latency(portal, 200)
    assert 0 < measured.p50_ms <= measured.p99_ms <= measured.max_ms
    portal.check_metrics(at_least=220)  # a tenth more to warm up
    with pytest.raises(
        BenchFailed, match=r"portal had 221 requests; its metric pilotlight_portal_requests_total says 220"
    ):
        portal.check_metrics(at_least=221)


def test_its_streams_are_measured_chunk_by_chunk(portal: Subject, bench: Bench) -> None:
    measured = bench.streams(portal, 10, 50, 0.5)
    assert len(measured.delays_ms) + measured.missing == 250
    assert measured.memory_bytes >= measured.memory_before_bytes > 2**20


def test_streams_that_break_name_who_broke_them(bench: Bench) -> None:
    with socket.socket() as deaf:  # bound, but nobody listens
        deaf.bind(("127.0.0.1", 0))
        subject = Subject("caddy", (deaf.getsockname()[1],) * 4)
        with pytest.raises(BenchFailed, match=r"^caddy: streams ended with 1 and said: send: Connection refused$"):
            bench.streams(subject, 2, 50, 0.5)


def test_a_measure_that_does_not_end_is_ended(cores: Cores) -> None:
    with pytest.raises(BenchFailed, match=r"^portal: sleep did not end within 1 s$"):
        children.run_json("portal", ["sleep", "60"], cpu=cores.load, timeout_s=1.0)


def test_a_portal_that_ends_in_the_middle_of_a_report_is_no_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = set(threading.enumerate())
    with controller(folder / "c.sock", [1, 2, 3, 4]):
        with socket.socket(socket.AF_UNIX) as gone:
            gone.connect(str(folder / "c.sock"))
            gone.sendall(b"POST /v1/internal/portal HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
            gone.recv(1)  # the rest of the answer stays unread, which resets the connection
        for thread in set(threading.enumerate()) - before:
            thread.join(0.5)
    assert capsys.readouterr().err == ""


def test_a_proxy_that_does_not_begin_is_told_with_what_it_said(folder: Path, direct: Subject, cores: Cores) -> None:
    (folder / "portal.sock").mkdir()
    with (
        pytest.raises(BenchFailed, match=r"portal did not begin to serve: .*cannot listen on"),
        subjects.portal(folder, cores, direct.ports),
    ):
        pass
