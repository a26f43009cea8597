"""Signs of life of real processes."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.engine.vitals import Vitals, vitals_of
from tests.serving import wait_for


@pytest.fixture
def group(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    """A process that leads a session of its own and runs the code given as parameter."""
    process = subprocess.Popen([sys.executable, "-c", request.param], start_new_session=True)
    yield process
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def until(pid: int, what: str, more_than: float) -> Vitals:
    def reached() -> Vitals | None:
        found = vitals_of(pid)
        return found if found is not None and getattr(found, what) > more_than else None

    return wait_for(reached, within_s=20, saying=f"{what} over {more_than}")


@pytest.mark.parametrize("group", ["while True: pass"], indirect=True)
def test_cpu_is_counted(group: subprocess.Popen[bytes]) -> None:
    first = until(group.pid, "cpu_s", 0.0)
    assert until(group.pid, "cpu_s", first.cpu_s).stopped is None


IN_A_CHILD = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "while True: pass"], process_group=0)
time.sleep(600)
"""


@pytest.mark.parametrize("group", [IN_A_CHILD], indirect=True)
def test_a_child_in_a_group_of_its_own_counts(group: subprocess.Popen[bytes]) -> None:
    """The leader sleeps; a second of CPU can only be its child's."""
    until(group.pid, "cpu_s", 1.0)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and os.getsid(int(entry.name)) == group.pid:
            os.kill(int(entry.name), signal.SIGKILL)


READER = """
while True:
    open("/dev/zero", "rb", buffering=0).read(1 << 20)
"""


@pytest.mark.parametrize("group", [READER], indirect=True)
def test_reading_is_counted(group: subprocess.Popen[bytes]) -> None:
    until(group.pid, "read_bytes", 10 * 2**20)


@pytest.mark.parametrize("group", ["import time; time.sleep(600)"], indirect=True)
def test_a_stopped_process_is_seen(group: subprocess.Popen[bytes]) -> None:
    os.kill(group.pid, signal.SIGSTOP)

    def stopped() -> int | None:
        found = vitals_of(group.pid)
        return None if found is None else found.stopped

    assert wait_for(stopped, within_s=10, saying="stopped") == group.pid


def test_of_nobody_nothing_is_known() -> None:
    assert vitals_of(2**22 + 1) is None


def test_without_a_descriptor_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "scandir", none_left)
    assert vitals_of(os.getpgid(0)) is None
