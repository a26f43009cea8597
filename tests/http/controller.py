"""A controller as the portal sees one: routes as a stream of events on a unix socket, reports taken and passed over."""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from runtime.contract import Endpoint, Route, RouteDelta, RouteTable, Warmth
from tests.http.wire import SOON_S

T = TypeVar("T")

_CREATED_AT = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def route(service: str, *urls: str, **fields: Any) -> Route:
    """A route with one endpoint for each URL; without any it is at zero."""
    return Route(
        **{
            "service": service,
            "names": (service, service.partition("/")[2]),
            "warmth": Warmth.WARM if urls else Warmth.COLD,
            "endpoints": tuple(Endpoint(replica=f"{service}/{n}", url=url) for n, url in enumerate(urls)),
            "created_at": _CREATED_AT,
            **fields,
        }
    )


class Controller:
    """Serves in a thread of its own. `version` is the table's."""

    def __init__(self, path: Path) -> None:
        self.version = 1
        self._path = path
        self._routes: dict[str, Route] = {}
        self._portals: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._do(asyncio.start_unix_server(self._serve, path))

    def push(self, *changed: Route, removed: tuple[str, ...] = ()) -> int:
        """Tell every portal; the table's new version."""
        return self._do(self._push(changed, removed))

    def close(self) -> None:
        """Leave the portals alone."""
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SOON_S)
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SOON_S)

    async def _push(self, changed: tuple[Route, ...], removed: tuple[str, ...]) -> int:
        self.version += 1
        self._routes.update((each.service, each) for each in changed)
        for service in removed:
            self._routes.pop(service, None)
        delta = RouteDelta(version=self.version, changed=changed, removed=removed)
        for portal in self._portals:
            portal.write(f"event: delta\ndata: {delta.model_dump_json()}\n\n".encode())
        return self.version

    async def _close(self) -> None:
        self._server.close()
        current = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not current]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                if head.startswith("get /v1/routes"):
                    self._begin(writer)
                    continue
                _, _, after = head.partition("content-length: ")
                await reader.readexactly(int(after.partition("\r\n")[0]))
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return  # 3.11's streams log a cancelled handler as if it had failed, hence the last of the three
        finally:
            self._portals.discard(writer)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    def _begin(self, writer: asyncio.StreamWriter) -> None:
        table = RouteTable(version=self.version, routes=tuple(self._routes.values()))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        writer.write(f"event: snapshot\ndata: {table.model_dump_json()}\n\n".encode())
        self._portals.add(writer)
