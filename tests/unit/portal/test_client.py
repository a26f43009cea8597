"""One connection, without a network: what it makes of what a transport tells it."""

import asyncio

from activator_ext.portal.client import ClientConnection
from activator_ext.portal.clock import Clock
from activator_ext.portal.door import Door
from activator_ext.portal.engines import Engines
from activator_ext.portal.limits import Limits
from activator_ext.portal.public import PublicFace
from activator_ext.portal.table import Table
from runtime.contract import RouteTable
from tests.unit.portal.fakes import route

ASK = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"


class Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += bytes(data)

    def is_closing(self) -> bool:
        return False

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def connection() -> tuple[ClientConnection, Transport]:
    door = Door(Limits(), Clock())
    door.set_table(Table.of(RouteTable(version=1, routes=(route(),))))
    client = ClientConnection(PublicFace(door, Engines(1.0, door.clock.elapsed_s)))
    transport = Transport()
    client.connection_made(transport)
    return client, transport


async def test_a_client_that_does_not_take_its_answers_is_given_no_more() -> None:
    """Else one that sends requests and reads nothing would fill the memory, one answer after the other."""
    client, transport = connection()
    client.data_received(ASK)
    first = transport.sent
    assert first.startswith(b"HTTP/1.1 200")
    client.pause_writing()
    for _ in range(3):
        client.data_received(ASK)
    await asyncio.sleep(0)
    assert transport.sent == first
    client.resume_writing()
    for _ in range(10):
        await asyncio.sleep(0)
    assert transport.sent.count(b"HTTP/1.1 200") == 4


async def test_a_head_is_bounded_however_it_is_cut() -> None:
    """Two reads, each below the bound, the second with the head's end."""
    limit = Limits().head_bytes
    for size, status in ((limit - 200, b"200"), (limit + 1024, b"431")):
        client, transport = connection()
        head = ASK[:-2] + b"".join(b"X-%d: %b\r\n" % (n, b"a" * 8000) for n in range(size // 8010))
        head += b"X-Rest: " + b"a" * (size - len(head) - 12) + b"\r\n\r\n"
        assert len(head) == size
        client.data_received(head[: limit - 500])
        client.data_received(head[limit - 500 :])
        assert transport.sent.split()[1] == status, size
