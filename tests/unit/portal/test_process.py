"""The portal as a process: its command line, its admin socket, its end."""

import asyncio
import contextlib
import json
import signal
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from activator_ext.portal.admin import AddressTaken, bind_unix
from activator_ext.portal.process import parse
from activator_ext.portal.server import Options, Portal
from tests.unit.portal.fakes import SOON_S, FakeController, engine, house, route


@contextlib.asynccontextmanager
async def process(folder: Path, *more: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, Path]]:
    admin = folder / "p.sock"
    argv = ["--listen", "127.0.0.1:0", "--controller", str(folder / "c.sock"), "--admin", str(admin), *more]
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "activator_ext.portal", *argv, stderr=asyncio.subprocess.PIPE
    )
    try:
        yield running, admin
    finally:
        if running.returncode is None:
            running.kill()
        await running.communicate()


async def admin_get(admin: Path, path: str) -> str:
    async with (
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(admin))) as session,
        session.get(f"http://portal{path}") as answer,
    ):
        return await answer.text()


async def connected(running: asyncio.subprocess.Process, admin: Path) -> dict[str, object]:
    """What its health says once it knows its routes."""
    async with asyncio.timeout(SOON_S * 3):
        while running.returncode is None:
            with contextlib.suppress(aiohttp.ClientError):
                health: dict[str, object] = json.loads(await admin_get(admin, "/healthz"))
                if health["controller_connected"]:
                    return health
            await asyncio.sleep(0.02)
    raise AssertionError("the portal ended")


async def test_sigterm_lets_the_stream_finish_refuses_who_waits_and_exits_0(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def long(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"begin ")
        await go.wait()
        await response.write(b"end")
        return response

    controller = FakeController(tmp_path / "c.sock")
    async with engine(long) as up, aiohttp.ClientSession() as client:
        await controller.start(route("team-a/chat", up.url), route("team-b/cold"))
        async with process(tmp_path) as (running, admin):
            health = await connected(running, admin)
            assert stat.S_IMODE(admin.stat().st_mode) == 0o600
            assert (health["pid"], health["table_version"]) == (running.pid, 1)
            url = f"http://{health['listen']}/v1/chat/completions"
            stream = await client.post(url, json={"model": "chat", "stream": True})
            assert await stream.content.readany() == b"begin "
            waits = asyncio.create_task(_post(client, url, {"model": "cold"}))
            async with asyncio.timeout(SOON_S):
                waits_now = 'pilotlight_portal_waiting{service="team-b/cold"} 1.0'
                while waits_now not in await admin_get(admin, "/metrics"):
                    continue
            running.send_signal(signal.SIGTERM)
            refused = await waits
            assert (refused.status, refused.headers["Connection"]) == (503, "close")
            with pytest.raises(aiohttp.ClientConnectorError):
                await client.post(url, json={"model": "chat"})
            go.set()
            assert await stream.read() == b"end"
            async with asyncio.timeout(SOON_S):
                assert await running.wait() == 0
            assert not admin.exists()
        await controller.stop()


async def test_an_orphan_process_exits_0(tmp_path: Path) -> None:
    async with process(tmp_path, "--orphan-s", "0") as (running, _admin), asyncio.timeout(SOON_S * 3):
        assert await running.wait() == 0


async def test_stop_by_the_admin_socket_and_the_cut_after_drain_s(tmp_path: Path) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"begin")
        await asyncio.Event().wait()
        return response

    async with engine(endless) as up, house(tmp_path, route("team-a/chat", up.url), drain_s=0.0) as at:
        stream = await at.ask(stream=True)
        async with at.admin.post("http://portal/stop") as answer:
            assert answer.status == 202
        with pytest.raises(aiohttp.ClientError):
            await stream.read()
        async with asyncio.timeout(SOON_S):
            await at.task


async def test_a_second_stop_cuts_at_once(tmp_path: Path) -> None:
    async def silent(_request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError("never")

    async with engine(silent) as up, house(tmp_path, route("team-a/chat", up.url), drain_s=3600) as at:
        asked = at.ask()
        await at.running(1)
        at.portal.stop()
        at.portal.stop()
        with pytest.raises(aiohttp.ClientError):
            await asked


async def test_an_address_that_is_taken_is_named(tmp_path: Path) -> None:
    async with house(tmp_path, route()) as at:
        port = int(at.portal.listen.rpartition(":")[2])
        for options, says in (
            (Options("127.0.0.1", port, tmp_path / "c.sock", tmp_path / "q.sock"), f"127.0.0.1:{port}"),
            (Options("127.0.0.1", 0, tmp_path / "c.sock", tmp_path / "p.sock"), "answers on"),
        ):
            with pytest.raises(AddressTaken, match=says):
                await Portal(options).run()
        async with at.admin.get("http://portal/healthz") as answer:
            assert answer.status == 200, "the one that runs is not disturbed"


def test_a_dead_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "p.sock"
    bind_unix(path).close()
    bind_unix(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("listen", ["0.0.0.0:80", "127.0.0.1", "127.0.0.1:x", "example.com:80", "127.0.0.1:70000"])
def test_only_loopback_is_listened_on(listen: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--listen", listen, "--controller", "c", "--admin", "a"])
    assert "--listen" in capsys.readouterr().err


def test_the_command_line() -> None:
    given = parse(["--controller", "c.sock", "--admin", "a.sock", "--listen", "[::1]:0", "--drain-s", "5"])
    assert given == Options("::1", 0, Path("c.sock"), Path("a.sock"), drain_s=5.0, orphan_s=60.0)


async def _post(client: aiohttp.ClientSession, url: str, body: dict[str, str]) -> aiohttp.ClientResponse:
    return await client.post(url, json=body)
