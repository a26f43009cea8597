"""How a request waits: in its place, with heartbeats if it asked for a stream, until an endpoint admits it."""

from collections.abc import Callable

from activator_ext.portal.admission import Avoid
from activator_ext.portal.door import Door
from activator_ext.portal.progress import progress
from activator_ext.portal.room import Ticket
from runtime.contract import Endpoint


class Wait:
    """One wait. `beat` is given each heartbeat's text; None: the request asked for no stream."""

    def __init__(self, door: Door, ticket: Ticket, avoid: Avoid | None, beat: Callable[[str], None] | None) -> None:
        self._door = door
        self._ticket = ticket
        self._avoid = avoid
        self._beat = beat
        self._beat_s = ticket.entered_s + door.limits.heartbeat_after_s

    async def endpoint(self) -> Endpoint:
        """An endpoint, on which this request is counted as running; raises Refused."""
        while (endpoint := self._door.admit(self._ticket.service, self._ticket, self._avoid)) is None:
            await self._listen()
        return endpoint

    async def _listen(self) -> None:
        """Until something may have changed, or it is time for a heartbeat."""
        now_s = self._door.clock.elapsed_s()
        if self._beat is not None and now_s >= self._beat_s:
            self._beat(self._text())
            self._beat_s = self._door.clock.elapsed_s() + self._door.limits.heartbeat_every_s
            return
        until = [self._ticket.deadline_s]
        if self._beat is not None:
            until.append(self._beat_s)
        if self._avoid is not None and self._avoid.until_s > now_s:
            until.append(self._avoid.until_s)
        await self._door.listen(self._ticket, min(until) - now_s)

    def _text(self) -> str:
        route = self._door.route(self._ticket.service)
        return progress(route, self._door.clock.now(), self._door.loads.room.position(self._ticket))
