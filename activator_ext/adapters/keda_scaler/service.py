"""KEDA's calls, answered from the floors that are known.

IsActive and GetMetrics are asked each polling interval of a ScaledObject and each sync of its HPA; StreamIsActive stays
open, and a `true` on it scales 0 → 1 at once. KEDA heeds no `false` there: it goes to zero when IsActive has been false
for the ScaledObject's cooldown.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from typing import NoReturn

import grpc
import grpc.aio

from activator_ext.adapters.keda_scaler import answers, wire
from activator_ext.adapters.keda_scaler.floors import Floors, Unknown
from activator_ext.adapters.keda_scaler.wire import ScaledObjectRef

MAX_STREAMS = 4096
"""Streams open at once, all told: one for each ScaledObject and KEDA operator. One idle stream takes about 30 KiB."""
MAX_STREAMS_EACH = 4
"""Streams of one ScaledObject: an operator's, its successor's, those of cut connections. A new one ends the oldest."""
LOOK_AGAIN_S = 30.0
"""An open stream looks at its floor this often even if nothing was told."""

Call = grpc.aio.ServicerContext[bytes, bytes]


class Streams:
    """Open streams, bounded. Ending one is clean (status OK), upon which KEDA asks again after 2 s."""

    def __init__(self, most: int = MAX_STREAMS, most_each: int = MAX_STREAMS_EACH) -> None:
        self._most = most
        self._most_each = most_each
        self._open: dict[str, list[asyncio.Event]] = defaultdict(list)
        self._count = 0

    @property
    def count(self) -> int:
        """How many are open."""
        return self._count

    def begin(self, ref: str) -> asyncio.Event | None:
        """A new stream of this ScaledObject: what is set when it is to end; None if there is no room for it."""
        mine = self._open[ref]
        if len(mine) >= self._most_each:
            mine.pop(0).set()
            self._count -= 1
        if self._count >= self._most:
            self._tidy(ref)
            return None
        ended = asyncio.Event()
        mine.append(ended)
        self._count += 1
        return ended

    def end(self, ref: str, ended: asyncio.Event) -> None:
        """A stream is over."""
        if ended in self._open[ref]:
            self._open[ref].remove(ended)
            self._count -= 1
        self._tidy(ref)

    def end_all(self) -> None:
        """Have every stream end cleanly: KEDA comes back after 2 s, where a broken one costs it up to a minute."""
        for events in self._open.values():
            for ended in events:
                ended.set()

    def _tidy(self, ref: str) -> None:
        if not self._open[ref]:
            del self._open[ref]


class ExternalScaler:
    """The service. `report` is told each ScaledObject's trouble once, and when it is over."""

    def __init__(self, floors: Floors, report: Callable[[str], None], streams: Streams | None = None) -> None:
        self._floors = floors
        self._report = report
        self.streams = streams or Streams()
        self._troubles: dict[str, str] = {}

    def handler(self) -> grpc.GenericRpcHandler:
        """What a gRPC server serves. StreamMetricSpec is not among it: UNIMPLEMENTED, for our target never changes."""
        handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            "IsActive": grpc.unary_unary_rpc_method_handler(self._is_active),
            "StreamIsActive": grpc.unary_stream_rpc_method_handler(self._stream_is_active),
            "GetMetricSpec": grpc.unary_unary_rpc_method_handler(self._metric_spec),
            "GetMetrics": grpc.unary_unary_rpc_method_handler(self._metrics),
        }
        return grpc.method_handlers_generic_handler(wire.SERVICE, handlers)

    async def _is_active(self, request: bytes, call: Call) -> bytes:
        ref, asked = await self._asked(wire.read_ref, request, call)
        return wire.active_response(await self._floor(ref, asked, call) > 0)

    async def _metric_spec(self, request: bytes, call: Call) -> bytes:
        await self._asked(wire.read_ref, request, call)
        return wire.metric_spec_response(answers.METRIC, answers.TARGET)

    async def _metrics(self, request: bytes, call: Call) -> bytes:
        ref, asked = await self._asked(lambda data: wire.read_metrics_request(data).ref, request, call)
        value = answers.metric_value(await self._floor(ref, asked, call), asked.tolerance)
        return wire.metrics_response(answers.METRIC, value)

    async def _stream_is_active(self, request: bytes, call: Call) -> AsyncIterator[bytes]:
        ref, asked = await self._asked(wire.read_ref, request, call)
        ended = self.streams.begin(str(ref))
        if ended is None:
            await _refuse(call, grpc.StatusCode.RESOURCE_EXHAUSTED, f"{MAX_STREAMS} streams are open: run more scalers")
        try:
            async for active in self._activity(asked, ended):
                yield wire.active_response(active)
        finally:
            self.streams.end(str(ref), ended)

    async def _activity(self, asked: answers.Question, ended: asyncio.Event) -> AsyncIterator[bool]:
        """Whether the floor is above 0: now, and each time that changes. Nothing while it is unknown."""
        sent: bool | None = None
        while not ended.is_set():
            change = self._floors.change(asked.service)
            floor = self._floors.of(asked.service)
            if not isinstance(floor, Unknown) and (floor > 0) != sent:
                sent = floor > 0
                yield sent
                continue
            await _first_of(change, ended, within_s=self._floors.ends_within_s(asked.service, LOOK_AGAIN_S))

    async def _asked(
        self, read: Callable[[bytes], ScaledObjectRef], request: bytes, call: Call
    ) -> tuple[ScaledObjectRef, answers.Question]:
        try:
            ref = read(request)
        except wire.NotUnderstood as error:
            await _refuse(call, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        try:
            return ref, answers.question(ref)
        except answers.BadTrigger as error:
            self._trouble(ref, str(error))
            await _refuse(call, grpc.StatusCode.INVALID_ARGUMENT, f"ScaledObject {ref}: {error}")

    async def _floor(self, ref: ScaledObjectRef, asked: answers.Question, call: Call) -> int:
        floor = self._floors.of(asked.service)
        if isinstance(floor, Unknown):
            self._trouble(ref, floor.why)
            await _refuse(call, grpc.StatusCode.UNAVAILABLE, floor.why)
        self._trouble(ref, "")
        return floor

    def _trouble(self, ref: ScaledObjectRef, why: str) -> None:
        """Told once as long as it lasts: KEDA asks every few seconds. Seconds in a text do not make it another."""
        told = self._troubles.get(str(ref), "")
        kind = why.partition(" for ")[0]
        if kind == told:
            return
        if why:
            if len(self._troubles) >= MAX_STREAMS:
                self._troubles.clear()
            self._troubles[str(ref)] = kind
            self._report(f"ScaledObject {ref}: {why}")
        else:
            self._troubles.pop(str(ref), None)
            self._report(f"ScaledObject {ref}: its floor is known again")


async def _refuse(call: Call, code: grpc.StatusCode, why: str) -> NoReturn:
    await call.abort(code, why)
    raise AssertionError("abort does not return")


async def _first_of(*events: asyncio.Event, within_s: float) -> None:
    """Return when one is set, or after `within_s`."""
    tasks = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
