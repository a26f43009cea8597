"""`PYTHONPATH=load-tests python -m gate`: requests and streamed chunks, with the gate and without, side by side.

Two figures for each. `direct`: the application called in this process, so that all that is timed is Python's path
through it; its differences are the gate's own microseconds. `served`: through uvicorn on loopback, as vLLM serves, with
as many connections as a busy engine has, client and server in one process. Time is processor time, which what else the
machine does changes least, and the two take turns each round. The last line is JSON.
"""

import argparse
import asyncio
import json
import platform
import statistics
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import uvicorn

from runtime.ready.gate import App, Gate, Message, Receive, Scope, Send
from runtime.ready.gate_credential import new_credential
from runtime.ready.gate_door import State

CHUNK = b'data: {"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'
HEADERS = [(b"host", b"127.0.0.1:8000"), (b"accept", b"*/*"), (b"user-agent", b"bench"), (b"content-length", b"2")]
HEADERS += [(b"content-type", b"application/json"), (b"authorization", b"Bearer x"), (b"connection", b"keep-alive")]


def app_of(chunks: int) -> App:
    """An application that answers with so many chunks; each is one turn of the loop, as an engine's tokens are."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for _ in range(chunks):
            await asyncio.sleep(0)
            await send({"type": "http.response.body", "body": CHUNK, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return app


def gated(app: App) -> Gate:
    """The gate as an engine has it once it is warmed."""
    gate = Gate(app, credential=new_credential(), clock=lambda: datetime.now(UTC))
    gate.door.move(State.WARMED, datetime.now(UTC))
    return gate


async def _receive() -> Message:
    return {"type": "http.request", "body": b"{}", "more_body": False}


async def _send(_: Message) -> None:
    return


async def direct_s(app: App, calls: int) -> float:
    """Seconds of one call, over so many."""
    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "root_path": "", "headers": HEADERS}
    begun = time.process_time()
    for _ in range(calls):
        await app(dict(scope), _receive, _send)
    return (time.process_time() - begun) / calls


async def served_s(app: App, calls: int, connections: int) -> float:
    """Seconds of one call through uvicorn, over so many, on so many connections at a time."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", access_log=False))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  (uvicorn tells it in a field)
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    limits = httpx.Limits(max_connections=connections)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", limits=limits, trust_env=False) as http:

        async def several(count: int) -> None:
            for _ in range(count):
                await http.post("/v1/chat/completions", content=b"{}")

        await several(connections)
        begun = time.process_time()
        await asyncio.gather(*(several(calls // connections) for _ in range(connections)))
        took = time.process_time() - begun
    server.should_exit = True
    await serving
    return took / calls


async def rounds(count: int, plain: App, measure: Callable[[App], Awaitable[float]]) -> tuple[list[float], list[float]]:
    """So many rounds: (without, with), the order changing each round."""
    without: list[float] = []
    with_gate: list[float] = []
    for number in range(count):
        for turn in (number % 2, 1 - number % 2):
            (with_gate if turn else without).append(await measure(gated(plain) if turn else plain))
    return without, with_gate


def _line(name: str, without: list[float], with_gate: list[float], unit: str) -> dict[str, Any]:
    a, b = statistics.median(without), statistics.median(with_gate)
    spread = (
        f"{min(without) * 1e6:.1f}–{max(without) * 1e6:.1f} / {min(with_gate) * 1e6:.1f}–{max(with_gate) * 1e6:.1f}"
    )
    print(
        f"{name:<28}{a * 1e6:>10.1f}{b * 1e6:>10.1f} µs  {1 / a:>9.0f}{1 / b:>9.0f} {unit}/s   ratio {a / b:.3f}"
        f"   (ranges {spread} µs)"
    )
    return {"without_us": round(a * 1e6, 2), "with_us": round(b * 1e6, 2), "ratio": round(a / b, 4)}


async def main() -> None:
    """Run all and print the table and the line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m gate", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--chunks", type=int, default=200)
    args = parser.parse_args()
    print(f"{'':<28}{'without':>10}{'with':>10}")
    one, many = app_of(1), app_of(args.chunks)
    said: dict[str, Any] = {"bench": "gate", "rounds": args.rounds}
    found = await rounds(args.rounds, one, lambda app: direct_s(app, args.calls * 5))
    said["direct_request"] = _line("a request, direct", *found, "req")
    found = await rounds(args.rounds, many, lambda app: direct_s(app, max(args.calls // 20, 1)))
    said["direct_chunk"] = _line("a chunk, direct", *_each(found, args.chunks), "chunks")
    found = await rounds(args.rounds, one, lambda app: served_s(app, args.calls, args.connections))
    said["served_request"] = _line("a request, served", *found, "req")
    found = await rounds(args.rounds, many, lambda app: served_s(app, args.connections * 8, args.connections))
    said["served_chunk"] = _line("a chunk, served", *_each(found, args.chunks), "chunks")
    said["machine"] = f"{platform.processor() or platform.machine()}, Python {platform.python_version()}"
    print(json.dumps(said))


def _each(found: tuple[list[float], list[float]], chunks: int) -> tuple[list[float], list[float]]:
    return [took / chunks for took in found[0]], [took / chunks for took in found[1]]


if __name__ == "__main__":
    asyncio.run(main())
