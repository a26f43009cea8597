"""The host as a process, with the fake engine (tests/fakes/engine.py; tests/engine does it with real vLLM)."""

import os
import shlex
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psutil
import pytest

from runtime.contract import EngineSpec, HostView, Lease, Mark, ServiceOrder, StartRecord, Stop, Warmth
from tests.fakes.model import fake_command, make_model
from tests.serving import wait_for

CHAT = "test/chat"


class HostProcess:
    """One `python -m runtime.host` and calls of its admin API."""

    def __init__(self, root: Path, lease_s: float) -> None:
        self.root = root
        self.socket = root / "host.sock"
        argv = [sys.executable, "-m", "runtime.host", "--socket", str(self.socket), "--root", str(root / "engines")]
        argv += ["--lease-s", str(lease_s), "--engine-command", shlex.join(fake_command())]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._http = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(self.socket)), base_url="http://host", timeout=10
        )
        wait_for(self.socket.exists, within_s=20, saying="the host listens")

    def call(self, method: str, path: str, body: str | None = None) -> httpx.Response:
        return self._http.request(method, path, content=body)

    def view(self) -> HostView:
        return HostView.model_validate_json(self.call("GET", "/v1/host").content)

    def order(
        self, replicas: int, *, args: tuple[str, ...] = (), model: str = "model", stuck_after_s: float = 300.0
    ) -> httpx.Response:
        spec = EngineSpec(
            service=CHAT, served_names=(CHAT,), model=str(self.root / model), args=args, drain_timeout_s=10.0
        )
        order = ServiceOrder(spec=spec, replicas=replicas, asked_at=datetime.now(UTC), stuck_after_s=stuck_after_s)
        return self.call("PUT", f"/v1/services/{CHAT}", order.model_dump_json())

    def warm(self, count: int) -> list[str]:
        """Wait for so many warm replicas; their ids."""

        def reached() -> list[str] | None:
            ids = [r.id for s in self.view().services for r in s.replicas if r.warmth is Warmth.WARM and not r.draining]
            return ids if len(ids) == count else None

        return wait_for(reached, within_s=30, saying=f"{count} warm")

    def began(self, count: int) -> None:
        """Wait until so many starts have begun, ever."""
        wait_for(lambda: len(self.view().starts) == count, within_s=10, saying=f"{count} starts")

    def engine_pids(self) -> list[int]:
        return [r.pid for s in self.view().services for r in s.replicas if r.pid is not None]

    def close(self) -> None:
        self._http.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def host_with(tmp_path: Path) -> Iterator[Callable[[float], HostProcess]]:
    made: list[HostProcess] = []
    make_model(tmp_path / "model")

    def begin(lease_s: float) -> HostProcess:
        made.append(HostProcess(tmp_path, lease_s))
        return made[-1]

    yield begin
    for host in made:
        host.close()


def test_a_ready_replica_reaches_the_second_level(host_with: Callable[[float], HostProcess]) -> None:
    host = host_with(60)
    host.order(1)
    host.warm(1)

    def reached() -> StartRecord | None:
        (start,) = host.view().starts
        return start if start.warmed_at else None

    start = wait_for(reached, within_s=20, saying="every shape warmed")
    assert start.outcome == "ready"
    assert start.warmed_at is not None
    assert start.warmed_at >= start.marks[Mark.T9]
    assert start.ready_s == (start.marks[Mark.T9] - start.marks[Mark.T0]).total_seconds()
    (log,) = host.root.glob("engines/**/engine.log")
    assert "gate: warmed" in log.read_text()


@contextmanager
def gone_afterwards(host: HostProcess) -> Iterator[None]:
    """Every engine that runs now is gone when the block and the host have ended."""
    engines = [psutil.Process(pid) for pid in host.engine_pids()]
    assert engines
    yield
    host.process.wait(30)
    _, alive = psutil.wait_procs(engines, timeout=10)
    assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]


def test_a_lease_that_ends_ends_the_host_and_its_engines(host_with: Callable[[float], HostProcess]) -> None:
    host = host_with(4.0)
    host.order(1)
    host.warm(1)
    with gone_afterwards(host):
        pass
    assert host.process.returncode == 0
    assert not host.socket.exists()


def test_a_renewed_lease_keeps_it(host_with: Callable[[float], HostProcess]) -> None:
    host = host_with(1.0)
    host.call("PUT", "/v1/host/lease", Lease(seconds=60).model_dump_json())
    begun = time.monotonic()
    wait_for(lambda: time.monotonic() - begun > 1.5, within_s=5, saying="the first lease is over")
    assert host.process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_drains_and_ends_it(host_with: Callable[[float], HostProcess], number: int) -> None:
    host = host_with(60.0)
    host.order(1)
    host.warm(1)
    with gone_afterwards(host):
        host.process.send_signal(number)
    assert host.process.returncode == 0


def test_a_killed_host_takes_its_engines_along(host_with: Callable[[float], HostProcess]) -> None:
    host = host_with(60.0)
    host.order(1)
    host.warm(1)
    with gone_afterwards(host):
        host.process.kill()


def test_stop_is_answered_and_no_order_is_taken_after(host_with: Callable[[float], HostProcess]) -> None:
    host = host_with(60.0)
    host.order(2)
    assert host.warm(2) == ["test/chat/0", "test/chat/1"]
    with gone_afterwards(host):
        assert host.call("POST", "/v1/host/stop", Stop(drain_s=1.0).model_dump_json()).status_code == 202
        wait_for(lambda: host.order(1).status_code == 409, within_s=2, saying="orders are refused")


def test_a_failed_start_is_tried_again_after_its_back_off(host_with: Callable[[float], HostProcess]) -> None:
    host = host_with(60.0)
    broken = make_model(host.root / "broken", exit_at={"stage": "compile", "code": 7})
    host.order(1, model="broken")
    failed = wait_for(lambda: host.view().services[0].retry_at, within_s=20, saying="a failure")
    view = host.view().services[0]
    assert view.last_failure is not None
    assert (view.last_failure.numbers["exit_code"], view.replicas) == (7, ())
    assert 0 < (failed - view.last_failure.at).total_seconds() <= 11
    assert view.replicas_wanted == 0
    (broken / "fake.json").unlink()
    host.order(1, model="broken")
    assert host.view().services[0].replicas == ()
    wait_for(lambda: host.view().services[0].retry_at is None, within_s=20, saying="the back-off is over")
    assert host.view().services[0].replicas == (), "who asked during the back-off may be gone"
    host.order(1, model="broken")
    host.warm(1)
    assert host.view().services[0].last_failure is not None


def test_what_is_on_its_way_to_an_engine_that_is_let_go_is_answered(host_with: Callable[[float], HostProcess]) -> None:
    """The portal sends on until it hears of it. Found by seed 39 of tests/races, and by two 502 in tests/leaks."""
    host = host_with(60.0)
    host.order(1)
    host.warm(1)
    url = host.view().services[0].replicas[0].url
    host.order(0)
    assert [replica.draining for replica in host.view().services[0].replicas] == [True]
    asked = {"model": CHAT, "prompt": "p", "max_tokens": 1}
    for _ in range(10):
        assert httpx.post(f"{url}/v1/completions", json=asked).status_code == 200


def test_a_new_spec_replaces_a_failing_one_at_once(host_with: Callable[[float], HostProcess]) -> None:
    host = host_with(60.0)
    make_model(host.root / "broken", exit_at={"stage": "compile", "code": 7})
    host.order(1, model="broken")
    wait_for(lambda: host.view().services[0].retry_at, within_s=20, saying="a failure")
    host.order(1)
    assert host.view().services[0].retry_at is None
    host.warm(1)


def test_an_edit_that_cannot_start_leaves_the_engine_of_before(host_with: Callable[[float], HostProcess]) -> None:
    host = host_with(60.0)
    host.order(1)
    host.warm(1)
    (pid,) = host.engine_pids()
    host.order(1, model="missing")
    wait_for(lambda: host.view().services[0].retry_at, within_s=20, saying="a failure")
    view = host.view().services[0]
    assert (view.replicas_wanted, [replica.pid for replica in view.replicas]) == (0, [pid])
    assert (view.replicas[0].warmth, view.replicas[0].stale, view.replicas[0].draining) == (Warmth.WARM, True, False)


def test_after_a_failure_a_wake_asks_again(host_with: Callable[[float], HostProcess]) -> None:
    """The engine dies under a host that nobody orders any more; the portal has a request for it."""
    host = host_with(60.0)
    host.order(1)
    host.warm(1)
    os.kill(host.engine_pids()[0], signal.SIGKILL)
    wait_for(lambda: host.view().services[0].last_failure, within_s=10, saying="it is seen")
    record = host.view().starts[0]
    assert record.outcome == "ready"
    assert record.ended is not None
    assert record.ended.numbers["signal"] == "SIGKILL"
    assert (host.view().services[0].replicas, host.view().services[0].replicas_wanted) == ((), 0)
    host.call("POST", f"/v1/services/{CHAT}/wake")
    host.warm(1)


def test_the_order_says_when_a_start_is_stuck(host_with: Callable[[float], HostProcess]) -> None:
    host = host_with(60.0)
    make_model(host.root / "hangs", hang_at="warm_up")
    host.order(1, model="hangs", stuck_after_s=1.0)
    failure = wait_for(lambda: host.view().services[0].last_failure, within_s=20, saying="a failure")
    assert (failure.cause, failure.numbers["stuck_after_s"]) == ("stuck", 1.0)


def test_edits_during_a_start_leave_one_engine(host_with: Callable[[float], HostProcess]) -> None:
    """Each edit cancels the start under way and begins one other, not two."""
    host = host_with(60.0)
    make_model(host.root / "slow", start_s=1.5)
    for edit in range(1, 4):
        host.order(1, model="slow", args=(f"--max-num-seqs={edit}",))
        host.began(edit)
    host.warm(1)
    starts = host.view().starts
    assert [start.outcome for start in starts] == ["cancelled", "cancelled", "ready"]
    engines = [p.pid for p in psutil.Process(host.process.pid).children() if p.status() != psutil.STATUS_ZOMBIE]
    assert engines == host.engine_pids()


def test_what_is_not_as_agreed_is_refused(host_with: Callable[[float], HostProcess]) -> None:
    host = host_with(60.0)
    assert stat.S_IMODE(os.stat(host.socket).st_mode) == 0o600
    assert host.call("PUT", f"/v1/services/{CHAT}", "{}").status_code == 400
    body = ServiceOrder(
        spec=EngineSpec(service="test/other", served_names=("x",), model="/m"), replicas=1, asked_at=datetime.now(UTC)
    )
    assert host.call("PUT", f"/v1/services/{CHAT}", body.model_dump_json()).status_code == 400
    assert host.call("POST", f"/v1/services/{CHAT}/wake").status_code == 404
    hostile = body.model_dump_json().replace("test/other", "test/../..")
    assert host.call("PUT", f"/v1/services/{CHAT}", hostile).status_code == 400
    assert host.view().services == ()


def test_wake_starts_one_and_again_changes_nothing(host_with: Callable[[float], HostProcess]) -> None:
    host = host_with(60.0)
    host.order(0)
    assert host.call("POST", f"/v1/services/{CHAT}/wake").status_code == 200
    host.warm(1)
    host.call("POST", f"/v1/services/{CHAT}/wake")
    assert host.view().services[0].replicas_wanted == 1


def test_a_forgotten_service_leaves_nothing(host_with: Callable[[float], HostProcess]) -> None:
    host = host_with(60.0)
    host.order(1)
    host.warm(1)
    host.call("DELETE", f"/v1/services/{CHAT}")
    wait_for(lambda: host.view().services == (), within_s=20, saying="it is forgotten")
    assert not (host.root / "engines" / "test" / "chat").exists()


def test_a_directory_that_cannot_be_made_is_a_failed_start(host_with: Callable[[float], HostProcess]) -> None:
    """As on a full disk: the order stands, the failure is told, the next try comes."""
    host = host_with(60.0)
    (host.root / "engines").mkdir(exist_ok=True)
    (host.root / "engines" / "test").write_text("in the way")
    assert host.order(1).status_code == 204
    wait_for(lambda: host.view().services[0].retry_at, within_s=20, saying="a failure")
    failure = host.view().services[0].last_failure
    assert failure is not None
    assert failure.cause == "spawn-failed"
    assert "directory cannot be made" in failure.message
