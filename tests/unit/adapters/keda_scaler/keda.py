"""KEDA's side of the scaler's calls, over a real channel. Its messages are made with protobuf apart from ours."""

import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio

SERVICE = "/externalscaler.ExternalScaler/"


def _field(number: int, data: bytes) -> bytes:
    size, length = b"", len(data)
    while length >= 128:
        size, length = size + bytes([length & 127 | 128]), length >> 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + data


def ref_bytes(namespace: str, name: str, **metadata: str) -> bytes:
    """A ScaledObjectRef."""
    pairs = (_field(1, key.encode()) + _field(2, value.encode()) for key, value in metadata.items())
    return _field(1, name.encode()) + _field(2, namespace.encode()) + b"".join(_field(3, pair) for pair in pairs)


def _named_double(data: bytes) -> tuple[str, float]:
    """(name, double) of an answer with one MetricSpec or MetricValue."""
    length = data[3]
    name, rest = data[4 : 4 + length].decode(), data[4 + length :]
    return name, struct.unpack("<d", rest[-8:])[0] if rest else 0.0


class Keda:
    """One operator."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    @classmethod
    @asynccontextmanager
    async def to(cls, port: int, credentials: grpc.ChannelCredentials | None = None) -> AsyncIterator["Keda"]:
        address = f"localhost:{port}" if credentials else f"127.0.0.1:{port}"
        channel = grpc.aio.secure_channel(address, credentials) if credentials else grpc.aio.insecure_channel(address)
        async with channel:
            yield cls(channel)

    async def _ask(self, method: str, request: bytes) -> bytes:
        method_call: Any = self._channel.unary_unary(SERVICE + method)
        data: bytes = await method_call(request, timeout=30)
        return data

    async def is_active(self, ref: bytes) -> bool:
        return await self._ask("IsActive", ref) == b"\x08\x01"

    async def metric_spec(self, ref: bytes) -> tuple[str, float]:
        return _named_double(await self._ask("GetMetricSpec", ref))

    async def metric(self, ref: bytes) -> tuple[str, float]:
        return _named_double(await self._ask("GetMetrics", _field(1, ref) + _field(2, b"pilotlight-floor")))

    async def stream_metric_spec(self, ref: bytes) -> None:
        method_call: Any = self._channel.unary_stream(SERVICE + "StreamMetricSpec")
        async for _ in method_call(ref, timeout=30):
            pass

    def open_stream(self, ref: bytes) -> Any:
        method_call: Any = self._channel.unary_stream(SERVICE + "StreamIsActive")
        return method_call(ref)

    @staticmethod
    async def next(call: Any) -> bool | None:
        """The next item; None when the stream ended with status OK."""
        data = await call.read()
        return None if data is grpc.aio.EOF else data == b"\x08\x01"

    @asynccontextmanager
    async def stream(self, ref: bytes) -> AsyncIterator[Callable[[], Awaitable[bool | None]]]:
        call = self.open_stream(ref)
        try:
            yield lambda: self.next(call)
        finally:
            call.cancel()
