"""The waiting room: who waits for which service, bounded in number and bytes, first come first served.

`Room` is pure. `Bells` is the thin asyncio part that tells waiting requests, in their order, to look again.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime

from runtime.contract import Waiting


class RoomFull(Exception):
    """No place; the message names the limit that is reached."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """One place in the room. `entered_s` and `deadline_s` are on the portal's steady clock."""

    number: int
    service: str
    size_bytes: int
    entered_at: datetime
    entered_s: float
    deadline_s: float


class Room:
    """Places by service, in order of entry. `total_requests` and `total_bytes` bound all services together."""

    def __init__(self, total_requests: int, total_bytes: int) -> None:
        self._total_requests = total_requests
        self._total_bytes = total_bytes
        self._entered = 0
        self._queues: dict[str, dict[int, Ticket]] = {}
        self._bytes: dict[str, int] = {}

    def enter(self, service: str, waiting: Waiting, size_bytes: int, now: datetime, now_s: float) -> Ticket:
        """Take the last place of `service`; raises RoomFull."""
        if what := self._reached(service, waiting, size_bytes):
            raise RoomFull(what)
        self._entered += 1
        ticket = Ticket(self._entered, service, size_bytes, now, now_s, now_s + waiting.timeout_s)
        self._queues.setdefault(service, {})[ticket.number] = ticket
        self._bytes[service] = self._bytes.get(service, 0) + size_bytes
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """Give the place back; leaving twice is harmless."""
        queue = self._queues.get(ticket.service, {})
        if queue.pop(ticket.number, None) is None:
            return
        self._bytes[ticket.service] -= ticket.size_bytes
        if not queue:
            del self._queues[ticket.service], self._bytes[ticket.service]

    def queue(self, service: str) -> list[Ticket]:
        """Who waits for `service`, the first first."""
        return list(self._queues.get(service, {}).values())

    def position(self, ticket: Ticket) -> int:
        """1 for the first of the service's queue."""
        return 1 + sum(number < ticket.number for number in self._queues.get(ticket.service, {}))

    def waiting(self, service: str) -> int:
        """How many wait for `service`."""
        return len(self._queues.get(service, {}))

    def services(self) -> set[str]:
        """The services that anyone waits for."""
        return set(self._queues)

    @property
    def total_waiting(self) -> int:
        """How many wait in all."""
        return sum(map(len, self._queues.values()))

    @property
    def total_bytes(self) -> int:
        """Bytes of the bodies that wait in all."""
        return sum(self._bytes.values())

    def _reached(self, service: str, waiting: Waiting, size_bytes: int) -> str | None:
        if self.waiting(service) >= waiting.max_requests:
            return f"{waiting.max_requests} requests wait for it already"
        if self._bytes.get(service, 0) + size_bytes > waiting.max_bytes:
            return f"the {waiting.max_bytes} bytes that may wait for it are taken"
        if self.total_waiting >= self._total_requests:
            return f"{self._total_requests} requests wait in all"
        if self.total_bytes + size_bytes > self._total_bytes:
            return f"the {self._total_bytes} bytes that may wait in all are taken"
        return None


class Bells:
    """One bell for each waiting request; a bell rung while its request is busy is heard when it next listens."""

    def __init__(self) -> None:
        self._bells: dict[int, asyncio.Event] = {}

    def hang(self, ticket: Ticket) -> None:
        """From now on `ring` reaches this ticket."""
        self._bells[ticket.number] = asyncio.Event()

    def take_down(self, ticket: Ticket) -> None:
        """Nobody listens for this ticket any more."""
        self._bells.pop(ticket.number, None)

    def ring(self, tickets: list[Ticket]) -> None:
        """Wake these requests, in this order."""
        for ticket in tickets:
            if bell := self._bells.get(ticket.number):
                bell.set()

    async def listen(self, ticket: Ticket, at_most_s: float) -> None:
        """Return when the bell rings, or after `at_most_s` seconds."""
        bell = self._bells[ticket.number]
        try:
            async with asyncio.timeout(at_most_s):
                await bell.wait()
        except TimeoutError:
            return
        bell.clear()
