"""Ordinary faults of local mode: each process killed, two at once, an address that is taken."""

import os
import signal
import socket
import subprocess

import psutil

from tests.fakes.model import make_model
from tests.serving import Up, running, service, wait_for


def prepare(up: Up, *, child: bool = False) -> None:
    make_model(up.models / "chat", child=child)
    (up.files / "chat.yaml").write_text(service("chat", cost="60s"))


def process_of(up: Up, module: str) -> psutil.Process:
    (found,) = [p for p in up.processes() if module in p.cmdline()]
    return found


def test_the_next_up_adopts_what_a_killed_one_left(up: Up) -> None:
    prepare(up)
    with running(up):
        before = up.ask("chat").json()["choices"]
        pid = up.status("chat")["replicas"][0]["pid"]
        up.end(signal.SIGKILL)
        assert up.ask("chat").json()["choices"] == before
        up.begin()
        status = up.status("chat")
        assert (status["warmth"], status["replicas"][0]["pid"]) == ("warm", pid)
        assert up.ask("chat").json()["choices"] == before
        assert len(up.starts("chat")) == 1


def test_the_next_up_replaces_what_does_not_answer(up: Up) -> None:
    prepare(up)
    with running(up):
        assert up.ask("chat").status_code == 200
        portal = process_of(up, "activator_ext.portal")
        up.end(signal.SIGKILL)
        portal.suspend()
        up.begin()
        assert not portal.is_running() or portal.status() == psutil.STATUS_ZOMBIE
        assert up.ask("chat").status_code == 200


def test_without_a_controller_the_portal_wakes_the_host(up: Up) -> None:
    prepare(up)
    with running(up):
        wait_for(lambda: up.api("GET", "/v1/plan").json()["services"], within_s=10, saying="a decision")
        up.end(signal.SIGKILL)
        assert up.ask("chat").status_code == 200
        up.begin()
        assert up.status("chat")["warmth"] == "warm"


def test_a_killed_host_takes_its_engines_along_and_is_replaced(up: Up) -> None:
    prepare(up, child=True)
    with running(up):
        assert up.ask("chat").status_code == 200
        engines = up.engines()
        assert len(engines) == 2
        process_of(up, "runtime.host").kill()
        psutil.wait_procs(engines, timeout=10)
        assert not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in engines)
        assert up.ask("chat").status_code == 200


def test_a_killed_portal_is_replaced(up: Up) -> None:
    prepare(up)
    with running(up):
        assert up.ask("chat").status_code == 200
        process_of(up, "activator_ext.portal").kill()
        wait_for(lambda: "portal had ended" in up.said(), within_s=20, saying="a new portal")
        assert up.ask("chat").status_code == 200
        assert len(up.starts("chat")) == 1


def test_a_dead_engine_is_started_again(up: Up) -> None:
    prepare(up)
    with running(up):
        assert up.ask("chat").status_code == 200
        pid = up.status("chat")["replicas"][0]["pid"]
        os.kill(pid, signal.SIGKILL)
        assert up.ask("chat").status_code == 200
        assert len(up.starts("chat")) == 2
        assert up.status("chat")["last_failure"]["cause"] == "died-after-ready"


def test_a_second_up_on_one_state_directory_refuses(up: Up) -> None:
    prepare(up)
    with running(up):
        second = subprocess.run(up.argv(), capture_output=True, text=True, timeout=60, check=False)
        assert second.returncode == 1
        assert "another `pilotlight up`" in second.stderr
        assert up.ask("chat").status_code == 200


def test_a_taken_address_is_named(up: Up) -> None:
    prepare(up)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        up.portal = f"127.0.0.1:{taken.getsockname()[1]}"
        failed = subprocess.run(up.argv(), capture_output=True, text=True, timeout=60, check=False)
    assert failed.returncode == 1
    assert up.portal.split(":")[1] in failed.stderr
    assert up.processes() == []


def test_bad_files_start_nothing(up: Up) -> None:
    prepare(up)
    (up.files / "chat.yaml").write_text(service("chat").replace("coldStartCost", "coldStartCosts"))
    failed = subprocess.run(up.argv(), capture_output=True, text=True, timeout=60, check=False)
    assert failed.returncode == 1
    assert "chat.yaml:" in failed.stderr
    assert "coldStartCosts" in failed.stderr
    assert up.processes() == []
