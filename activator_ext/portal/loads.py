"""What is going on at the portal: who waits, what runs on which endpoint, and when each service was last active."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeVar

from activator_ext.portal.clock import Clock
from activator_ext.portal.room import Room, Ticket
from runtime.contract import Endpoint, Route, ServiceLoad

K = TypeVar("K")


def _ignore(_service: str) -> None:
    return None


class Loads:
    """Counts of waiting and running requests; `on_edge` hears each 0 ↔ n change of a service's either count."""

    def __init__(self, room: Room, clock: Clock) -> None:
        self.room = room
        self.on_edge: Callable[[str], None] = _ignore
        self._clock = clock
        self._running: dict[str, int] = {}
        self._in_flight: dict[tuple[str, str], int] = {}  # by replica and URL: quicker to hash than an Endpoint
        self._last_activity_s: dict[str, float] = {}  # on the steady clock: the wall clock may be set in between

    def enter(self, route: Route, size_bytes: int) -> Ticket:
        """A request begins to wait; raises RoomFull."""
        now, now_s = self._clock.now(), self._clock.elapsed_s()
        ticket = self.room.enter(route.service, route.waiting, size_bytes, now, now_s)
        if self.room.waiting(route.service) == 1:
            self._edge(route.service)
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """It waits no longer."""
        self.room.leave(ticket)
        if not self.room.waiting(ticket.service):
            self._edge(ticket.service)

    def begin(self, service: str, endpoint: Endpoint) -> None:
        """A request runs on `endpoint`."""
        key = endpoint.replica, endpoint.url
        self._in_flight[key] = self._in_flight.get(key, 0) + 1
        count = self._running[service] = self._running.get(service, 0) + 1
        if count == 1:
            self._edge(service)

    def end(self, service: str, endpoint: Endpoint) -> None:
        """It runs no longer."""
        _count_down(self._in_flight, (endpoint.replica, endpoint.url))
        _count_down(self._running, service)
        if service not in self._running:
            self._edge(service)

    def in_flight(self, endpoint: Endpoint) -> int:
        """Requests running on `endpoint`."""
        return self._in_flight.get((endpoint.replica, endpoint.url), 0)

    def running(self, service: str) -> int:
        """Requests of `service` running on any endpoint, those that left the table included."""
        return self._running.get(service, 0)

    def active(self) -> set[str]:
        """Services for which anything waits or runs."""
        return self.room.services() | self._running.keys()

    def load(self, service: str) -> ServiceLoad:
        """One service's part of a report."""
        queue, running = self.room.queue(service), self.running(service)
        last: datetime | None = None
        if queue or running:
            last = self._clock.now()
        elif (last_s := self._last_activity_s.get(service)) is not None:
            last = self._clock.now() - timedelta(seconds=self._clock.elapsed_s() - last_s)
        return ServiceLoad(
            service=service,
            waiting=len(queue),
            running=running,
            oldest_waiting_at=queue[0].entered_at if queue else None,
            last_activity_at=last,
        )

    def forget(self, service: str) -> None:
        """A service of which nothing waits or runs is gone."""
        self._last_activity_s.pop(service, None)

    def _edge(self, service: str) -> None:
        # Between two edges something waits or runs, and the last activity is now.
        self._last_activity_s[service] = self._clock.elapsed_s()
        self.on_edge(service)


def _count_down(counts: dict[K, int], key: K) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
