import asyncio
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from runtime.engine import group
from runtime.engine.process import EngineProcess

T = datetime(2026, 1, 1, tzinfo=UTC)


class Lines:
    """Lines as they came, and a way to wait for one."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self._new = asyncio.Event()

    def __call__(self, at: datetime, text: str) -> None:
        assert at == T
        self.got.append(text)
        self._new.set()

    async def until(self, text: str) -> None:
        async with asyncio.timeout(20):
            while text not in self.got:
                await self._new.wait()
                self._new.clear()


async def spawn(tmp_path: Path, code: str, lines: Lines) -> EngineProcess:
    argv = (sys.executable, "-u", "-c", code)
    log = tmp_path / "log"
    return await EngineProcess.spawn(argv, env=os.environ, cwd=tmp_path, log=log, on_line=lines, clock=lambda: T)


async def test_output_becomes_lines_a_log_and_a_tail(tmp_path: Path) -> None:
    lines = Lines()
    code = r"import sys; print('one'); sys.stderr.write('two\rthree\n\n\nf\u00fcnf without end')"
    process = await spawn(tmp_path, code, lines)
    assert await process.wait() == 0
    await process.clear()
    assert lines.got == ["one", "two", "three", "fünf without end"]
    assert process.tail == tuple(lines.got)
    stamped = (tmp_path / "log").read_text().splitlines()
    assert stamped == [f"2026-01-01T00:00:00.000+00:00 {line}" for line in lines.got]


async def test_the_log_is_appended_to(tmp_path: Path) -> None:
    for _ in range(2):
        process = await spawn(tmp_path, "print('again')", Lines())
        await process.wait()
        await process.clear()
    assert len((tmp_path / "log").read_text().splitlines()) == 2


async def test_a_line_without_end_is_cut(tmp_path: Path) -> None:
    lines = Lines()
    process = await spawn(tmp_path, "print('x' * 600_000)", lines)
    await process.wait()
    await process.clear()
    assert "".join(lines.got) == "x" * 600_000
    assert len(lines.got) > 1


async def test_clear_leaves_nobody_of_the_group(tmp_path: Path) -> None:
    lines = Lines()
    code = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print('ready'); time.sleep(600)\n"
    )
    process = await spawn(tmp_path, code, lines)
    await lines.until("ready")
    assert len(group.members(process.pid)) == 2
    process.terminate()
    await process.clear()
    await process.clear()
    assert group.members(process.pid) == ()
    assert process.returncode == -signal.SIGKILL
    process.terminate()
    process.kill()


async def test_a_child_that_holds_the_pipe_does_not_hold_up_the_end(tmp_path: Path) -> None:
    lines = Lines()
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print('done')\n"
    )
    process = await spawn(tmp_path, code, lines)
    assert await process.wait() == 0
    await process.clear()
    assert lines.got == ["done"]
    assert group.members(process.pid) == ()


async def test_a_missing_program_is_an_os_error_and_leaves_no_file_open(tmp_path: Path) -> None:
    before = psutil.Process().num_fds()
    with pytest.raises(FileNotFoundError):
        await EngineProcess.spawn(
            ("/no/such/program",), env={}, cwd=tmp_path, log=tmp_path / "log", on_line=Lines(), clock=lambda: T
        )
    assert psutil.Process().num_fds() == before


LEASHED = "from runtime.engine.leash import leash_to_starter; leash_to_starter(); import time; "


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_who_is_on_the_leash_dies_with_its_parent() -> None:
    child = LEASHED + "print('leashed', flush=True); time.sleep(600)"
    parent = (
        "import os, subprocess, sys\n"
        "env = {**os.environ, 'PILOTLIGHT_PARENT_PID': str(os.getpid())}\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], env=env, stdout=subprocess.PIPE)\n"
        "child.stdout.readline(); print(child.pid, flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        child_process = psutil.Process(pid)
        starter.kill()
    assert gone(child_process)


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_a_parent_that_is_gone_already_ends_it_at_once() -> None:
    env = {**os.environ, "PILOTLIGHT_PARENT_PID": "1"}
    assert subprocess.run([sys.executable, "-c", LEASHED], env=env, check=False).returncode == 1


def gone(process: psutil.Process) -> bool:
    """Whether it ends within 5 s; a zombie that nobody reaps has ended."""
    try:
        process.wait(timeout=5)
    except psutil.TimeoutExpired:
        return process.status() == psutil.STATUS_ZOMBIE
    return True


async def test_what_an_engine_makes_is_its_users_alone(tmp_path: Path) -> None:
    process = await spawn(tmp_path, "open('made', 'w').close()", Lines())
    assert await process.wait() == 0
    await process.clear()
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o600
