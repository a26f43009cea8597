"""What dies between a floor and a Deployment, on a real KEDA: scaler, stream, KEDA itself. Seconds are printed."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from activator_ext.adapters.keda_scaler.server import ScalerServer
from activator_ext.adapters.standard.plan import Standing
from tests.cluster import control_plane
from tests.cluster.control_plane import HOW, ControlPlane, booted
from tests.cluster.standard_rig import Rig, until

pytestmark = pytest.mark.prove


@pytest.fixture
async def rig(plane: ControlPlane, namespace: str) -> AsyncIterator[Rig]:
    async with Rig.on(plane, namespace) as rig:
        yield rig


class Alone:
    """`pilotlight keda-scaler --floors FILE`, a process of its own on a fixed port."""

    def __init__(self, rig: Rig, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._service = rig.service
        self._file = folder / "floors.yaml"
        self._process: asyncio.subprocess.Process | None = None
        rig.scaled_by(f"127.0.0.1:{self.port}")

    def floor(self, replicas: int) -> None:
        self._file.write_text(f"floors: {{{self._service}: {replicas}}}\n")

    async def begin(self) -> None:
        command = [sys.executable, "-m", "activator_ext", "keda-scaler"]
        options = ["--listen", f"127.0.0.1:{self.port}", "--floors", str(self._file)]
        self._process = await asyncio.create_subprocess_exec(*command, *options, stderr=asyncio.subprocess.PIPE)
        assert self._process.stderr is not None
        assert b"serving floors to KEDA" in await self._process.stderr.readline()

    async def end(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        await self._process.wait()
        self._process = None

    async def __aenter__(self) -> "Alone":
        self.floor(0)
        await self.begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process is not None:
            await self.end(signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_scaler_that_dies_changes_nothing_and_is_heard_again(rig: Rig, tmp_path: Path, number: int) -> None:
    async with Alone(rig, tmp_path) as scaler:
        rig.create()
        await rig.standing(Standing.SCALED)
        await rig.replicas(0)
        scaler.floor(1)
        print(f"\nfloors file 0 → 1: replicas 1 after {await rig.replicas(1):.2f} s")

        await scaler.end(number)
        await rig.stays(1, for_s=20)
        trouble = await rig.standing(Standing.KEDA_TROUBLE)
        print(f"no scaler for 20 s: replicas stay 1; {trouble.message}")

        scaler.floor(0)
        await scaler.begin()
        print(f"back with floor 0: replicas 0 after {await rig.replicas(0):.1f} s")
        scaler.floor(1)
        print(f"floor 1 again: replicas 1 after {await rig.replicas(1):.2f} s")


async def test_no_scaler_at_zero_stays_zero_and_a_floor_of_1_meanwhile_is_carried_out(rig: Rig, tmp_path: Path) -> None:
    async with Alone(rig, tmp_path) as scaler:
        rig.create()
        await rig.standing(Standing.SCALED)
        await rig.replicas(0)
        await scaler.end(signal.SIGKILL)
        await rig.stays(0, for_s=10)
        scaler.floor(1)
        await scaler.begin()
        print(f"\nback with floor 1: replicas 1 after {await rig.replicas(1):.1f} s (poll 2 s)")


async def test_a_scaler_that_comes_after_its_scaled_object(rig: Rig, tmp_path: Path) -> None:
    scaler = Alone(rig, tmp_path)
    scaler.floor(0)
    rig.create()
    trouble = await rig.standing(Standing.KEDA_TROUBLE)
    assert "no metric specs returned from scalers" in trouble.message
    await rig.stays(1, for_s=20)  # as KServe made it
    try:
        await scaler.begin()
        print(f"\nscaler there 20 s after its ScaledObject: heard, at zero after {await rig.replicas(0):.1f} s")
    finally:
        await scaler.end(signal.SIGKILL)


class Wire:
    """A TCP proxy before one or more scalers: as a Service it takes one that is there, as a bad network it cuts."""

    def __init__(self, *ports: int) -> None:
        self._to = ports
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> "Wire":
        self._server = await asyncio.start_server(self._passed, "127.0.0.1", 0)
        return self

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()

    async def _passed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for port in self._to:
            with contextlib.suppress(OSError):
                there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
                break
        else:
            writer.close()
            return
        self._writers |= {writer, there_writer}
        await asyncio.gather(_pipe(reader, there_writer), _pipe(there_reader, writer))
        self._writers -= {writer, there_writer}


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def test_a_stream_that_is_cut_is_opened_again(rig: Rig) -> None:
    async with rig.scaler() as server, Wire(server.port) as wire:
        rig.scaled_by(f"127.0.0.1:{wire.port}")
        await rig.at_zero()
        await until(lambda: _has(server, 1))
        wire.cut()
        rig.floor(1)
        print(f"\nstream cut as the floor rises: replicas 1 after {await rig.replicas(1):.2f} s (poll 2 s)")
        print(f"stream open again after {await until(lambda: _has(server, 1)):.1f} s more")
        wire.cut()
        await rig.stays(1, for_s=5)


async def _has(server: ScalerServer, streams: int) -> bool:
    return server.streams == streams


async def test_two_scalers_behind_one_address_one_of_which_dies(rig: Rig, tmp_path: Path) -> None:
    async with Alone(rig, tmp_path) as first, rig.scaler() as second, Wire(first.port, second.port) as service:
        rig.scaled_by(f"127.0.0.1:{service.port}")
        await rig.at_zero()
        rig.floor(1)
        first.floor(1)
        print(f"\ntwo scalers: replicas 1 after {await rig.replicas(1):.2f} s")
        assert second.streams == 0
        await first.end(signal.SIGKILL)
        moved_s = await until(lambda: _has(second, 1))
        print(f"the one that KEDA asked was killed: its stream is at the other after {moved_s:.1f} s")
        await rig.stays(1, for_s=6)
        assert (await rig.standing(Standing.SCALED)).fine
        rig.floor(0)
        print(f"floor 0: replicas 0 after {await rig.replicas(0):.1f} s")
        rig.floor(1)
        print(f"floor 1: replicas 1 after {await rig.replicas(1):.2f} s")


@pytest.fixture(scope="module")
def own_keda(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    if control_plane.testbed_command() is None:
        pytest.skip(HOW)
    with booted(tmp_path_factory.mktemp("own-keda"), "--nodes", "1", "--with", "keda") as own:
        yield own


@pytest.mark.parametrize("how", [(), ("--kill",)])
async def test_keda_restarted_keeps_what_stands_and_hears_us_again(
    own_keda: ControlPlane, how: tuple[str, ...]
) -> None:
    namespace = f"test-{os.urandom(4).hex()}"
    own_keda.kubectl("create", "namespace", namespace)
    async with Rig.on(own_keda, namespace) as rig, rig.scaler() as server:
        await rig.at_zero()
        rig.floor(1)
        await rig.replicas(1)
        own_keda.testbed("restart", "keda", *how)
        await rig.stays(1, for_s=10)
        heard = await until(lambda: _has(server, 1))
        print(f"\nKEDA restarted {how}: replicas stay 1, its stream is back {heard + 10:.1f} s after")

        rig.floor(0)
        print(f"floor 0: replicas 0 after {await rig.replicas(0):.1f} s")
        own_keda.testbed("stop", "keda")
        rig.floor(1)
        await asyncio.sleep(2)
        own_keda.testbed("start", "keda")
        print(f"floor raised without KEDA: replicas 1 {await rig.replicas(1):.1f} s after it is back")
