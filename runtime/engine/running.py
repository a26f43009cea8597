"""An engine that has answered its golden prompt: how busy it is, its end, and its stop."""

import asyncio
import contextlib
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import httpx

from runtime.contract import Failure, FailureCause
from runtime.engine.ending import ended
from runtime.engine.process import EngineProcess
from runtime.ready.http import client

METRICS_TIMEOUT_S = 2.0
POLL_S = 0.2
"""How often a draining engine is asked whether it is idle."""
TERM_GRACE_S = 15.0
"""From SIGTERM to SIGKILL. An idle vLLM 0.32 with a shutdown timeout needs 5–6 s on a CPU to take its workers down."""
_GAUGE = re.compile(r"^vllm:num_requests_(?:running|waiting)(?:\{[^}]*\})?\s+(?P<value>[\d.eE+-]+)\s*$", re.MULTILINE)


class RunningEngine:
    """One engine that serves at `url`; `pid` leads its process group."""

    def __init__(
        self, *, process: EngineProcess, url: str, log: Path, clock: Callable[[], datetime], on_end: Callable[[], None]
    ) -> None:
        self._process, self._log, self._clock, self._on_end = process, log, clock, on_end
        self.url = url
        self.pid = process.pid
        self._stopping = asyncio.Lock()

    async def in_flight(self) -> int | None:
        """Requests that the engine runs or queues, from its own metrics; None when it does not say."""
        try:
            async with client(self.url, METRICS_TIMEOUT_S) as http:
                response = await http.get("/metrics")
        except httpx.RequestError:
            return None
        values = [float(found["value"]) for found in _GAUGE.finditer(response.text)]
        return round(sum(values)) if values else None

    async def wait(self) -> Failure:
        """Wait until the engine's leader has ended, however it did; nothing of its group is left then."""
        returncode = await self._process.wait()
        await self._process.clear()
        self._on_end()
        fault = ended(returncode, self._process.tail, self._log, cause=FailureCause.DIED_AFTER_READY)
        return fault.at(self._clock())

    async def stop(self, drain_s: float) -> None:
        """Let requests in flight finish for up to `drain_s`, then SIGTERM; 15 s later SIGKILL to the whole group.

        New requests must be kept away before: while it ends, vLLM answers them with 500 and `/health` stays 200.
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
                while self._process.returncode is None and await self.in_flight() != 0:  # noqa: ASYNC110  (another process)
                    await asyncio.sleep(POLL_S)
