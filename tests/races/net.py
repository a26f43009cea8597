"""Connections of the portal, byte for byte, from a client and to an engine: at one end of each is the real portal."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

from tests.races.engines import Engine, Engines
from tests.races.virtual_loop import PROCESS, Process, VirtualLoop


class _Transport(asyncio.Transport):
    """The portal's end: what it writes goes to `sent`, its closing to `closed`."""

    def __init__(self, sent: Callable[[bytes], None], closed: Callable[[], None]) -> None:
        super().__init__()
        self._sent, self._closed, self._closing = sent, closed, False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closing:
            self._sent(bytes(data))

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._closed()

    def abort(self) -> None:
        self.close()

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Nothing here is large."""

    def resume_reading(self) -> None:
        """Nothing here is large."""


class EngineSide:
    """One connection from the portal to one engine, seen from the engine."""

    def __init__(self, engines: Engines, loop: VirtualLoop, engine: Engine, protocol: asyncio.Protocol) -> None:
        self._engines, self._loop, self._engine, self._protocol = engines, loop, engine, protocol
        self._portal: Context = PROCESS.get().context()
        self._open = True
        self._told_lost = False
        self._bytes = b""
        self._asked: asyncio.Task[None] | None = None
        self._waits = loop.begin(Process(f"to {engine.pid}"), self._until_it_dies())
        self.transport = _Transport(self._sent, self._closed)
        PROCESS.get().on_death.append(self._drop)
        protocol.connection_made(self.transport)

    async def _until_it_dies(self) -> None:
        await self._engine.over.wait()
        self.reset()

    def reset(self) -> None:
        """The engine's end is gone."""
        self._drop()
        self._tell(self._lost)

    def _lost(self) -> None:
        if not self._told_lost:
            self._told_lost = True
            self.transport._closing = True
            self._protocol.connection_lost(ConnectionResetError())

    def _drop(self) -> None:
        self._open = False
        for task in (self._asked, self._waits):
            if task is not None:
                task.cancel()

    def _closed(self) -> None:
        self._drop()
        self._loop.call_soon(self._ended, context=self._portal)

    def _ended(self) -> None:
        if not self._told_lost:
            self._told_lost = True
            self._protocol.connection_lost(None)

    def _tell(self, callback: Callable[..., None], *args: object) -> None:
        self._loop.call_later(self._engines.delay_s(), callback, *args, context=self._portal)

    def _sent(self, data: bytes) -> None:
        self._bytes += data
        head, blank, body = self._bytes.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        if blank and len(body) >= length:
            self._bytes = b""
            self._asked = self._begin(self._answer(json.loads(body)))

    def _begin(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        return self._loop.begin(Process(f"in {self._engine.pid}"), work)

    async def _answer(self, asked: dict[str, Any]) -> None:
        await asyncio.sleep(self._engines.delay_s())
        engine = self._engine
        self._engines.on_asked(asked["number"], engine)
        if engine.frozen(self._loop.now_s):
            return
        if self._engines.chance(engine.ways.resets):
            self._asked = None
            self.reset()
        elif asked["model"] not in engine.names:
            self._say(404, b"no such model", 0)
        elif engine.terminated_s is not None:
            self._say(503, b"shutting down", 0)
        else:
            await self._compute()

    async def _compute(self) -> None:
        """The answer: its first half at once or when all is there, and the rest."""
        engine = self._engine
        body = json.dumps({"engine": engine.pid}).encode()
        engine.running += 1
        try:
            seconds, early = self._engines.takes_s(engine), self._engines.chance(0.4)
            if early:
                self._say(200, body[:5], len(body) - 5)
            await asyncio.sleep(seconds)
            if early:
                self._arrive(body[5:])
            else:
                self._say(200, body, 0)
        finally:
            engine.running -= 1

    def _say(self, status: int, body: bytes, more: int) -> None:
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body) + more}\r\n\r\n"
        self._arrive(head.encode() + body)

    def _arrive(self, data: bytes) -> None:
        if self._open:
            self._tell(self._received, data)

    def _received(self, data: bytes) -> None:
        if not self._told_lost and not self.transport.is_closing():
            self._protocol.data_received(data)


class Network:
    """What stands in for `loop.create_connection`."""

    def __init__(self, engines: Engines, loop: VirtualLoop) -> None:
        self._engines, self._loop = engines, loop

    async def connect(self, factory: Callable[[], asyncio.Protocol], host: str, port: int) -> Any:
        """A connection to whatever engine listens on the port now; raises OSError."""
        await asyncio.sleep(self._engines.delay_s())
        engine = self._engines.at(f"http://{host}:{port}")
        if engine is None or not engine.listens(self._loop.now_s):
            raise ConnectionRefusedError
        protocol = factory()
        return EngineSide(self._engines, self._loop, engine, protocol).transport, protocol


def client_transport(sent: Callable[[bytes], None], closed: Callable[[], None]) -> asyncio.Transport:
    """The portal's end of a client's connection."""
    return _Transport(sent, closed)
