"""The gate under the server that vLLM uses (uvicorn), with streams, leaving clients and WebSockets."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import httpx
import pytest
import uvicorn
import websockets

from runtime.ready.gate import App, Gate, Receive, Scope, Send
from runtime.ready.gate_door import CREDENTIAL_HEADER, State

CREDENTIAL = "c" * 43
CHAT = "/v1/chat/completions"


def chunks(name: str) -> list[bytes]:
    """A stream of its own for each name: sizes and bytes from a hash, 0 bytes and 10 kB among them."""
    digests = [hashlib.sha256(f"{name} {n}".encode()).digest() for n in range(12)]
    return [digest * (0, 1, 3, 50, 300)[digest[0] % 5] for digest in digests]


async def streams(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the chunks of the name in the body."""
    if scope["type"] == "lifespan":
        return
    name = (await receive())["body"].decode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    for chunk in chunks(name):
        await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@contextlib.asynccontextmanager
async def served(app: App, state: State = State.MINIMUM) -> AsyncIterator[tuple[Gate, str]]:
    gate = Gate(app, credential=CREDENTIAL, clock=lambda: datetime.now(UTC))
    gate.door.move(state, datetime.now(UTC))
    config = uvicorn.Config(gate, host="127.0.0.1", port=0, log_level="error", ws="websockets-sansio", lifespan="off")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  (uvicorn tells it in a field)
        await asyncio.sleep(0.01)
    try:
        yield gate, f"127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


def client(address: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=f"http://{address}", trust_env=False, timeout=60)


async def asked(address: str, name: str) -> tuple[int, bytes]:
    """Status and body, read without a client's library: httpx takes ten times as long."""
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(name)}\r\n\r\n{name}".encode()
    )
    head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return int(head.split()[1]), _dechunked(body) if b"transfer-encoding: chunked" in head else body


def _dechunked(rest: bytes) -> bytes:
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body, rest = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    assert size == b"0", "cut before its end"
    return body


async def test_a_thousand_streams_pass_bit_exact_and_a_drain_cuts_none() -> None:
    async with served(streams) as (gate, address):
        most = asyncio.Semaphore(200)

        async def one(number: int) -> bool | None:
            async with most:
                status, body = await asked(address, str(number))
            if status == 503:
                assert b'"code": "draining"' in body
                return None
            assert status == 200
            return body == b"".join(chunks(str(number)))

        first = await asyncio.gather(*(one(number) for number in range(1000)))
        assert first == [True] * 1000
        running = [asyncio.create_task(one(number)) for number in range(100)]
        async with asyncio.timeout(20):
            while not gate.door.in_flight:  # noqa: ASYNC110  (a count)
                await asyncio.sleep(0)
        gate.door.move(State.DRAINING, datetime.now(UTC))
        last = await asyncio.gather(*running)
        assert True in last, "what was inside came to its end, whole"
        assert await one(1000) is None, "what came later was refused"
        assert False not in last
        assert gate.door.in_flight == 0


async def test_a_client_that_leaves_is_seen_by_the_engine() -> None:
    left = asyncio.Event()

    async def waits(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        left.set()

    async with served(waits) as (gate, address):
        async with client(address) as http, http.stream("POST", CHAT) as answer:
            chunks = answer.aiter_raw()  # kept: httpx closes an answer whose iterator nobody has any more
            assert await anext(chunks) == b"first"
            assert gate.door.in_flight == 1
        async with asyncio.timeout(10):
            await left.wait()
            while gate.door.in_flight:  # noqa: ASYNC110  (a count)
                await asyncio.sleep(0)


async def test_an_upload_that_is_under_way_counts() -> None:
    """vLLM's own metrics do not know a request before its body is whole; a drain must not end the engine under it."""
    body_goes_on = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"na"
        await body_goes_on.wait()
        yield b"me"

    async def reads(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["more_body"]:
            pass
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with served(reads) as (gate, address), client(address) as http:
        asking = asyncio.create_task(http.post(CHAT, content=body()))
        async with asyncio.timeout(10):
            while not gate.door.in_flight:  # noqa: ASYNC110  (a count)
                await asyncio.sleep(0)
        gate.door.move(State.DRAINING, datetime.now(UTC))
        body_goes_on.set()
        assert (await asking).status_code == 204


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "GET", "POST", "DELETE"])
async def test_a_refusal_is_a_whole_answer_whatever_the_method(method: str) -> None:
    async with served(streams, State.STARTING) as (_, address), client(address) as http:
        for path, status in (("/sleep", 403), ("/else", 404), (CHAT, 503)):
            answer = await http.request(method, path, content=b"x" * 100_000 if method == "POST" else None)
            assert answer.status_code == status
            assert (answer.content == b"") == (method == "HEAD")
            assert int(answer.headers["content-length"]) > 50
        ready = await http.request(method, "/pilotlight/ready")
        assert ready.status_code == (503 if method in ("GET", "HEAD") else 405)


async def echoes(scope: Scope, receive: Receive, send: Send) -> None:
    assert scope["type"] == "websocket"
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": message["text"]})


async def test_websockets_are_let_in_counted_and_refused_like_requests() -> None:
    async with served(echoes) as (gate, address):
        async with websockets.connect(f"ws://{address}/v1/realtime", proxy=None) as connection:
            await connection.send("word")
            assert await connection.recv() == "word"
            assert gate.door.in_flight == 1
            gate.door.move(State.DRAINING, datetime.now(UTC))
            await connection.send("still")
            assert await connection.recv() == "still"
            await _refused(address, "/v1/realtime", 503)
        await _refused(address, "/sleep", 403)
        await _refused(address, "/pilotlight/ready", 403)
        headers = {CREDENTIAL_HEADER: CREDENTIAL}
        async with websockets.connect(f"ws://{address}/v1/realtime", additional_headers=headers, proxy=None) as host:
            await host.send("host")
            assert await host.recv() == "host"


async def _refused(address: str, path: str, status: int) -> None:
    with pytest.raises(websockets.InvalidStatus) as caught:
        async with websockets.connect(f"ws://{address}{path}", proxy=None):
            pass
    assert caught.value.response.status_code == status
