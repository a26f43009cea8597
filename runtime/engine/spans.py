"""Receiver of the engines' own start-up spans: OTLP over HTTP with protobuf, on loopback, one for all engines.

Every start has a trace id of its own, by which spans find their start. Spans of other traces (clients that trace
their requests) and of starts that are long over are dropped.
"""

import hmac
import secrets
from collections.abc import Callable
from datetime import UTC, datetime

from aiohttp import web
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from runtime.engine.platforms import Span

MAX_BODY_BYTES = 4 * 2**20
"""One export; vLLM's batches of 512 spans are below 300 kB."""

SpanCallback = Callable[[tuple[Span, ...]], None]


class SpanReceiver:
    """Listens on an ephemeral loopback port; only who holds its random token may export."""

    def __init__(self) -> None:
        self._token = secrets.token_urlsafe(24)
        self._callbacks: dict[str, SpanCallback] = {}
        self._runner: web.AppRunner | None = None
        self._port = 0

    @property
    def endpoint(self) -> str:
        """For `--otlp-traces-endpoint`; valid after `start`."""
        return f"http://127.0.0.1:{self._port}/v1/traces"

    @property
    def headers(self) -> str:
        """For OTEL_EXPORTER_OTLP_TRACES_HEADERS (values are URL-encoded there)."""
        return f"authorization=Bearer%20{self._token}"

    async def start(self) -> None:
        """Begin to listen. Raises OSError when no port can be had."""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_post("/v1/traces", self._export)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self._runner, self._port = runner, runner.addresses[0][1]

    async def close(self) -> None:
        """Stop listening; may be called twice."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    def subscribe(self, trace_id: str, callback: SpanCallback) -> None:
        """Have `callback` called in the event loop with each batch of spans of this trace (32 hex digits)."""
        self._callbacks[trace_id] = callback

    def unsubscribe(self, trace_id: str) -> None:
        """No more calls for this trace; an unknown one is fine."""
        self._callbacks.pop(trace_id, None)

    async def _export(self, request: web.Request) -> web.Response:
        given = request.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {self._token}".encode()):
            return web.Response(status=401)
        try:
            by_trace = decode(await request.read())
        except DecodeError:
            return web.Response(status=400, text="no OTLP trace export")
        for trace_id, spans in by_trace.items():
            callback = self._callbacks.get(trace_id)
            if callback is not None:
                callback(spans)
        return web.Response(
            body=ExportTraceServiceResponse().SerializeToString(), content_type="application/x-protobuf"
        )


def decode(body: bytes) -> dict[str, tuple[Span, ...]]:
    """The spans of one export by trace id; raises DecodeError on anything else."""
    found: dict[str, list[Span]] = {}
    for group in ExportTraceServiceRequest.FromString(body).resource_spans:
        pid = _pid(group.resource)
        for scope in group.scope_spans:
            for span in scope.spans:
                begin, end = _instant(span.start_time_unix_nano), _instant(span.end_time_unix_nano)
                found.setdefault(span.trace_id.hex(), []).append(Span(span.name, begin, end, pid))
    return {trace: tuple(spans) for trace, spans in found.items()}


def _pid(resource: Resource) -> int | None:
    for attribute in resource.attributes:
        if attribute.key == "vllm.process_id" and attribute.value.string_value.isdigit():
            return int(attribute.value.string_value)
    return None


def _instant(nanoseconds: int) -> datetime:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC)
