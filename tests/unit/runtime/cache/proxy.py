"""A TCP proxy on loopback that a test can make slow, deaf, lying or broken, between a client and a real server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Proxy:
    """Passes bytes both ways. What it does to what comes back:

    `stall_after`: of each connection so many bytes come back, then nothing more, and it stays open.
    `break_after`: so many, then the connection is reset; `breaks` counts how often that may still happen.
    `flip`: (from, to): the first time `from` passes, it is replaced by `to`, which must be as long.
    """

    def __init__(self, upstream_port: int) -> None:
        self._upstream_port = upstream_port
        self.port = 0
        self.stall_after: int | None = None
        self.break_after: int | None = None
        self.breaks = 0
        self.flip: tuple[bytes, bytes] | None = None
        self.connections = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream_port)
        except OSError:
            writer.transport.abort()
            return
        sending = asyncio.create_task(_copy(reader, up_writer))
        self._tasks.add(sending)
        try:
            await self._back(up_reader, writer)
        except OSError:
            pass
        finally:
            sending.cancel()
            up_writer.close()
            writer.close()

    async def _back(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        passed = 0
        while data := await source.read(16 * 1024):
            if self.flip is not None and self.flip[0] in data:
                data = data.replace(*self.flip)
            if self.stall_after is not None and passed + len(data) > self.stall_after:
                sink.write(data[: self.stall_after - passed])
                await sink.drain()
                await asyncio.Event().wait()
            if self.break_after is not None and self.breaks > 0 and passed + len(data) > self.break_after:
                self.breaks -= 1
                sink.write(data[: self.break_after - passed])
                await sink.drain()
                sink.transport.abort()
                return
            passed += len(data)
            sink.write(data)
            await sink.drain()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(64 * 1024):
            sink.write(data)
            await sink.drain()
        sink.write_eof()


@asynccontextmanager
async def proxy_to(upstream_port: int) -> AsyncIterator[Proxy]:
    """A proxy before the server at `upstream_port`."""
    proxy = Proxy(upstream_port)
    serving: set[asyncio.Task[None]] = set()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(proxy._serve(reader, writer))
        serving.add(task)

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        for task in serving | proxy._tasks:
            task.cancel()
        await asyncio.gather(*serving, *proxy._tasks, return_exceptions=True)
