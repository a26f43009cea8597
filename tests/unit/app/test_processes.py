"""Where `up` listens, and the processes that it keeps."""

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from activator_ext.app.child import Child, ChildFailed
from activator_ext.app.servers import AddressTaken, bind_tcp, loopback
from tests.serving import wait_for

LISTENS = """
import socket, sys, time
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("listening", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("address", "expect"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        ("localhost:0", ("127.0.0.1", 0)),
        ("[::1]:65535", ("::1", 65535)),
        (":8081", ("127.0.0.1", 8081)),
        ("8081", ("127.0.0.1", 8081)),
    ],
)
def test_loopback(address: str, expect: tuple[str, int]) -> None:
    assert loopback(address, "--listen") == expect


@pytest.mark.parametrize(
    "address", ["0.0.0.0:80", "example:80", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:", "::80"]
)
def test_no_loopback(address: str) -> None:
    with pytest.raises(AddressTaken, match="--api-listen HOST:PORT with HOST one of localhost"):
        bind_tcp(address, "--api-listen")


def test_a_taken_port_is_named() -> None:
    with bind_tcp("127.0.0.1:0", "--listen") as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(AddressTaken, match=f"cannot listen on 127.0.0.1:{port}"):
            bind_tcp(f"127.0.0.1:{port}", "--listen")


def child(tmp_path: Path, code: str = LISTENS) -> Child:
    socket = tmp_path / "c.sock"
    return Child("portal", [sys.executable, "-c", code, str(socket)], log=tmp_path / "log", socket=socket)


async def test_one_with_other_arguments_is_told_from_ours(tmp_path: Path) -> None:
    ours = child(tmp_path)
    await ours.ensure()
    assert not ours.begun_otherwise()
    assert not child(tmp_path).begun_otherwise(), "as the next `up` sees it"
    assert child(tmp_path, LISTENS + "# with another option").begun_otherwise()
    await ours.kill()
    assert not ours.begun_otherwise(), "nobody listens"


async def test_it_is_spawned_once_and_replaced_when_it_ended(tmp_path: Path) -> None:
    kept = child(tmp_path)
    assert await kept.ensure()
    assert not await kept.ensure()
    assert not kept.adopted
    await kept.kill()
    await kept.ended()
    (tmp_path / "c.sock").unlink()
    assert await kept.ensure()
    await kept.kill()


async def test_one_that_is_stopped_is_told_from_one_that_runs(tmp_path: Path) -> None:
    kept = child(tmp_path)
    await kept.ensure()
    assert not kept.stopped()
    os.kill(listener_pid(tmp_path), signal.SIGSTOP)
    wait_for(kept.stopped, within_s=10, saying="it is stopped")
    assert kept.standstill() is None  # patience has only begun
    assert not await kept.ensure()
    await kept.kill()
    assert not kept.stopped()


async def test_whom_nobody_here_spawned_can_be_killed_before_it_is_adopted(tmp_path: Path) -> None:
    first = child(tmp_path)
    await first.ensure()
    await child(tmp_path).kill()
    await first.ended()
    await child(tmp_path).kill()  # nobody is left: nothing happens


async def test_an_adopted_one_can_be_killed_even_if_it_does_not_answer(tmp_path: Path) -> None:
    first = child(tmp_path)
    await first.ensure()
    second = child(tmp_path)
    assert not await second.ensure()
    assert second.adopted
    os.kill(listener_pid(tmp_path), signal.SIGSTOP)
    await second.kill()
    assert await second.wait_gone(10)
    await first.ended()


async def test_a_failed_begin_shows_its_own_lines(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("an older line\n")
    with pytest.raises(ChildFailed, match="ended with 3 at its start:\nthe reason") as failed:
        await child(tmp_path, "import sys; print('the reason'); sys.exit(3)").ensure()
    assert "older" not in str(failed.value)


def listener_pid(tmp_path: Path) -> int:
    return next(
        p.pid for p in psutil.process_iter(["cmdline"]) if str(tmp_path / "c.sock") in (p.info["cmdline"] or ())
    )


async def test_one_that_says_nothing_may_have_no_room_to(tmp_path: Path) -> None:
    with pytest.raises(ChildFailed, match="is the disk full"):
        await child(tmp_path, "import sys; sys.exit(1)").ensure()
