"""What the host asks its engines over HTTP, and how those that lie answer."""

import asyncio
import signal
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import httpx

from runtime.ready.gate_door import READY_PATH, STATE_PATH
from tests.races.engines import GOLDEN, Engine, Engines
from tests.races.virtual_loop import VirtualLoop


class HostsClient:
    """What the host asks its engines."""

    def __init__(self, engines: Engines, loop: VirtualLoop, url: str, timeout_s: float) -> None:
        self._engines, self._loop, self._url, self._timeout_s = engines, loop, url, timeout_s

    async def __aenter__(self) -> "HostsClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def get(self, path: str) -> Any:
        engine = await self._reach()
        if engine.frozen(self._loop.now_s):
            await asyncio.sleep(self._timeout_s)
            raise httpx.ReadTimeout("frozen")
        if path == "/metrics":
            if engine.ways.silent_metrics:
                raise httpx.ReadTimeout("silent")
            return _response(200, f'vllm:num_requests_running{{engine="0"}} {engine.running}\n')
        if path == READY_PATH:
            return _response(200, "", {"in_flight": engine.running})
        if path == "/v1/models":
            return _response(200, "", {"data": [{"id": name} for name in engine.names]})
        return _response(200, "")

    async def post(self, path: str, json: object = None, headers: Mapping[str, str] | None = None) -> Any:
        del json, headers
        engine = await self._reach()
        if path.startswith(STATE_PATH):
            return await self._gate(engine)
        if engine.ways.dies_at_first_request:
            self._engines.end(engine, -signal.SIGILL)
            raise httpx.ReadError("reset")
        over = asyncio.ensure_future(engine.over.wait())
        warm = asyncio.ensure_future(engine.warm.wait())
        await asyncio.wait({over, warm}, timeout=self._timeout_s, return_when=asyncio.FIRST_COMPLETED)
        over.cancel()
        warm.cancel()
        if not engine.alive:
            raise httpx.ReadError("reset")
        if not engine.warm.is_set():
            raise httpx.ReadTimeout("not warm")
        return _response(200, "", {"choices": [{"token_ids": self._tokens(engine)}]})

    async def _gate(self, engine: Engine) -> Any:
        """It takes whatever it is told; who may pass it when is not simulated."""
        if engine.frozen(self._loop.now_s):
            await asyncio.sleep(self._timeout_s)
            raise httpx.ReadTimeout("frozen")
        return _response(200, "")

    def _tokens(self, engine: Engine) -> list[int]:
        ways = engine.ways
        if ways.unsteady:
            return [len(self._engines.all), engine.goldens, round(self._loop.now_s * 1e6)]
        if ways.wrong_golden and engine.declared:
            return [1, 2, 3]
        engine.goldens += 1
        engine.proven_s = self._loop.now_s
        if ways.dies_ready_s is not None:
            self._loop.call_later(ways.dies_ready_s, self._engines.end, engine, 3)
        return list(GOLDEN)

    async def _reach(self) -> Engine:
        await asyncio.sleep(0.001)
        engine = self._engines.at(self._url)
        if engine is None or not engine.listens(self._loop.now_s):
            raise httpx.ConnectError("refused")
        return engine


def _response(status: int, text: str, body: object = None) -> Any:
    return SimpleNamespace(status_code=status, text=text, json=lambda: body, is_success=status < 400)
