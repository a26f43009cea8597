"""The null backend and the clients, compiled: what they measure with must itself be right."""

import http.client
import json
import socket
import subprocess
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from portal import bodies, routes
from portal.build import HERE, Programs
from portal.machine import BenchFailed
from portal.subjects import Subject


def test_the_null_backend_tells_a_wrong_route(direct: Subject) -> None:
    routes.check_direct(direct)


def test_a_proxy_that_routes_wrong_fails(direct: Subject) -> None:
    # As a proxy that sends everything to one engine.
    with pytest.raises(BenchFailed, match="direct sent a request for model-0 to status 421"):
        routes.check(Subject("direct", (direct.ports[1],) * 4))


def test_a_body_without_a_length_is_refused(direct: Subject) -> None:
    with socket.create_connection(("127.0.0.1", direct.ports[0]), timeout=10) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 411 ")


def test_a_stream_is_whole_in_order_and_leaves_the_connection_usable(direct: Subject) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", direct.ports[2])) as connection:
        for _ in range(2):
            connection.request("POST", "/", bodies.stream("model-2", chunks=20, period_us=500))
            events = [
                json.loads(e.removeprefix(b"data: ")) for e in connection.getresponse().read().split(b"\n\n") if e
            ]
            assert [event["seq"] for event in events] == list(range(20))
            due = np.array([event["due_ns"] for event in events])
            assert set(np.diff(due)) == {500_000}


def test_the_stream_client_sees_every_chunk(programs: Programs, direct: Subject, tmp_path: Path) -> None:
    request, out = tmp_path / "request", tmp_path / "out"
    request.write_bytes(bodies.on_wire(bodies.stream("model-0", chunks=100_000, period_us=20_000)))
    command = [*map(str, (programs.streams, request, out)), "10", "0.1", "0.5", str(direct.ports[0])]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)
    assert said == {"streams": 10, "chunks": 250, "lost": 0}
    delays = np.fromfile(out, dtype=np.float32)
    assert len(delays) == 250
    assert delays.min() > 0


def test_a_stream_that_ends_early_fails_the_client(programs: Programs, direct: Subject, tmp_path: Path) -> None:
    request = tmp_path / "request"
    request.write_bytes(bodies.on_wire(bodies.stream("model-0", chunks=3, period_us=1_000)))
    command = [*map(str, (programs.streams, request, tmp_path / "out")), "2", "0", "0.5", str(direct.ports[0])]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "a stream ended after 3 chunks, answered 200\n"


def test_the_latency_client_counts_only_right_answers(programs: Programs, direct: Subject, tmp_path: Path) -> None:
    request = tmp_path / "request"
    request.write_bytes(bodies.on_wire(bodies.chat("model-1", first=True)))
    right, wrong = (
        subprocess.run(
            [programs.latency, str(port), "50", request], check=False, capture_output=True, text=True, timeout=60
        )
        for port in (direct.ports[1], direct.ports[0])
    )
    said = json.loads(right.stdout)
    assert said["requests"] == 50
    assert 0 < said["p50_us"] <= said["p99_us"] <= said["max_us"]
    assert (wrong.returncode, wrong.stderr) == (1, "answered 421: this body names another model\n\n")


def test_the_peers_configurations_know_the_models_of_the_bench() -> None:
    for name in ("haproxy.cfg", "Caddyfile"):
        text = (HERE / name).read_text(encoding="utf-8")
        assert all(text.count(model) for model in bodies.MODELS), name
        assert all(text.count(f"BENCH_ENGINE_{n}") == 1 for n in range(len(bodies.MODELS))), name
