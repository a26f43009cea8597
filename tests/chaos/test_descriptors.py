"""No descriptor left: in the portal, in `up`, in the host; each refuses visibly and is as before with some."""

import contextlib
import os
import resource
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import psutil
import pytest

from activator_ext.app.machine import FILES_NEEDED
from tests.chaos.kit import ChaosUp, clients, serves_again, told
from tests.chaos.rows import Row
from tests.serving import running, wait_for


@contextmanager
def none_left(process: psutil.Process) -> Iterator[None]:
    """The process may open nothing more."""
    before = process.rlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in _descriptors(process))
    process.rlimit(resource.RLIMIT_NOFILE, (highest + 1, before[1]))
    try:
        yield
    finally:
        process.rlimit(resource.RLIMIT_NOFILE, before)


def _descriptors(process: psutil.Process) -> list[str]:
    return os.listdir(f"/proc/{process.pid}/fd")


@contextmanager
def idle(address: str, count: int) -> Iterator[list[socket.socket]]:
    """So many connections that say nothing."""
    host, _, port = address.rpartition(":")
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection((host, int(port)), timeout=30)) for _ in range(count)]


def test_a_portal_without_descriptors_sheds_and_recovers(up: ChaosUp, row: Row) -> None:
    """Who is connected is answered; who comes is refused visibly, nobody is answered wrongly."""
    up.serve("chat")
    with running(up), httpx.Client(base_url=f"http://{up.portal}") as connected:
        serves_again(up)
        body = {"model": "chat", "prompt": "one", "max_tokens": 2}
        assert connected.post("/v1/completions", json=body).status_code == 200
        portal = up.part("portal")
        # The gaps among its descriptors are filled first.
        with idle(up.portal, 20), none_left(portal), idle(up.portal, 100):
            said = {told(up, "chat", stream=False, timeout_s=3).split()[0] for _ in range(3)}
            assert said <= {"broken", "error"}, said
        serves_again(up, within_s=30)
        assert up.part("portal").pid == portal.pid
    row.tell(done="portal without a free descriptor, 120 connections", outcome=f"shed ({', '.join(said)}); recovered")


@pytest.mark.prove
def test_up_without_descriptors_serves_and_recovers(up: ChaosUp, row: Row) -> None:
    up.serve("chat")
    up.serve("cold")
    with running(up):
        serves_again(up)
        controller = up.part("controller")
        api = up.address()[0].removeprefix("http://")
        with idle(api, 20), none_left(controller), idle(api, 100):
            assert told(up, "chat", stream=False) == "answered"
            with pytest.raises(httpx.TransportError):
                httpx.get(f"http://{api}/readyz", timeout=2)
        wait_for(lambda: up.api("GET", "/readyz").is_success, within_s=60, saying=f"the API answers:\n{up.said()}")
        serves_again(up, "cold", within_s=60)
        assert up.part("controller").pid == controller.pid
    assert "Traceback" not in up.said(), up.said()
    assert up.said().count("no descriptor is free") == 1
    row.tell(done="up without a free descriptor, 120 connections", outcome="requests served; API back with descriptors")


@pytest.mark.prove
def test_a_host_without_descriptors_names_it_and_recovers(up: ChaosUp, row: Row) -> None:
    up.serve("chat")
    with running(up):
        up.wait_warmth("chat", "cold")
        host = up.part("host")
        with none_left(host):
            said = told(up, "chat", stream=False)
            assert said.startswith("error 503"), said
            failure = up.status("chat")["last_failure"]
            assert "Too many open files" in failure["message"], failure
        serves_again(up, within_s=60)
        assert up.part("host").pid == host.pid
        up.never_two()
    row.tell(done="host without a free descriptor", outcome=f"{said}: {failure['message'][:60]}…; recovered")


def test_a_limit_below_what_is_needed_is_named(up: ChaosUp, row: Row) -> None:
    up.serve("chat")
    up.prefix = ["prlimit", f"--nofile={FILES_NEEDED - 1}:{FILES_NEEDED - 1}"]
    failed = subprocess.run(up.argv(), capture_output=True, text=True, timeout=60, check=False)
    assert failed.returncode == 1
    assert failed.stderr.count("\n") == 1
    assert "ulimit -n" in failed.stderr
    assert up.processes() == []
    row.tell(done=f"ulimit -n {FILES_NEEDED - 1}", outcome="refused in one line, status 1")


@pytest.mark.prove
def test_the_least_limit_is_enough(up: ChaosUp, row: Row) -> None:
    up.serve("chat")
    up.prefix = ["prlimit", f"--nofile={FILES_NEEDED}:{FILES_NEEDED}"]
    with running(up):
        serves_again(up)
        with clients(up, "chat", streams=[False] * 40) as asked:
            pass
        assert {client.result() for client in asked} == {"answered"}
    row.tell(done=f"ulimit -n {FILES_NEEDED}, 40 clients at once", outcome="all answered")
