"""Signals and standard streams: each way to end, or to stop listening to it, ends in order and without a traceback."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.chaos.kit import ChaosUp, Part, serves_again
from tests.chaos.rows import Row
from tests.chaos.test_streams import CHUNK_S, TOKENS, read
from tests.serving import running, wait_for

PILOTLIGHT = (sys.executable, "-m", "activator_ext")
PYTHON_S_OWN = ("Fatal Python error: init_", "Exception ignored in")


@pytest.mark.prove
@pytest.mark.parametrize("part", ["controller", "portal", "host"])
def test_sigquit_ends_in_order(up: ChaosUp, part: Part, row: Row) -> None:
    """A running stream finishes. To `up`, all ends then; one of its parts alone is begun again."""
    up.serve("chat", chunk_s=CHUNK_S, tokens=TOKENS)
    with running(up), ThreadPoolExecutor(1) as pool:
        serves_again(up)
        reached = threading.Event()
        stream = pool.submit(read, up, 3, reached)
        assert reached.wait(60)
        up.part(part).send_signal(signal.SIGQUIT)
        assert stream.result()[0] == "whole"
        if part == "controller":
            assert up.process is not None
            assert up.process.wait(60) == 0
            assert up.processes() == []
        else:
            wait_for(lambda: f"the {part} had ended and was begun again" in up.said(), within_s=60, saying=up.said())
            serves_again(up)
            up.never_two()
    row.tell(done=f"SIGQUIT to {part} in the middle of a stream", outcome="the stream is whole, then it ends")


def test_up_whose_reader_leaves_serves_on(up: ChaosUp, tmp_path: Path, row: Row) -> None:
    """`pilotlight up 2>&1 | head -1`: nobody reads any more, and requests are served."""
    up.serve("chat")
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe:
        up.process = subprocess.Popen(up.argv(), stdout=pipe, stderr=pipe, start_new_session=True)
    with os.fdopen(reading, "rb") as pipe:
        first = pipe.readline()
    try:
        wait_for(up._is_ready, within_s=60, saying="up is ready")
        assert b"requests http://" in first or b"serving" in first or b":" in first
        assert up.ask("chat").status_code == 200
        assert up.end() == 0
    finally:
        up.process.kill()
    assert up.processes() == []
    row.tell(done="up 2>&1 | head -1", outcome="serves on, ends with 0")


@pytest.mark.prove
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_up_with_closed_streams_serves(up: ChaosUp, closed: str, row: Row) -> None:
    up.serve("chat")
    up.prefix = ["sh", "-c", f'exec "$@" {closed}', "sh"]
    with running(up):
        assert up.ask("chat").status_code == 200
        standard = [os.readlink(f"/proc/{up.part('controller').pid}/fd/{number}") for number in range(3)]
        # No file of ours in a standard stream's place, where any warning would be written into it.
        assert not [name for name in standard if str(up.state) in name or "socket" in name], standard
    row.tell(done=f"up {closed}", outcome="serves, ends with 0")


def test_a_reader_that_leaves_and_a_full_disk_are_no_traceback(up: ChaosUp, row: Row) -> None:
    up.serve("chat")
    state = f"--state={up.state}"
    with running(up):
        assert up.ask("chat").status_code == 200
        for command in (["status", state], ["events", state], ["status", state, "--json"], ["holds", state]):
            with Path("/dev/full").open("wb") as full:
                done = subprocess.run([*PILOTLIGHT, *command], stdout=full, stderr=subprocess.PIPE, check=False)
            assert done.returncode == 1
            assert done.stderr == b"error: the output cannot be written: No space left on device\n"
            reading, writing = os.pipe()
            os.close(reading)
            with os.fdopen(writing, "wb") as gone:
                done = subprocess.run([*PILOTLIGHT, *command], stdout=gone, stderr=subprocess.PIPE, check=False)
            assert done.stderr == b""
    row.tell(done="status, events, holds > /dev/full, and to a reader that left", outcome="one line, status 1; silence")


def ignores_sigint(pid: int) -> bool:
    """Whether the process, until `env` has become the program, would not even notice one."""
    words = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    return bool(int(words.get("SigIgn", "0"), 16) & 1 << (signal.SIGINT - 1))


@pytest.mark.parametrize("tries", [4, pytest.param(150, marks=pytest.mark.prove)])
def test_ctrl_c_at_any_moment_of_the_start(up: ChaosUp, chance: random.Random, row: Row, tries: int) -> None:
    """Also in the first 50 ms, while Python is still importing: it ends, without a traceback of ours or a process."""
    up.serve("chat")
    # The program as it is, without the points: they import half of it before its first line.
    # Whoever began the tests in the background had SIGINT ignored, and so would the program until its first line.
    argv = ["env", "--default-signal=INT", *PILOTLIGHT, *up.argv()[up.argv().index("up") :]]
    ends: dict[int, int] = {}
    lost = 0
    for number in range(tries):
        pause_s = chance.uniform(0, 0.05) if number % 2 else chance.uniform(0.05, 3.0)
        begun = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        while ignores_sigint(begun.pid):
            time.sleep(0.0002)
        time.sleep(pause_s)
        begun.send_signal(signal.SIGINT)
        try:
            said = begun.communicate(timeout=60)[0].decode()
        except subprocess.TimeoutExpired:
            # Python loses one that comes into a destructor of its own start, and says so.
            lost += 1
            begun.send_signal(signal.SIGINT)
            said = begun.communicate(timeout=60)[0].decode()
            assert said.startswith(PYTHON_S_OWN), f"lost after {pause_s * 1000:.0f} ms:\n{said}"
        assert begun.returncode in (0, -signal.SIGINT, 1), said
        ends[begun.returncode] = ends.get(begun.returncode, 0) + 1
        # Python itself may be interrupted before the first line of any program; it then says so.
        ours = "activator_ext/__main__" in said or "activator_ext/app" in said
        assert "Traceback" not in said or not ours, f"Ctrl-C after {pause_s * 1000:.0f} ms:\n{said}"
        wait_for(lambda: not up.processes(), within_s=30, saying="nothing runs any more")
    row.tell(
        done=f"{tries} × Ctrl-C, half of them in the first 50 ms",
        outcome=f"ends by status {ends}, {lost} of them at the second",
    )
