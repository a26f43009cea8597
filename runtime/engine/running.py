"""An engine that has answered its golden prompt: how busy it is, its end, and its stop."""

import asyncio
import contextlib
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import httpx

from runtime.contract import EngineSpec, Failure, FailureCause
from runtime.engine.capture.steps import steps_of
from runtime.engine.ending import End, died
from runtime.engine.lines import excerpt
from runtime.engine.oom import OomWindow
from runtime.engine.process import EngineProcess
from runtime.engine.progress import Frozen, Pulse
from runtime.engine.vitals import vitals_of
from runtime.ready.fault import Fault
from runtime.ready.gate_control import GateControl
from runtime.ready.gate_door import State
from runtime.ready.http import client
from runtime.ready.shapes import warm_shapes

METRICS_TIMEOUT_S = 2.0
POLL_S = 0.2
"""How often a draining engine is asked whether it is idle."""
PROBE_S = 5.0
"""How often a ready engine is asked for a sign of life, and how long it may take to give one."""
TERM_GRACE_S = 15.0
"""From SIGTERM to SIGKILL. An idle vLLM 0.32 with a shutdown timeout needs 5–6 s on a CPU to take its workers down."""
_GAUGE = re.compile(r"^vllm:num_requests_(?:running|waiting)(?:\{[^}]*\})?\s+(?P<value>[\d.eE+-]+)\s*$", re.MULTILINE)


def _busy(metrics: str) -> int | None:
    """Requests that vLLM runs or queues; None where the metrics do not tell."""
    values = [float(found["value"]) for found in _GAUGE.finditer(metrics)]
    return round(sum(values)) if values else None


class RunningEngine:
    """One engine that serves at `url`; `pid` leads its process group."""

    def __init__(
        self,
        *,
        process: EngineProcess,
        gate: GateControl,
        log: Path,
        oom: OomWindow,
        clock: Callable[[], datetime],
        on_end: Callable[[], None],
    ) -> None:
        self._process, self._log, self._oom, self._clock, self._on_end = process, log, oom, clock, on_end
        self.gate, self.url = gate, gate.url
        self.pid = process.pid
        self._stopping = asyncio.Lock()

    async def in_flight(self) -> int | None:
        """Requests that it runs, queues, still reads or sends, by its metrics and its gate; None: it does not say."""
        running, inside = _busy(await self._metrics()), await self.gate.in_flight()
        return running if running is None or inside is None else max(running, inside)

    async def warm(self, spec: EngineSpec, busy: Callable[[], bool] = lambda: False) -> bool:
        """Compute every shape once, as long as that takes, never beside a client; whether that came to its end.

        `busy`: while it says so none is begun.
        """
        warmed = await warm_shapes(self.url, spec.served_names[0], spec.args, self.gate.headers, busy)
        return warmed and await self.gate.move(State.WARMED)

    async def leave(self) -> None:
        """No longer call itself ready to whoever asks; requests still pass until `stop`."""
        await self.gate.move(State.LEAVING)

    async def steps(self) -> dict[int, float]:
        """How many steps it has computed so far, by their tokens; empty where it does not say."""
        return steps_of(await self._metrics())

    async def _metrics(self) -> str:
        """Its own metrics; empty where it does not answer."""
        try:
            async with client(self.url, METRICS_TIMEOUT_S, self.gate.headers) as http:
                return (await http.get("/metrics")).text
        except httpx.RequestError:
            return ""

    async def wait(self) -> Failure:
        """Wait until the engine's leader has ended, or the engine is frozen; nothing of its group is left then."""
        end, pulse = asyncio.ensure_future(self._process.wait()), asyncio.ensure_future(self._frozen())
        try:
            await asyncio.wait((end, pulse), return_when=asyncio.FIRST_COMPLETED)
            fault = self._froze(pulse.result()) if not end.done() else None
            self._process.kill()
            await self._process.clear()
            self._on_end()
            return (fault or self._died(await end)).at(self._clock())
        finally:
            for pending in (end, pulse):
                pending.cancel()
            await asyncio.gather(end, pulse, return_exceptions=True)

    async def stop(self, drain_s: float) -> None:
        """Let requests in flight finish for up to `drain_s`, then SIGTERM; 15 s later SIGKILL to the whole group.

        New ones are refused by its gate from here on (503, `draining`): without it vLLM, while it ends, would answer
        them with 500 and `/health` with 200.
        Cancelled, it kills at once. May be called again, also while another call is at work.
        """
        async with self._stopping:
            try:
                await self._drain(drain_s)
                self._process.terminate()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(TERM_GRACE_S):
                        await self._process.wait()
            finally:
                self._process.kill()
                await self._process.clear()
                self._on_end()

    async def _drain(self, drain_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(drain_s):
                await self.gate.move(State.DRAINING)
                while self._process.returncode is None and await self.in_flight() != 0:  # noqa: ASYNC110  (another process)
                    await asyncio.sleep(POLL_S)

    async def _frozen(self) -> Frozen:
        """Returns once the engine is frozen; probes it every `PROBE_S` until then."""
        loop = asyncio.get_running_loop()
        pulse = Pulse(loop.time())
        while True:
            self._oom.take(loop.time())
            answered = await self._answers()
            if frozen := pulse.beat(loop.time(), answered=answered, vitals=vitals_of(self.pid)):
                return frozen
            await asyncio.sleep(PROBE_S)

    async def _answers(self) -> bool:
        try:
            async with client(self.url, PROBE_S) as http:
                await http.get("/health")
        except httpx.RequestError:
            return False
        return True

    def _died(self, returncode: int) -> Fault:
        self._oom.take(asyncio.get_running_loop().time())
        return died(End(returncode, self._process.tail, self._log, self._oom.kills))

    def _froze(self, frozen: Frozen) -> Fault:
        return Fault(
            FailureCause.FROZEN,
            f"the engine is frozen: {frozen.text}; it was ended, and another takes its place when wanted"
            f" (log: {self._log})",
            {"frozen_s": round(frozen.seconds, 1)},
            tail=excerpt(self._process.tail),
        )
