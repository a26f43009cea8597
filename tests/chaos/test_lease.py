"""`up` dies and nobody begins another; or somebody takes its port before the next one."""

import socket
import subprocess
import time

import pytest

from tests.chaos.kit import ChaosUp, serves_again, told
from tests.chaos.rows import Row
from tests.serving import running, wait_for

LEASE_S = 60
# Running answers finish, the engine is asked to end, a busy machine is slow.
ENDED_S = LEASE_S + 60


@pytest.mark.prove
def test_without_a_next_up_all_ends_with_the_lease(up: ChaosUp, row: Row) -> None:
    """Host, portal and engine; the hold is there for the `up` that comes later, and is kept by it."""
    up.serve("chat")
    with running(up):
        made = up.api("POST", "/v1/holds", {"service": "test/chat", "for_s": 3600}).json()
        up.wait_warmth("chat", "warm")
        begun = time.monotonic()
        up.kill("controller")
        assert told(up, "chat", stream=False) == "answered"
        wait_for(lambda: not up.processes(), within_s=ENDED_S, saying="host, portal and engine are gone")
        gone_s = time.monotonic() - begun
        assert gone_s > LEASE_S - 20, "not before the lease: a next up would have adopted them"
        up.begin()
        assert up.api("GET", "/v1/holds").json()[0]["id"] == made["id"]
        up.wait_warmth("chat", "warm", within_s=60)
        serves_again(up)
        up.never_two()
    row.tell(done="up killed, none begun", outcome="all gone with the lease; the later up keeps the hold",
             figure=f"gone after {gone_s:.0f} s")  # fmt: skip


@pytest.mark.prove
@pytest.mark.parametrize("option", ["--listen", "--api-listen"])
def test_a_port_taken_before_the_next_up_is_named(up: ChaosUp, row: Row, option: str) -> None:
    """It says which, starts nothing and spoils nothing: what lives goes on, and an `up` after it adopts that."""
    up.serve("chat")
    with running(up), socket.socket() as taken:
        serves_again(up)
        # With its portal dead too nobody knows when it was needed last: a hold says that it is.
        assert up.api("POST", "/v1/holds", {"service": "test/chat", "for_s": 600}).status_code == 201
        engine = up.leaders()[0].pid
        up.kill("controller")
        if option == "--listen":
            portal = up.part("portal")
            portal.kill()
            portal.wait(30)
        port = up.portal if option == "--listen" else "127.0.0.1:0"
        host, _, number = port.rpartition(":")
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((host, int(number)))
        taken.listen()
        address = f"{host}:{taken.getsockname()[1]}"
        failed = subprocess.run([*up.argv(), option, address], capture_output=True, text=True, timeout=90, check=False)
        assert failed.returncode == 1
        assert f"cannot listen on {address}" in failed.stderr
        assert option in failed.stderr
        taken.close()
        up.begin()
        serves_again(up)
        assert up.leaders()[0].pid == engine, up.said()
        up.never_two()
    row.tell(done=f"{option} taken before the next up", outcome="named; the up after it serves")
