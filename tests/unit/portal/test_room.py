"""Places: how many, how large, in which order, and how they are given back."""

import asyncio

import pytest

from activator_ext.portal.room import Bells, Room, RoomFull, Ticket
from runtime.contract import Waiting
from tests.unit.portal.fakes import NOW

WIDE = Waiting(max_requests=100, max_bytes=1000, timeout_s=60)


def enter(room: Room, service: str = "a/x", size_bytes: int = 0, waiting: Waiting = WIDE) -> Ticket:
    return room.enter(service, waiting, size_bytes, NOW, 5.0)


def test_a_ticket_says_when_its_wait_ends() -> None:
    assert enter(Room(9, 9)).deadline_s == 65.0


@pytest.mark.parametrize(
    ("waiting", "total_requests", "total_bytes", "sizes", "which"),
    [
        pytest.param(Waiting(max_requests=2), 9, 999, [1, 1, 1], "2 requests wait for it already", id="its requests"),
        pytest.param(Waiting(max_bytes=10), 9, 999, [6, 5], "10 bytes that may wait for it", id="its bytes"),
        pytest.param(WIDE, 2, 999, [1, 1, 1], "2 requests wait in all", id="all requests"),
        pytest.param(WIDE, 9, 10, [6, 5], "10 bytes that may wait in all", id="all bytes"),
    ],
)
def test_a_full_room_names_its_limit(
    waiting: Waiting, total_requests: int, total_bytes: int, sizes: list[int], which: str
) -> None:
    room = Room(total_requests, total_bytes)
    *fit, over = sizes
    for size in fit:
        enter(room, size_bytes=size, waiting=waiting)
    with pytest.raises(RoomFull, match=which):
        enter(room, size_bytes=over, waiting=waiting)
    assert room.total_waiting == len(fit)


def test_totals_count_every_service_and_a_services_own_limit_only_itself() -> None:
    room = Room(3, 999)
    one = Waiting(max_requests=1)
    for service in ("a/x", "a/y", "a/z"):
        enter(room, service, waiting=one)
    with pytest.raises(RoomFull, match="3 requests wait in all"):
        enter(room, "a/w", waiting=one)


def test_positions_follow_the_order_of_entry_and_close_up() -> None:
    room = Room(9, 9)
    first, second, third = enter(room), enter(room), enter(room)
    other = enter(room, "a/y")
    assert [room.position(each) for each in (first, second, third, other)] == [1, 2, 3, 1]
    room.leave(second)
    assert [room.position(each) for each in (first, third)] == [1, 2]
    assert room.queue("a/x") == [first, third]


def test_leaving_frees_place_and_bytes_once() -> None:
    room = Room(1, 10)
    ticket = enter(room, size_bytes=10)
    room.leave(ticket)
    room.leave(ticket)
    assert (room.total_waiting, room.total_bytes, room.services()) == (0, 0, set())
    enter(room, size_bytes=10)
    assert room.total_bytes == 10


async def test_bells_wake_in_order_and_are_not_missed_while_busy() -> None:
    room, bells, heard = Room(9, 9), Bells(), list[int]()
    tickets = [enter(room) for _ in range(5)]

    async def wait(ticket: Ticket) -> None:
        await bells.listen(ticket, 3600)
        heard.append(ticket.number)

    for ticket in tickets:
        bells.hang(ticket)
    bells.ring(tickets[:1])  # rung before anybody listens
    tasks = [asyncio.create_task(wait(ticket)) for ticket in reversed(tickets)]
    await asyncio.sleep(0)
    bells.ring(room.queue("a/x"))
    await asyncio.gather(*tasks)
    assert heard == [1, 2, 3, 4, 5]


async def test_a_bell_that_stays_silent_is_listened_to_for_its_time_only() -> None:
    bells, ticket = Bells(), enter(Room(9, 9))
    bells.hang(ticket)
    await bells.listen(ticket, 0)
    bells.take_down(ticket)
    bells.ring([ticket])
