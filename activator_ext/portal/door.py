"""What every request at the portal shares: the table, the counts, the bells, and whether the portal is stopping."""

from collections.abc import Iterable

from activator_ext.portal.admission import Avoid, choose, failure_answers
from activator_ext.portal.clock import Clock
from activator_ext.portal.limits import Limits
from activator_ext.portal.loads import Loads
from activator_ext.portal.metrics import Metrics
from activator_ext.portal.refusals import Refused, failed, full, no_table, stopping, timed_out, unknown_model
from activator_ext.portal.room import Bells, Room, RoomFull, Ticket
from activator_ext.portal.table import Table
from runtime.contract import Endpoint, Route


class Door:
    """The portal's state. Nothing here speaks to the network."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self.limits = limits
        self.clock = clock
        self.table = Table()
        self.loads = Loads(Room(limits.total_requests, limits.total_bytes), clock)
        self.metrics = Metrics()
        self.stopping = False
        self._bells = Bells()
        self._gone: set[str] = set()

    def set_table(self, table: Table, changed: Iterable[str] | None = None) -> None:
        """Use `table`; whoever waits for a service in `changed` (None: any) looks again."""
        self._gone |= self.table.routes.keys() - table.routes.keys()
        self.table = table
        self._ring(self.loads.room.services() if changed is None else changed)
        self._forget()

    def stop_waiting(self) -> None:
        """From now on nobody waits: those who do are refused, as is everyone who comes."""
        self.stopping = True
        self._ring(self.loads.room.services())

    def route(self, service: str) -> Route:
        """The service's route now; raises Refused if there is none (any more) or the portal stops."""
        if self.stopping:
            raise Refused(stopping())
        if self.table.version is None:
            raise Refused(no_table())
        route = self.table.routes.get(service)
        if route is None:
            raise Refused(unknown_model(service, self.table))
        return route

    def admit(self, service: str, ticket: Ticket | None, avoid: Avoid | None) -> Endpoint | None:
        """An endpoint, now counted as running there; None: wait. Raises Refused."""
        route, now_s = self.route(service), self.clock.elapsed_s()
        if endpoint := choose(route, self.loads.in_flight, avoid, now_s):
            self.loads.begin(service, endpoint)
            return endpoint
        now = self.clock.now()
        if failure_answers(route, ticket.entered_at if ticket else now, now):
            raise Refused(failed(route, now))
        if ticket and now_s >= ticket.deadline_s:
            raise Refused(timed_out(route, now, self.limits.retry_after_s))
        return None

    def enter(self, service: str, size_bytes: int) -> Ticket:
        """Begin to wait; raises Refused if the room is full."""
        route = self.route(service)
        try:
            ticket = self.loads.enter(route, size_bytes)
        except RoomFull as reached:
            raise Refused(full(str(reached), route, self.clock.now(), self.limits.retry_after_s)) from None
        self._bells.hang(ticket)
        return ticket

    async def listen(self, ticket: Ticket, at_most_s: float) -> None:
        """Wait until something changed for this ticket, or for `at_most_s` seconds."""
        await self._bells.listen(ticket, at_most_s)

    def leave(self, ticket: Ticket) -> float:
        """Wait no longer, for whatever cause; gives the seconds waited."""
        self._bells.take_down(ticket)
        self.loads.leave(ticket)
        waited_s = max(0.0, self.clock.elapsed_s() - ticket.entered_s)
        self.metrics.waited(ticket.service, waited_s)
        return waited_s

    def _forget(self) -> None:
        """Services that are gone leave nothing behind once their last requests have ended."""
        self._gone -= self.table.routes.keys()
        for service in self._gone - self.loads.active():
            self.loads.forget(service)
            self.metrics.forget(service)
            self._gone.discard(service)

    def _ring(self, services: Iterable[str]) -> None:
        for service in list(services):
            self._bells.ring(self.loads.room.queue(service))
