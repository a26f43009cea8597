"""Where the table comes from: the controller's stream of routes, read again and again over its unix socket."""

import asyncio
import logging
from pathlib import Path

import aiohttp
from pydantic import ValidationError

from activator_ext.portal.door import Door
from activator_ext.portal.limits import Pace
from activator_ext.portal.sse import Event, Parser
from activator_ext.portal.table import Table, VersionGap
from runtime.contract import RouteDelta, RouteTable

log = logging.getLogger(__name__)


class Link:
    """Whether the controller is there: connected from its snapshot on until its stream ends."""

    def __init__(self) -> None:
        self._up = asyncio.Event()
        self._down = asyncio.Event()
        self._down.set()

    @property
    def connected(self) -> bool:
        """True from a snapshot until the end of the stream that it came on."""
        return self._up.is_set()

    def set(self, *, connected: bool) -> None:
        """Note a change."""
        on, off = (self._up, self._down) if connected else (self._down, self._up)
        off.clear()
        on.set()

    async def up(self) -> None:
        """Return when connected."""
        await self._up.wait()

    async def down(self) -> None:
        """Return when not connected."""
        await self._down.wait()

    async def orphaned(self, orphan_s: float) -> None:
        """Return when the controller has been away for `orphan_s` seconds without a break."""
        while True:
            await self.down()
            try:
                async with asyncio.timeout(orphan_s):
                    await self.up()
            except TimeoutError:
                return


class RouteFeed:
    """Keeps the door's table what the controller says; while nobody says anything, the last one stays."""

    def __init__(self, door: Door, link: Link, controller: Path, pace: Pace) -> None:
        self._door = door
        self._link = link
        self._controller = controller
        self._pace = pace

    async def run(self) -> None:
        """Read until cancelled. A gap in the versions, like any end of the stream, is answered by a new snapshot."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._pace.post_s)
        async with aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(str(self._controller)), timeout=timeout
        ) as session:
            while True:
                await self._read_once(session)
                await asyncio.sleep(self._pace.reconnect_s)

    async def _read_once(self, session: aiohttp.ClientSession) -> None:
        parser = Parser()
        why = "its stream ended"
        try:
            headers = {"Accept": "text/event-stream"}
            async with session.get("http://controller/v1/routes", headers=headers) as response:
                response.raise_for_status()
                async for chunk in response.content.iter_any():
                    for event in parser.feed(chunk):
                        self._take(event)
        except VersionGap as gap:
            why = str(gap)
        except (aiohttp.ClientError, OSError) as error:
            why = str(error)
        except ValidationError as error:
            why = f"unreadable routes: {error.error_count()} errors, first {error.errors()[0]['loc']}"
        finally:
            was_connected = self._link.connected
            self._link.set(connected=False)
        if was_connected:
            log.warning("controller lost (%s); the last table of %d services stays", why, len(self._door.table.routes))

    def _take(self, event: Event) -> None:
        if event.name == "snapshot":
            self._door.set_table(Table.of(RouteTable.model_validate_json(event.data)))
            if not self._link.connected:
                log.info("controller connected: %d services", len(self._door.table.routes))
                self._link.set(connected=True)
        elif event.name == "delta":
            delta = RouteDelta.model_validate_json(event.data)
            changed = [*(route.service for route in delta.changed), *delta.removed]
            self._door.set_table(self._door.table.after(delta), changed)
