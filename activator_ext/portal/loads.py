"""What is going on at the portal: who waits, what runs on which endpoint, and when each service was last active."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime

from activator_ext.portal.clock import Clock
from activator_ext.portal.room import Room, Ticket
from runtime.contract import Endpoint, Route, ServiceLoad


def _ignore(_service: str) -> None:
    return None


class Loads:
    """Counts of waiting and running requests; `on_edge` hears each 0 ↔ n change of a service's either count."""

    def __init__(self, room: Room, clock: Clock) -> None:
        self.room = room
        self.on_edge: Callable[[str], None] = _ignore
        self._clock = clock
        self._running: Counter[str] = Counter()
        self._in_flight: Counter[Endpoint] = Counter()
        self._last_activity_at: dict[str, datetime] = {}

    def enter(self, route: Route, size_bytes: int) -> Ticket:
        """A request begins to wait; raises RoomFull."""
        now, now_s = self._clock.now(), self._clock.elapsed_s()
        ticket = self.room.enter(route.service, route.waiting, size_bytes, now, now_s)
        self._changed(route.service, edge=self.room.waiting(route.service) == 1)
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """It waits no longer."""
        self.room.leave(ticket)
        self._changed(ticket.service, edge=self.room.waiting(ticket.service) == 0)

    def begin(self, service: str, endpoint: Endpoint) -> None:
        """A request runs on `endpoint`."""
        self._in_flight[endpoint] += 1
        self._running[service] += 1
        self._changed(service, edge=self._running[service] == 1)

    def end(self, service: str, endpoint: Endpoint) -> None:
        """It runs no longer."""
        self._in_flight[endpoint] -= 1
        if not self._in_flight[endpoint]:
            del self._in_flight[endpoint]
        self._running[service] -= 1
        self._changed(service, edge=self._running[service] == 0)

    def in_flight(self, endpoint: Endpoint) -> int:
        """Requests running on `endpoint`."""
        return self._in_flight[endpoint]

    def running(self, service: str) -> int:
        """Requests of `service` running on any endpoint, those that left the table included."""
        return self._running[service]

    def active(self) -> set[str]:
        """Services for which anything waits or runs."""
        return self.room.services() | {service for service, count in self._running.items() if count}

    def load(self, service: str) -> ServiceLoad:
        """One service's part of a report."""
        queue, running = self.room.queue(service), self.running(service)
        last = self._clock.now() if queue or running else self._last_activity_at.get(service)
        return ServiceLoad(
            service=service,
            waiting=len(queue),
            running=running,
            oldest_waiting_at=queue[0].entered_at if queue else None,
            last_activity_at=last,
        )

    def _changed(self, service: str, *, edge: bool) -> None:
        self._last_activity_at[service] = self._clock.now()
        if edge:
            self.on_edge(service)
