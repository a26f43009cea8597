"""KEDA's calls over real gRPC on loopback, as KEDA makes them."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import grpc
import grpc.aio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator_ext.adapters.keda_scaler import service as service_module
from activator_ext.adapters.keda_scaler.floors import Floors, KnownFloor
from activator_ext.adapters.keda_scaler.server import CannotListen, ScalerServer
from activator_ext.core.model import ServiceId
from tests.unit.adapters.keda_scaler.keda import Keda, ref_bytes

CHAT = ServiceId("team-a", "chat")
NOW = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)


class Scaler:
    def __init__(self) -> None:
        self.floors = Floors(lambda: NOW)
        self.said: list[str] = []
        self.server = ScalerServer(self.floors, "127.0.0.1:0", report=self.said.append)


@pytest.fixture
async def scaler() -> AsyncIterator[Scaler]:
    scaler = Scaler()
    async with scaler.server:
        yield scaler


@pytest.fixture
async def keda(scaler: Scaler) -> AsyncIterator[Keda]:
    async with Keda.to(scaler.server.port) as keda:
        yield keda


CHAT_REF = ref_bytes("team-a", "chat-prewarm", service="chat")


async def test_the_calls_of_a_poll(scaler: Scaler, keda: Keda) -> None:
    scaler.floors.tell({CHAT: KnownFloor(9)})

    assert await keda.is_active(CHAT_REF)
    assert await keda.metric_spec(CHAT_REF) == ("pilotlight-floor", 1.0)
    assert await keda.metric(CHAT_REF) == ("pilotlight-floor", 8.9)

    scaler.floors.tell({CHAT: KnownFloor(0)})
    assert not await keda.is_active(CHAT_REF)
    assert await keda.metric(CHAT_REF) == ("pilotlight-floor", 0.0)


async def test_a_rise_is_pushed_and_a_fall_too(scaler: Scaler, keda: Keda) -> None:
    scaler.floors.tell({CHAT: KnownFloor(0)})
    async with keda.stream(CHAT_REF) as told:
        assert await told() is False
        scaler.floors.tell({CHAT: KnownFloor(1)})
        assert await told() is True
        scaler.floors.tell({CHAT: KnownFloor(3)})  # no other activity: the HPA reads the number itself
        scaler.floors.tell({CHAT: KnownFloor(0)})
        assert await told() is False


async def test_a_stream_of_an_unknown_floor_says_nothing_until_it_is_known(scaler: Scaler, keda: Keda) -> None:
    async with keda.stream(CHAT_REF) as told:
        first = asyncio.ensure_future(told())
        while scaler.server.streams == 0:  # noqa: ASYNC110 — gRPC tells no event of it
            await asyncio.sleep(0)
        assert not first.done()
        scaler.floors.tell({CHAT: KnownFloor(1)})
        # Also told between the stream's look at the floor and its waiting: no change is missed.
        async with asyncio.timeout(10):
            assert await first is True


async def test_an_unknown_floor_is_an_error_and_never_inactive(scaler: Scaler, keda: Keda) -> None:
    for call in (keda.is_active, keda.metric, keda.is_active):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(CHAT_REF)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE

    # KEDA makes no HPA without a spec, and would try that again ever more rarely.
    assert await keda.metric_spec(CHAT_REF) == ("pilotlight-floor", 1.0)
    scaler.floors.tell({CHAT: KnownFloor(0)})
    assert await keda.is_active(CHAT_REF) is False
    assert [text.partition(": ")[2][:26] for text in scaler.said] == [
        "no floors are known yet (a",
        "its floor is known again",
    ]


async def test_a_bad_trigger_is_told_to_keda_and_once_to_us(scaler: Scaler, keda: Keda) -> None:
    for call in (keda.is_active, keda.metric_spec, keda.metric):
        with pytest.raises(grpc.aio.AioRpcError, match="unknown key 'servce'") as refused:
            await call(ref_bytes("team-a", "x", servce="chat"))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert len(scaler.said) == 1


async def test_bytes_that_are_no_message_are_refused(keda: Keda) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await keda.is_active(b"\x0a")
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_stream_metric_spec_is_unimplemented(keda: Keda) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await keda.stream_metric_spec(CHAT_REF)
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_scaled_objects_fifth_stream_ends_its_first_cleanly(scaler: Scaler, keda: Keda) -> None:
    scaler.floors.tell({CHAT: KnownFloor(0)})
    calls = []
    for _ in range(5):  # one by one, so that it is known which is the oldest
        calls.append(keda.open_stream(CHAT_REF))
        assert await Keda.next(calls[-1]) is False

    assert await Keda.next(calls[0]) is None  # status OK: KEDA asks again after 2 s
    assert await calls[0].code() is grpc.StatusCode.OK
    assert scaler.server.streams == 4
    for call in calls[1:]:
        call.cancel()


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc"), st.integers(0, 9)), max_size=60))
def test_streams_are_counted_whatever_comes_and_goes(steps: list[tuple[bool, str, int]]) -> None:
    streams = service_module.Streams(most=5, most_each=2)
    running: list[tuple[str, asyncio.Event]] = []
    for begins, ref, which in steps:
        if begins:
            ended = streams.begin(ref)
            running += [(ref, ended)] if ended is not None else []
        elif running:
            streams.end(*running.pop(which % len(running)))
        wanted = [ref for ref, ended in running if not ended.is_set()]
        assert streams.count == len(wanted) <= 5
        assert all(wanted.count(ref) <= 2 for ref in "abc")


async def test_streams_are_bounded() -> None:
    streams = service_module.Streams(most=2)
    first, second = streams.begin("a"), streams.begin("b")
    assert first is not None
    assert second is not None
    assert streams.begin("c") is None
    streams.end("a", first)
    streams.end("a", first)

    assert streams.count == 1
    assert streams.begin("c") is not None


async def test_a_client_that_leaves_takes_its_stream_along(scaler: Scaler, keda: Keda) -> None:
    scaler.floors.tell({CHAT: KnownFloor(0)})
    call = keda.open_stream(CHAT_REF)
    assert await Keda.next(call) is False
    call.cancel()

    async with asyncio.timeout(30):
        while scaler.server.streams:  # noqa: ASYNC110 — gRPC tells no event of it
            await asyncio.sleep(0.001)


async def test_an_end_of_the_scaler_is_clean_for_every_stream() -> None:
    scaler = Scaler()
    scaler.floors.tell({CHAT: KnownFloor(1)})
    async with scaler.server, Keda.to(scaler.server.port) as keda:
        call = keda.open_stream(CHAT_REF)
        assert await Keda.next(call) is True
        await scaler.server.end()

        assert await Keda.next(call) is None
        assert await call.code() is grpc.StatusCode.OK


async def test_a_large_request_is_refused(keda: Keda) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await keda.is_active(ref_bytes("team-a", "x", service="c" * 70_000))
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "192.0.2.1:9090", "scaler.example:9090"])
def test_nothing_listens_beyond_loopback_unless_told(listen: str) -> None:
    with pytest.raises(CannotListen, match="--tls-cert"):
        ScalerServer(Floors(lambda: NOW), listen, report=print)
    ScalerServer(Floors(lambda: NOW), listen, plain=True, report=print)


@pytest.mark.parametrize("listen", ["9090x", "127.0.0.1", "127.0.0.1:70000", ""])
def test_an_address_that_is_none(listen: str) -> None:
    with pytest.raises(CannotListen, match="write HOST:PORT"):
        ScalerServer(Floors(lambda: NOW), listen, report=print)


async def test_an_address_that_is_taken(scaler: Scaler) -> None:
    second = ScalerServer(scaler.floors, f"127.0.0.1:{scaler.server.port}", report=print)

    with pytest.raises(CannotListen, match=f"cannot listen on 127.0.0.1:{scaler.server.port}"):
        await second.begin()
