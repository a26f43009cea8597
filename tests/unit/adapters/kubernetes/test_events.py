import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.kubernetes.events import (
    MOST_MESSAGE_BYTES,
    MOST_PER_OBJECT,
    QUIET,
    SAME_FOR,
    About,
    Aggregator,
    Events,
)
from activator_ext.adapters.kubernetes.faults import Refused, Unreachable
from activator_ext.adapters.kubernetes.resource import INFERENCE_SERVICES, Key

T0 = datetime(2026, 11, 30, 9, tzinfo=UTC)
CHAT = About(INFERENCE_SERVICES, Key("team-a", "chat"), "uid-1")
S = timedelta(seconds=1)


def test_what_repeats_is_one_event_that_is_written_when_a_while_has_passed() -> None:
    events = Aggregator()
    written = [events.take(T0 + n * S, CHAT, "FloorRaised", "floor 0 → 1") for n in range(601)]
    due = [series for series in written if series is not None]
    assert [series.count for series in due] == [1, 301, 601]
    assert len({series.name for series in due}) == 1
    assert due[-1].first == T0
    assert due[-1].last == T0 + 600 * S


def test_other_words_are_written_at_once_and_another_reason_is_another_event() -> None:
    events = Aggregator()
    first = events.take(T0, CHAT, "FloorRaised", "floor 0 → 1")
    second = events.take(T0 + S, CHAT, "FloorRaised", "floor 1 → 2")
    third = events.take(T0 + S, CHAT, "StartFailed", "no GPU", warning=True)
    assert first is not None
    assert second is not None
    assert third is not None
    assert (second.name, second.count, second.message) == (first.name, 2, "floor 1 → 2")
    assert third.name != first.name
    assert third.body()["type"] == "Warning"


def test_after_half_an_hour_it_is_a_new_event() -> None:
    events = Aggregator()
    first = events.take(T0, CHAT, "FloorRaised", "floor 0 → 1")
    again = events.take(T0 + SAME_FOR, CHAT, "FloorRaised", "floor 0 → 1")
    assert first is not None
    assert again is not None
    assert again.count == 1
    assert again.name != first.name


def test_one_object_writes_so_many_in_five_minutes_and_no_more() -> None:
    events = Aggregator()
    written = [events.take(T0 + n * S, CHAT, "FloorRaised", f"floor {n}") for n in range(100)]
    assert sum(series is not None for series in written) == MOST_PER_OBJECT
    other = About(INFERENCE_SERVICES, Key("team-a", "other"))
    assert events.take(T0 + 100 * S, other, "FloorRaised", "floor 1") is not None
    assert events.take(T0 + QUIET + 20 * S, CHAT, "FloorRaised", "floor 7") is not None


@given(st.text(max_size=2000))
def test_a_message_fits(message: str) -> None:
    series = Aggregator().take(T0, CHAT, "FloorRaised", message)
    assert series is not None
    assert len(series.message.encode(errors="surrogatepass")) <= MOST_MESSAGE_BYTES


class Server:
    """The API server's Events by name. `answers`: what the next requests meet instead."""

    def __init__(self) -> None:
        self.events: dict[str, Any] = {}
        self.calls: list[str] = []
        self.faults: list[Exception] = []

    async def send(self, method: str, path: str, body: Any, **_: Any) -> dict[str, Any]:
        self.calls.append(method)
        if self.faults:
            raise self.faults.pop(0)
        if method == "POST":
            if body["metadata"]["name"] in self.events:
                raise Refused(path, 409, "AlreadyExists", "")
            self.events[body["metadata"]["name"]] = body
        else:
            name = path.rpartition("/")[2]
            if name not in self.events:
                raise Refused(path, 404, "NotFound", "")
            self.events[name] |= body
        return {}


async def _written(server: Server, calls: int) -> None:
    async with asyncio.timeout(10):
        while len(server.calls) < calls:  # noqa: ASYNC110  (a request has no event)
            await asyncio.sleep(0)


async def test_events_are_written_patched_and_written_anew_where_they_expired() -> None:
    server, now = Server(), [T0]
    events = Events(cast("Client", server), clock=lambda: now[0])
    running = asyncio.create_task(events.run())
    events.tell(CHAT, "FloorRaised", "floor 0 → 1: hold 7")
    await _written(server, 1)
    events.tell(CHAT, "FloorRaised", "floor 1 → 2: hold 8")
    await _written(server, 2)
    server.events.clear()
    events.tell(CHAT, "FloorRaised", "floor 2 → 3: hold 9")
    await _written(server, 4)
    assert server.calls == ["POST", "PATCH", "PATCH", "POST"]
    (event,) = server.events.values()
    assert event["involvedObject"] == {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "name": "chat",
        "namespace": "team-a",
        "uid": "uid-1",
    }
    assert (event["count"], event["message"], event["reason"]) == (3, "floor 2 → 3: hold 9", "FloorRaised")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_an_event_that_cannot_be_written_is_lost_and_told_and_the_next_is_written() -> None:
    server = Server()
    server.faults = [Unreachable("nobody there")]
    events = Events(cast("Client", server), clock=lambda: T0)
    running = asyncio.create_task(events.run())
    events.tell(CHAT, "FloorRaised", "floor 0 → 1")
    await _written(server, 1)
    assert (events.lost, events.trouble) == (1, "nobody there")
    events.tell(CHAT, "StartFailed", "no GPU", warning=True)
    await _written(server, 2)
    assert (events.lost, events.trouble) == (1, None)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_nothing_waits_for_an_api_server_that_is_slow() -> None:
    server = Server()
    events = Events(cast("Client", server), clock=lambda: T0)
    for n in range(1000):
        events.tell(About(INFERENCE_SERVICES, Key("team-a", f"chat-{n}")), "FloorRaised", "floor 0 → 1")
    assert events.lost == 1000 - 256
    running = asyncio.create_task(events.run())
    await _written(server, 256)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len(server.events) == 256
