"""While the controller is gone: ask hosts themselves to wake what requests wait for, and take routes from them."""

import asyncio
import logging

import aiohttp
from pydantic import ValidationError

from activator_ext.portal.door import Door
from activator_ext.portal.limits import Pace
from activator_ext.portal.sources import Link
from runtime.contract import Endpoint, HostView, Route, ServiceView, Warmth

log = logging.getLogger(__name__)


class Waker:
    """Posts wakes while the link is down and anything waits; idle otherwise."""

    def __init__(self, door: Door, link: Link, pace: Pace) -> None:
        self._door = door
        self._link = link
        self._pace = pace
        self._kicked = asyncio.Event()

    def kick(self) -> None:
        """A request began to wait, or the controller was lost."""
        self._kicked.set()

    async def run(self) -> None:
        """Wake until cancelled. A wake is asked for again and again: it is idempotent, and its answer is the news."""
        while True:
            await self._link.down()
            self._kicked.clear()
            for service in sorted(self._door.loads.room.services()):
                if not self._link.connected and (route := self._door.table.routes.get(service)):
                    await self._wake(route)
            every_s = self._pace.wake_every_s if self._door.loads.room.services() else None
            try:
                async with asyncio.timeout(every_s):
                    await self._kicked.wait()
            except TimeoutError:
                continue

    async def _wake(self, route: Route) -> None:
        if route.host_socket is None:
            return
        timeout = aiohttp.ClientTimeout(total=self._pace.post_s)
        try:
            async with (
                aiohttp.ClientSession(connector=aiohttp.UnixConnector(route.host_socket), timeout=timeout) as session,
                session.post(f"http://host/v1/services/{route.service}/wake") as response,
            ):
                response.raise_for_status()
                view = HostView.model_validate_json(await response.read())
        except (aiohttp.ClientError, OSError, ValidationError) as error:
            log.warning("%s: its host was not woken (%s)", route.service, type(error).__name__)
            return
        if not self._link.connected:  # else the controller, back meanwhile, knows better
            self._adopt(view, route.service)

    def _adopt(self, view: HostView, service: str) -> None:
        route = self._door.table.routes.get(service)
        seen = next((each for each in view.services if each.service == service), None)
        if route is None or seen is None:
            return
        fresh = route_seen(route, seen)
        if fresh != route:
            self._door.set_table(self._door.table.with_route(fresh), [service])


def route_seen(route: Route, seen: ServiceView) -> Route:
    """`route` as its host sees it: endpoints are its proven replicas that are not draining. Pure."""
    ready = [
        replica
        for replica in seen.replicas
        if replica.warmth in (Warmth.WARM, Warmth.BUSY) and replica.ready_at and replica.url and not replica.draining
    ]
    warming = [replica for replica in seen.replicas if replica.warmth is Warmth.WARMING]
    ranked = [*ready, *warming, *seen.replicas]
    return route.model_copy(
        update={
            "warmth": ranked[0].warmth if ranked else Warmth.COLD,
            "endpoints": tuple(Endpoint(replica=replica.id, url=replica.url or "") for replica in ready),
            "stage": warming[0].stage if warming else None,
            "failure": seen.last_failure,
            "retry_at": seen.retry_at,
        }
    )
