"""Messages between simulated processes: each takes a drawn time, is refused by the dead and waits for the stalled.

`namespace` stands in for the `aiohttp` module where portal and host speak to other processes over unix sockets.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import Context
from random import Random
from types import SimpleNamespace
from typing import Any, TypeVar
from urllib.parse import urlsplit

import aiohttp

from tests.races.virtual_loop import KERNEL, PROCESS, Process, VirtualLoop

T = TypeVar("T")

Handler = Callable[[str, str, bytes], bytes]
"""(method, path, body) → the answer's body; raises `Refusal` for an error status."""

Listener = Callable[[], AsyncIterator[str]]
"""A subscription: pieces of a stream."""


class Unreachable(Exception):
    """The other side is dead, or died before it answered."""


class Refusal(Exception):
    """The other side answered with an error status."""


class Wire:
    """All connections of one simulated machine."""

    def __init__(self, loop: VirtualLoop, random: Random) -> None:
        self._loop, self._random = loop, random
        self._kernel = KERNEL.context()

    def delay_s(self) -> float:
        """How long one message takes: mostly milliseconds, now and then most of a second."""
        if self._random.random() < 0.01:
            return self._random.uniform(0.1, 0.8)
        return self._random.expovariate(1 / 0.003)

    async def call(self, target: Process, handler: Callable[[], T]) -> T:
        """Have `target` run `handler` and give its result or exception. Raises Unreachable."""
        done: asyncio.Future[T] = self._loop.create_future()
        done.add_done_callback(_looked_at, context=self._kernel)
        lost = lambda: self._later(_fail, done)  # noqa: E731 — identity matters: it is taken off the list again
        context = target.context()

        def arrive() -> None:
            if not target.alive:
                self._later(_fail, done)
                return
            target.on_death.append(lost)
            self._loop.call_soon(serve, context=context)

        def serve() -> None:
            try:
                result = handler()
            except Exception as error:  # carried to the caller, as it is
                self._later(answer, None, error)
            else:
                self._later(answer, result, None)

        def answer(result: Any, error: Exception | None) -> None:
            if lost in target.on_death:
                target.on_death.remove(lost)
            if done.done():
                return
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(result)

        self._later(arrive)
        return await done

    def _later(self, callback: Callable[..., None], *args: Any) -> None:
        self._loop.call_later(self.delay_s(), callback, *args, context=self._kernel)

    async def subscribe(self, target: Process, listener: Listener) -> AsyncIterator[str]:
        """The pieces of a stream of `target`, in order; it ends when either side dies. Raises Unreachable."""
        pieces: asyncio.Queue[str | None] = asyncio.Queue()
        reader = PROCESS.get()

        async def send() -> None:
            arrives_s = 0.0
            async for piece in listener():
                if not reader.alive:
                    return
                # In order: no piece overtakes the one before.
                arrives_s = max(self._loop.now_s + self.delay_s(), arrives_s + 1e-6)
                self._loop.call_at(arrives_s, pieces.put_nowait, piece, context=self._kernel)
            self._later(pieces.put_nowait, None)

        def accepted() -> None:
            lost = lambda: self._later(pieces.put_nowait, None)  # noqa: E731
            target.on_death.append(lost)
            sending = self._loop.create_task(send())
            reader.on_death.append(lambda: _cancel(sending))

        await self.call(target, accepted)
        while (piece := await pieces.get()) is not None:
            yield piece


def _connector(path: object) -> str:
    return str(path)


def _cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()


def _looked_at(done: "asyncio.Future[Any]") -> None:
    """Who asked may be dead: then nobody looks at the error, and nothing is wrong with that."""
    if not done.cancelled():
        done.exception()


def _fail(done: "asyncio.Future[Any]") -> None:
    if not done.done():
        done.set_exception(Unreachable())


def context_of(process: Process) -> Context:
    """A context of that process, for callbacks that others cause in it."""
    return process.context()


class _Answer:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def raise_for_status(self) -> None:
        """An error status was raised before."""

    async def read(self) -> bytes:
        return self._body


class _Content:
    def __init__(self, pieces: AsyncIterator[str]) -> None:
        self._pieces = pieces

    async def iter_any(self) -> AsyncIterator[bytes]:
        async for piece in self._pieces:
            yield piece.encode()


class Sockets:
    """Who listens on which unix socket now."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._listening: dict[str, tuple[Process, Handler, Listener | None]] = {}

    def listen(self, path: str, process: Process, handler: Handler, listener: Listener | None = None) -> None:
        """From now on `process` answers on `path`."""
        self._listening[path] = (process, handler, listener)

    async def request(self, path: str, method: str, url: str, body: bytes) -> bytes:
        """One call; raises what aiohttp raises."""
        if path not in self._listening:
            raise aiohttp.ClientOSError(2, "no such socket")
        process, handler, _ = self._listening[path]
        try:
            return await self.wire.call(process, lambda: handler(method, urlsplit(url).path, body))
        except (Unreachable, Refusal) as error:
            raise aiohttp.ClientConnectionError(type(error).__name__) from error

    async def stream(self, path: str) -> AsyncIterator[str]:
        """A subscription; raises what aiohttp raises."""
        if path not in self._listening or self._listening[path][2] is None:
            raise aiohttp.ClientOSError(2, "no such socket")
        process, _, listener = self._listening[path]
        assert listener is not None
        try:
            async for piece in self.wire.subscribe(process, listener):
                yield piece
        except Unreachable as error:
            raise aiohttp.ClientConnectionError("refused") from error

    def namespace(self) -> SimpleNamespace:
        """A stand-in for the module `aiohttp`."""
        sockets = self

        class ClientSession:
            def __init__(self, connector: str, timeout: aiohttp.ClientTimeout | None = None) -> None:
                self._path, self._timeout_s = connector, timeout.total if timeout is not None else None

            async def __aenter__(self) -> "ClientSession":
                return self

            async def __aexit__(self, *_: object) -> None:
                return None

            @asynccontextmanager
            async def post(self, url: str, data: Any = b"", headers: Any = None) -> AsyncIterator[_Answer]:
                body = data.encode() if isinstance(data, str) else data
                async with asyncio.timeout(self._timeout_s):
                    answer = await sockets.request(self._path, "POST", url, body)
                yield _Answer(answer)

            @asynccontextmanager
            async def get(self, url: str, headers: Any = None) -> AsyncIterator[Any]:
                content = _Content(sockets.stream(self._path))
                yield SimpleNamespace(raise_for_status=lambda: None, content=content)

        return SimpleNamespace(
            ClientSession=ClientSession,
            UnixConnector=_connector,
            ClientTimeout=aiohttp.ClientTimeout,
            ClientError=aiohttp.ClientError,
        )
