"""The fork servers of one host: one for each namespace and environment that its services import in.

Engines of two namespaces never share a fork parent: a fork sees all that its parent has read. Most services of a
namespace set no environment of their own and share one server.
"""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping

from runtime.engine.adopted import Adopted
from runtime.engine.fork.client import COMMAND, ForkServer, NoForkError

MOST_SERVERS = 4
"""Each holds about 0.4 GB of its own; a service beyond them has its engine spawned."""

Begin = Callable[[str, Mapping[str, str]], Awaitable[ForkServer]]
"""Begins a server for a platform, in an environment. Raises OSError."""


def _begin(platform: str, env: Mapping[str, str]) -> Awaitable[ForkServer]:
    return ForkServer.begin(env, (*COMMAND, platform))


class ForkPool:
    """Begins a server when the first service wants it and ends it when the last one has gone."""

    def __init__(self, *, most: int = MOST_SERVERS, begin: Begin = _begin) -> None:
        self._most, self._begin = most, begin
        self._keys: dict[str, str] = {}
        self._servers: dict[str, asyncio.Task[ForkServer]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def want(self, service: str, platform: str, env: Mapping[str, str]) -> None:
        """Have a server ready for engines of `service`, which import on `platform` in `env`; returns at once.

        Asked again, it replaces a server that has ended. One that may not be forked stays as it is: it would say the
        same again.
        """
        key = _key(service, platform, env)
        if self._keys.get(service) != key:
            self.drop(service)
            self._keys[service] = key
        begun = self._servers.get(key)
        if begun is not None and not _ended(begun):
            return
        self._end(self._servers.pop(key, None))
        if len(self._servers) < self._most:
            self._servers[key] = asyncio.create_task(_awaited(self._begin(platform, dict(env))), name="fork server")

    def drop(self, service: str) -> None:
        """`service` needs no server any more."""
        key = self._keys.pop(service, None)
        if key is not None and key not in self._keys.values():
            self._end(self._servers.pop(key, None))

    def imported(self, service: str) -> bool:
        """Whether an engine of `service` would be forked at once."""
        begun = self._servers.get(self._keys.get(service, ""))
        return begun is not None and _lives(begun) and begun.result().imported

    async def fork(
        self, service: str, argv: tuple[str, ...], *, env: Mapping[str, str], cwd: str, output: int
    ) -> Adopted:
        """An engine of `service`; waits for imports under way, which takes less time than to import anew.

        Raises NoForkError, which says why an engine must be spawned instead.
        """
        begun = self._servers.get(self._keys.get(service, ""))
        if begun is None:
            raise NoForkError(
                f"{self._most} fork servers live already" if self._servers else "no fork server is wanted"
            )
        try:
            server = await asyncio.shield(begun)
        except OSError as error:
            raise NoForkError(f"the fork server cannot be begun: {error}") from error
        return await server.fork(argv, env=env, cwd=cwd, output=output)

    async def close(self) -> None:
        """End every server; the engines made by them live on."""
        self._keys.clear()
        for key in tuple(self._servers):
            self._end(self._servers.pop(key))
        await asyncio.gather(*self._ending)

    def _end(self, begun: asyncio.Task[ForkServer] | None) -> None:
        if begun is not None:
            task = asyncio.create_task(_close(begun))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)


def _key(service: str, platform: str, env: Mapping[str, str]) -> str:
    facts = [service.partition("/")[0], platform, sorted(env.items())]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _lives(begun: asyncio.Task[ForkServer]) -> bool:
    return begun.done() and not begun.cancelled() and begun.exception() is None and begun.result().alive


def _ended(begun: asyncio.Task[ForkServer]) -> bool:
    """Whether another try may go better: it could not be begun, or its process is gone."""
    if not begun.done():
        return False
    return begun.cancelled() or begun.exception() is not None or begun.result().gone


async def _awaited(server: Awaitable[ForkServer]) -> ForkServer:
    return await server


async def _close(begun: asyncio.Task[ForkServer]) -> None:
    try:
        server = await begun
    except OSError:
        return
    await server.close()
