"""Fork servers: real processes, real adoption; only vLLM's imports are faked (tests/fakes/fork_server.py)."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from runtime.engine.adopted import Adopted
from runtime.engine.fork.client import ForkServer, NoForkError
from runtime.engine.fork.pool import ForkPool
from runtime.engine.marker import parse
from runtime.engine.process import EngineProcess, Leader

T = datetime(2026, 1, 1, tzinfo=UTC)
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
SERVER = str(Path(__file__).parents[4] / "fakes" / "fork_server.py")


async def begin(env: Mapping[str, str], mode: str = "ok") -> ForkServer:
    return await ForkServer.begin({**ENV, **env}, (sys.executable, SERVER, mode))


@pytest.fixture(autouse=True)
def adopts_no_more() -> Iterator[None]:
    """Orphans of other tests are init's again, not this process's zombies."""
    yield
    ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)


@pytest.fixture
async def server() -> AsyncIterator[ForkServer]:
    begun = await begin({})
    yield begun
    await begun.close()


def forking(server: ForkServer, code: str, cwd: Path, **env: str) -> Callable[[int], Awaitable[Leader]]:
    def make(output: int) -> Awaitable[Leader]:
        return server.fork((code,), env={"PATH": os.environ["PATH"], **env}, cwd=str(cwd), output=output)

    return make


async def engine(server: ForkServer, code: str, cwd: Path, **env: str) -> tuple[EngineProcess, list[str]]:
    lines: list[str] = []
    make = forking(server, code, cwd, **env)
    log = cwd / "engine.log"
    return await EngineProcess.fork(make, log=log, on_line=lambda _, t: lines.append(t), clock=lambda: T), lines


async def test_an_engine_has_its_own_environment_directory_session_and_parent(
    server: ForkServer, tmp_path: Path
) -> None:
    code = (
        "print(sorted(os.environ), os.getcwd(), os.getsid(0) == os.getpid(), os.getppid(), sys.argv[0]);"
        "print(sorted(os.listdir('/proc/self/fd')), oct(os.umask(0)), file=sys.stderr)"
    )
    process, lines = await engine(server, code, tmp_path, WORD="here")
    assert await process.wait() == 0
    await process.clear()
    names, fds = lines
    assert "'PATH', 'WORD'" in names
    assert f"{tmp_path} True {os.getpid()} vllm" in names
    # 0, 1, 2 and the directory that is being listed: nothing of the server's is open in an engine.
    assert fds == "['0', '1', '2', '3'] 0o77"


async def test_many_engines_of_one_server_live_side_by_side(server: ForkServer, tmp_path: Path) -> None:
    made = [await engine(server, "time.sleep(60)", tmp_path) for _ in range(5)]
    assert len({process.pid for process, _ in made}) == 5
    for process, _ in made:
        process.kill()
        assert await process.wait() == -signal.SIGKILL
        await process.clear()
    assert not [child for child in psutil.Process().children() if child.pid in {p.pid for p, _ in made}]


async def test_exit_codes_and_tracebacks_are_those_of_a_process_of_its_own(server: ForkServer, tmp_path: Path) -> None:
    for code, status, told in (
        ("sys.exit(7)", 7, ""),
        ("sys.exit('why not')", 1, "why not"),
        ("1/0", 1, "ZeroDivisionError"),
        ("sys.exit(None)", 0, ""),
        ("raise KeyboardInterrupt", 130, ""),
        ("os.kill(os.getpid(), 15)", -15, ""),
    ):
        process, lines = await engine(server, code, tmp_path)
        assert await process.wait() == status, code
        await process.clear()
        assert told in "\n".join(lines)


async def test_an_engine_outlives_its_server(server: ForkServer, tmp_path: Path) -> None:
    process, lines = await engine(server, "time.sleep(0.2); print('alive')", tmp_path)
    await server.close()
    assert await process.wait() == 0
    await process.clear()
    assert lines == ["alive"]
    assert not server.alive


async def test_a_stopped_server_gives_no_engine_and_says_so(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await server.ready()
    os.kill(server.pid, signal.SIGSTOP)
    monkeypatch.setattr("runtime.engine.fork.client.ANSWER_S", 0.05)
    with pytest.raises(NoForkError, match="gave no answer"):
        await engine(server, "print(1)", tmp_path)
    assert not server.alive, "a late answer would be taken for that of the next request"


async def test_imports_that_hang_are_not_waited_for_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.engine.fork.client.IMPORTS_S", 0.05)
    begun = await begin({}, "silent")
    with pytest.raises(NoForkError, match="not imported within 0"):
        await engine(begun, "print(1)", tmp_path)
    await begun.close()


async def test_a_killed_server_gives_no_engine_and_says_so(server: ForkServer, tmp_path: Path) -> None:
    await server.ready()
    os.kill(server.pid, signal.SIGKILL)
    with pytest.raises(NoForkError, match="gave no answer"):
        await engine(server, "print(1)", tmp_path)


@pytest.mark.parametrize(("mode", "told"), [("dies", "ended while it imported"), ("unsafe", "CUDA is initialized")])
async def test_a_server_that_cannot_serve_says_why(mode: str, told: str, tmp_path: Path) -> None:
    begun = await begin({}, mode)
    with pytest.raises(NoForkError, match=told):
        await engine(begun, "print(1)", tmp_path)
    assert not begun.alive
    await begun.close()


async def test_a_server_without_a_command_cannot_be_begun(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="absent"):
        await ForkServer.begin(ENV, (str(tmp_path / "absent"),))


async def test_a_directory_that_is_gone_ends_the_engine_not_the_server(server: ForkServer, tmp_path: Path) -> None:
    make = forking(server, "print(1)", tmp_path / "absent")
    lines: list[str] = []
    process = await EngineProcess.fork(
        make, log=tmp_path / "log", on_line=lambda _, t: lines.append(t), clock=lambda: T
    )
    assert await process.wait() == 1
    await process.clear()
    assert "absent" in "\n".join(lines)
    process, lines = await engine(server, "print('next')", tmp_path)
    assert await process.wait() == 0
    await process.clear()
    assert lines == ["next"]


async def test_orphans_of_an_engine_are_killed_and_reaped_with_it(server: ForkServer, tmp_path: Path) -> None:
    code = "child = os.fork()\nif child == 0:\n    time.sleep(60)\nprint(child, flush=True)"
    process, lines = await engine(server, code, tmp_path)
    assert await process.wait() == 0
    await process.clear()
    assert not psutil.pid_exists(int(lines[0]))


async def test_what_an_engine_forks_by_multiprocessing_dies_with_it(server: ForkServer, tmp_path: Path) -> None:
    code = (
        "import multiprocessing\n"
        "child = multiprocessing.get_context('fork').Process(target=time.sleep, args=(60,), name='EngineCore_0')\n"
        "child.start(); print(child.pid, flush=True); child.join()"
    )
    process, lines = await engine(server, code, tmp_path, PILOTLIGHT_STAGES="1")
    while len(lines) < 4:  # noqa: ASYNC110  (lines of another process, as they come)
        await asyncio.sleep(0.01)
    roles = [marker.role for line in lines if (marker := parse(line))]
    assert sorted(roles) == ["api", "core", "core"], "each says who it is, the child with its imports done"
    child = psutil.Process(int(next(line for line in lines if line.isdigit())))
    process.terminate()
    assert await process.wait() == -signal.SIGTERM
    child.wait(10)
    await process.clear()


HOST = """
import asyncio, os, sys
from runtime.engine.fork.client import ForkServer

async def main():
    server = await ForkServer.begin(os.environ, (sys.executable, {server!r}, "ok"))
    engine = await server.fork(("time.sleep(60)",), env={{}}, cwd="/", output=1)
    print(engine.pid, server.pid, flush=True)
    await engine.wait()

asyncio.run(main())
"""


def test_engines_and_server_die_with_their_host() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOST.format(server=SERVER)], env=ENV, stdout=subprocess.PIPE, text=True
    ) as host:
        assert host.stdout is not None
        ours = [psutil.Process(int(pid)) for pid in host.stdout.readline().split()]
        assert ours[0].ppid() == host.pid
        host.kill()
        for process in ours:
            process.wait(10)


async def test_orphans_that_come_late_are_reaped_too(server: ForkServer, tmp_path: Path) -> None:
    """A child that leaves a grandchild of the group behind, which ends after the leader and after its parent."""
    code = (
        "middle = os.fork()\n"
        "if middle == 0:\n"
        "    late = os.fork()\n"
        "    if late == 0:\n"
        "        time.sleep(60)\n"
        "    print(late, flush=True)\n"
        "    time.sleep(60)\n"
        "time.sleep(60)"
    )
    for _ in range(5):
        process, lines = await engine(server, code, tmp_path)
        while not lines:  # noqa: ASYNC110  (a line of another process, as it comes)
            await asyncio.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
        await process.clear()
        assert not psutil.pid_exists(int(lines[0]))
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)


async def test_a_pid_that_is_no_child_counts_as_ended() -> None:
    class Other(Adopted):
        def end(self) -> None:
            self._reap()

    other = Other(os.getppid())
    other.end()
    assert await other.wait() == 255


class Begun:
    """Counts the servers that a pool begins; each is a real one."""

    def __init__(self) -> None:
        self.servers: list[ForkServer] = []

    async def __call__(self, platform: str, env: Mapping[str, str]) -> ForkServer:
        assert platform == "cpu"
        self.servers.append(await begin(env))
        return self.servers[-1]


async def hello(pool: ForkPool, service: str, tmp_path: Path) -> list[str]:
    lines: list[str] = []
    process = await EngineProcess.fork(
        lambda output: pool.fork(service, ("print('hello')",), env={}, cwd=str(tmp_path), output=output),
        log=tmp_path / "log",
        on_line=lambda _, text: lines.append(text),
        clock=lambda: T,
    )
    await process.wait()
    await process.clear()
    return lines


async def test_services_of_one_namespace_and_environment_share_a_server(tmp_path: Path) -> None:
    begun = Begun()
    pool = ForkPool(begin=begun)
    for service, env in (("a/one", {}), ("a/two", {}), ("b/one", {}), ("a/own", {"VLLM_X": "1"})):
        pool.want(service, "cpu", env)
        assert await hello(pool, service, tmp_path) == ["hello"]
        assert pool.imported(service)
    assert len(begun.servers) == 3
    pool.drop("a/one")
    assert await hello(pool, "a/two", tmp_path) == ["hello"], "another service still wants it"
    pool.drop("a/two")
    pool.drop("a/two")
    with pytest.raises(NoForkError):
        await hello(pool, "a/two", tmp_path)
    await pool.close()
    assert all(server.gone for server in begun.servers)


async def test_a_service_whose_environment_changes_leaves_its_server(tmp_path: Path) -> None:
    begun = Begun()
    pool = ForkPool(begin=begun)
    pool.want("a/one", "cpu", {})
    await hello(pool, "a/one", tmp_path)
    pool.want("a/one", "cpu", {"VLLM_X": "1"})
    await hello(pool, "a/one", tmp_path)
    await pool.close()
    assert len(begun.servers) == 2


async def test_no_more_servers_than_allowed(tmp_path: Path) -> None:
    pool = ForkPool(most=1, begin=Begun())
    pool.want("a/one", "cpu", {})
    pool.want("b/one", "cpu", {})
    with pytest.raises(NoForkError, match="1 fork servers live already"):
        await hello(pool, "b/one", tmp_path)
    assert not pool.imported("b/one")
    await pool.close()


async def test_a_server_that_ended_is_begun_anew_when_wanted_again(tmp_path: Path) -> None:
    begun = Begun()
    pool = ForkPool(begin=begun)
    pool.want("a/one", "cpu", {})
    await hello(pool, "a/one", tmp_path)
    os.kill(begun.servers[0].pid, signal.SIGKILL)
    while not begun.servers[0].gone:  # noqa: ASYNC110  (its end is the kernel's to tell)
        await asyncio.sleep(0)
    pool.want("a/one", "cpu", {})
    assert await hello(pool, "a/one", tmp_path) == ["hello"]
    assert len(begun.servers) == 2
    await pool.close()


async def test_a_server_that_may_not_be_forked_is_not_begun_again(tmp_path: Path) -> None:
    servers: list[ForkServer] = []

    async def unsafe(platform: str, env: Mapping[str, str]) -> ForkServer:
        del platform
        servers.append(await begin(env, "unsafe"))
        return servers[-1]

    pool = ForkPool(begin=unsafe)
    for _ in range(3):
        pool.want("a/one", "cpu", {})
        with pytest.raises(NoForkError, match="CUDA"):
            await hello(pool, "a/one", tmp_path)
    assert len(servers) == 1
    await pool.close()


async def test_a_server_that_cannot_be_begun_is_told(tmp_path: Path) -> None:
    async def broken(platform: str, env: Mapping[str, str]) -> ForkServer:
        del platform, env
        raise OSError("no processes left")

    pool = ForkPool(begin=broken)
    pool.want("a/one", "cpu", {})
    with pytest.raises(NoForkError, match="no processes left"):
        await hello(pool, "a/one", tmp_path)
    await pool.close()
