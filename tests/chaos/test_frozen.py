"""A portal or host that stands still (SIGSTOP) is noticed and replaced; one that is merely slow is not."""

import time

import psutil
import pytest

from activator_ext.app.pulse import STOPPED_S
from activator_ext.app.up import LOOK_S
from tests.chaos.kit import ChaosUp, serves_again, told
from tests.chaos.rows import Row
from tests.serving import running, wait_for

NOTICED_S = STOPPED_S + 2 * LOOK_S + 10
"""Patience, the looks around it, and a process's start on a busy machine."""


@pytest.mark.prove
def test_a_stopped_portal_and_a_stopped_host_are_replaced(up: ChaosUp, row: Row) -> None:
    up.serve("chat")
    with running(up):
        assert up.ask("chat").status_code == 200
        engine = up.leaders()[0]
        frozen = [up.part("host"), up.part("portal")]
        begun = time.monotonic()
        for process in frozen:
            process.suspend()
        psutil.wait_procs([*frozen, engine], timeout=NOTICED_S)
        assert not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in (*frozen, engine)), up.said()
        told_of = ("the host has not run for", "the portal has not run for")
        wait_for(lambda: all(text in up.said() for text in told_of), within_s=60, saying=f"it is told:\n{up.said()}")
        serves_again(up)
        row.tell(
            done="host and portal stopped by SIGSTOP",
            outcome="both replaced, said, served again",
            figure=f"{time.monotonic() - begun:.0f} s in all",
        )
        up.never_two()


def test_the_next_up_replaces_a_stopped_host(up: ChaosUp, row: Row) -> None:
    up.serve("chat")
    with running(up):
        assert up.ask("chat").status_code == 200
        host = up.part("host")
        up.kill("controller")
        host.suspend()
        begun = time.monotonic()
        up.begin()
        assert "stopped by a signal" in up.said()
        row.tell(
            done="host stopped, then up killed",
            outcome="the next up replaces the host",
            figure=f"ready in {time.monotonic() - begun:.1f} s",
        )
        serves_again(up)
        up.never_two()


@pytest.mark.prove
def test_a_portal_that_gets_hardly_any_time_is_kept(up: ChaosUp, row: Row) -> None:
    """Stopped for 2 s again and again, with a twentieth of a second in between: slow, and its clients stay."""
    up.serve("chat")
    with running(up):
        assert up.ask("chat").status_code == 200
        portal = up.part("portal")
        for _ in range(20):
            portal.suspend()
            time.sleep(2.0)
            portal.resume()
            time.sleep(0.05)
        assert told(up, "chat", stream=False) == "answered"
        assert up.part("portal").pid == portal.pid
        row.tell(done="portal stopped 20 times for 2 s", outcome="kept", figure="40 s with 2 % of its time")
