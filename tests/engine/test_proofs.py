"""Long proofs on real vLLM (`make prove`): the announced minute again and again, and deaths in the middle of life."""

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from tests.engine.conftest import ARGS, model
from tests.engine.test_serving import START_S, text
from tests.serving import Up, running, runtime, service, wait_for

pytestmark = pytest.mark.prove

MINUTES = 5


@pytest.fixture
def own(tmp_path: Path) -> Up:
    """An `up` of the test's own, which it may kill."""
    up = Up(tmp_path)
    (up.files / "runtime.yaml").write_text(runtime(*ARGS))
    model(up.models / "one", 1)
    (up.files / "one.yaml").write_text(service("one", cost="60s"))
    return up


def test_the_announced_minute_again_and_again(own: Up, capsys: pytest.CaptureFixture[str]) -> None:
    """Each run has its own minute: ready before it, not needlessly early, and no engine before it was asked for."""
    good = (own.files / "one.yaml").read_text().replace("60s", "1s", 1)
    rows: list[tuple[float, float, float]] = []
    with running(own):
        for _ in range(MINUTES):
            own.wait_warmth("one", "cold", within_s=120)
            wait_for(lambda: not own.engines(), within_s=60, saying="no engine")
            lead_s = own.status("one")["lead_time_s"]
            minute = minute_after(datetime.now(UTC) + timedelta(seconds=lead_s + 5))
            until = minute + timedelta(minutes=1)
            (own.files / "one.yaml").write_text(good + schedule(minute, until))
            status = own.wait_warmth("one", "warm", within_s=START_S)
            ready = datetime.fromisoformat(status["replicas"][0]["ready_at"])
            took_s = own.starts("one")[0]["ready_s"]
            rows.append((lead_s, took_s, (minute - ready).total_seconds()))
            (own.files / "one.yaml").write_text(good)
    with capsys.disabled():
        print("\nplanned lead s · start took s · ready before its minute s")
        for planned_s, took_s, early_s in rows:
            print(f"{planned_s:14.1f} · {took_s:12.1f} · {early_s:8.1f}")
    # The first is planned with the prior alone; every later one must keep its minute and waste no more than it planned.
    assert all(early_s >= 0 for _, _, early_s in rows[1:])
    assert all(early_s <= planned_s - took_s + 5 for planned_s, took_s, early_s in rows)


def minute_after(instant: datetime) -> datetime:
    """The next whole minute."""
    return instant.replace(second=0, microsecond=0) + timedelta(minutes=1)


def schedule(ready_by: datetime, until: datetime) -> str:
    """A schedule of one day's minute, in UTC."""
    cron = "{0.minute} {0.hour} {0.day} {0.month} *"
    text = '  schedules:\n  - {name: proof, timeZone: UTC, readyBy: "READY", until: "UNTIL"}\n'
    return text.replace("READY", cron.format(ready_by)).replace("UNTIL", cron.format(until))


def test_a_killed_up_is_followed_by_one_that_adopts_the_engine(own: Up) -> None:
    with running(own):
        first = text(own.ask("one", timeout_s=START_S))
        pid = own.status("one")["replicas"][0]["pid"]
        own.end(signal.SIGKILL)
        assert text(own.ask("one", timeout_s=START_S)) == first
        own.begin()
        assert own.status("one")["replicas"][0]["pid"] == pid
        assert text(own.ask("one", timeout_s=START_S)) == first
        assert len(own.starts("one")) == 1


def test_a_killed_up_without_a_successor_leaves_nothing(own: Up) -> None:
    with running(own):
        own.ask("one", timeout_s=START_S)
        own.end(signal.SIGKILL)
        wait_for(lambda: not own.processes(), within_s=180, saying="host, portal and engine are gone")


@pytest.mark.parametrize("victim", ["API server", "engine core", "worker", "host"])
def test_a_killed_process_leaves_no_orphan_and_the_service_comes_back(own: Up, victim: str) -> None:
    choose: dict[str, Callable[[psutil.Process], bool]] = {
        "API server": lambda p: "runtime.engine.serve" in p.cmdline(),
        "engine core": lambda p: "EngineCor" in p.name(),
        "worker": lambda p: "Worker" in p.name(),
        "host": lambda p: "runtime.host" in p.cmdline(),
    }
    with running(own), ThreadPoolExecutor(1) as pool:
        first = text(own.ask("one", timeout_s=START_S))
        before = own.engines()
        next(p for p in own.processes() if choose[victim](p)).kill()
        psutil.wait_procs(before, timeout=30)
        assert not [p for p in before if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
        assert text(pool.submit(own.ask, "one", timeout_s=START_S).result()) == first
