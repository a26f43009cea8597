"""Tells the controller what waits and runs: at once when a service's count leaves or reaches zero, else by rhythm."""

import asyncio
import logging
from pathlib import Path

import aiohttp

from activator_ext.portal.door import Door
from activator_ext.portal.limits import Pace
from activator_ext.portal.sources import Link
from runtime.contract import PortalReport

log = logging.getLogger(__name__)


class Reporter:
    """Posts PortalReports while the controller is there.

    A report names the services that changed and those that are active; a full one names all, zeros included. It is
    sent after each connect and as a heartbeat. A report that got lost is made good by the next.
    """

    def __init__(self, door: Door, link: Link, controller: Path, pace: Pace, portal: str) -> None:
        self._door = door
        self._link = link
        self._controller = controller
        self._pace = pace
        self._portal = portal
        self._changed: set[str] = set()
        self._edge = asyncio.Event()
        self._waited: set[str] = set()  # of the last report
        self._unhurried: asyncio.TimerHandle | None = None

    def edge(self, service: str) -> None:
        """A count of `service` left or reached zero: report soon; at once if it is about a request that waits.

        A warm service that is asked now and then would else cost a report for each request.
        """
        self._changed.add(service)
        if service in self._waited or self._door.loads.room.waiting(service):
            self._edge.set()
        elif self._unhurried is None:
            self._unhurried = asyncio.get_running_loop().call_later(self._pace.unhurried_s, self._edge.set)

    async def run(self) -> None:
        """Report until cancelled."""
        timeout = aiohttp.ClientTimeout(total=self._pace.post_s)
        async with aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(str(self._controller)), timeout=timeout
        ) as session:
            while True:
                await self._link.up()
                await self._while_connected(session)

    async def _while_connected(self, session: aiohttp.ClientSession) -> None:
        full_at_s = self._door.clock.elapsed_s()
        while self._link.connected:
            self._edge.clear()
            if self._unhurried is not None:
                self._unhurried.cancel()
                self._unhurried = None
            now_s = self._door.clock.elapsed_s()
            if now_s >= full_at_s:
                full_at_s = now_s + self._pace.full_every_s
                self._changed.update(self._door.table.routes)
            await self._post(session)
            await self._pause(full_at_s)

    async def _pause(self, full_at_s: float) -> None:
        at_most_s = full_at_s - self._door.clock.elapsed_s()
        if self._door.loads.active() or self._changed:
            at_most_s = min(at_most_s, self._pace.active_every_s)
        edge, down = asyncio.ensure_future(self._edge.wait()), asyncio.ensure_future(self._link.down())
        try:
            await asyncio.wait({edge, down}, timeout=max(0.0, at_most_s), return_when=asyncio.FIRST_COMPLETED)
        finally:
            edge.cancel()
            down.cancel()
        if self._edge.is_set():
            await asyncio.sleep(self._pace.debounce_s)

    async def _post(self, session: aiohttp.ClientSession) -> None:
        loads = self._door.loads
        services, self._changed = self._changed | loads.active(), set()
        self._waited = loads.room.services()
        report = PortalReport(
            portal=self._portal,
            at=self._door.clock.now(),
            services=tuple(loads.load(service) for service in sorted(services)),
        )
        try:
            async with session.post(
                "http://controller/v1/internal/portal",
                data=report.model_dump_json(),
                headers={"Content-Type": "application/json"},
            ) as response:
                response.raise_for_status()
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            log.warning("report not delivered (%s); the next one will say it again", type(error).__name__)
            self._changed |= services
