import gzip
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from urllib.parse import unquote

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from runtime.engine.platforms import Span
from runtime.engine.spans import MAX_BODY_BYTES, SpanReceiver

TRACE = "0af7651916cd43dd8448eb211c80319c"
EXPECTED = Span("Load weights", datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC), 7)


def export(trace_id: str = TRACE) -> bytes:
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    attribute = group.resource.attributes.add(key="vllm.process_id")
    attribute.value.string_value = "7"
    begin_ns = int(EXPECTED.begin.timestamp()) * 10**9
    group.scope_spans.add().spans.add(
        name="Load weights",
        trace_id=bytes.fromhex(trace_id),
        start_time_unix_nano=begin_ns,
        end_time_unix_nano=begin_ns + 2 * 10**9,
    )
    return request.SerializeToString()


@pytest.fixture
async def receiver() -> AsyncIterator[SpanReceiver]:
    receiver = SpanReceiver()
    await receiver.start()
    yield receiver
    await receiver.close()


def bearer(receiver: SpanReceiver) -> dict[str, str]:
    name, _, value = receiver.headers.partition("=")
    return {name: unquote(value)}


async def post(receiver: SpanReceiver, body: bytes, headers: dict[str, str]) -> int:
    async with httpx.AsyncClient(trust_env=False) as http:
        return (await http.post(receiver.endpoint, content=body, headers=headers)).status_code


@pytest.mark.parametrize("packed", [False, True])
async def test_spans_reach_the_subscriber_of_their_trace(receiver: SpanReceiver, packed: bool) -> None:
    got: list[Span] = []
    receiver.subscribe(TRACE, got.extend)
    body, headers = export(), bearer(receiver)
    if packed:
        body, headers = gzip.compress(body), headers | {"Content-Encoding": "gzip"}
    assert await post(receiver, body, headers) == 200
    assert got == [EXPECTED]


async def test_other_traces_and_unsubscribed_ones_are_dropped(receiver: SpanReceiver) -> None:
    got: list[Span] = []
    receiver.subscribe(TRACE, got.extend)
    assert await post(receiver, export("1" * 32), bearer(receiver)) == 200
    receiver.unsubscribe(TRACE)
    receiver.unsubscribe(TRACE)
    assert await post(receiver, export(), bearer(receiver)) == 200
    assert got == []


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer no"}, {"Authorization": "Basic eDp5"}])
async def test_without_its_token_nothing_is_taken(receiver: SpanReceiver, headers: dict[str, str]) -> None:
    got: list[Span] = []
    receiver.subscribe(TRACE, got.extend)
    assert await post(receiver, export(), headers) == 401
    assert got == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(b"\xff\xff", 400, id="no protobuf"),
        pytest.param(b"x" * (MAX_BODY_BYTES + 1), 413, id="too large"),
    ],
)
async def test_what_is_no_export_is_refused(receiver: SpanReceiver, body: bytes, status: int) -> None:
    assert await post(receiver, body, bearer(receiver)) == status


async def test_each_receiver_has_its_own_token_and_closes_twice(receiver: SpanReceiver) -> None:
    other = SpanReceiver()
    await other.start()
    assert await post(other, export(), bearer(receiver)) == 401
    await other.close()
    await other.close()
