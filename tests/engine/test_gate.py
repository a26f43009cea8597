"""The gate in a real engine: what a stranger on the engine's own port gets, from its first answer to its last."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from demo.models import make_model
from runtime.ready.gate_credential import GATE_ENV, new_credential
from runtime.ready.gate_door import CREDENTIAL_HEADER, READY_PATH, STATE_PATH, WARM_UP_HEADER
from runtime.ready.gate_routes import HOST
from tests.engine.test_serving import START_S, text
from tests.serving import Up, free_port, wait_for

TRICKS = (
    *("/sleep", "//sleep", "///sleep", "/sleep/", "/sleep//", "/%73leep", "/%73%6c%65%65%70", "/sleep%2f", "/SLEEP"),
    *(
        "/v1/../sleep",
        "/v1/%2e%2e/sleep",
        "/./sleep",
        "/sleep/.",
        "/v1/models/../../sleep",
        "/v1/models/..%2f..%2fsleep",
    ),
    *("/sleep?level=1", "/sleep;x", "/sleep%00", "/sleep%0a", "/sleep%20", "/v1/models%2f..%2f..%2fsleep", "/\\sleep"),
    *(
        "/metrics/../sleep",
        "/health/../sleep",
        "/static/../sleep",
        "/pilotlight/../sleep",
        "/pilotlight/ready/../../sleep",
    ),
    *("http://127.0.0.1/sleep", "/%2573leep", "/v1/responses/..%2f..%2fsleep", "/v1/responses/%2e%2e/%2e%2e/sleep"),
)


def raw(port: int, target: str, *, method: str = "POST", headers: str = "") -> tuple[int, bytes]:
    """Send `target` as it is, which no HTTP client does; the status and the rest of the answer."""
    request = f"{method} {target} HTTP/1.1\r\nHost: engine\r\nContent-Length: 0\r\nConnection: close\r\n{headers}\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(request.encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def shut(port: int, target: str, method: str = "POST") -> str | None:
    """None if the gate, and not the engine, has answered; else what came."""
    status, body = raw(port, target, method=method)
    if status == 400 and body.startswith(b"Invalid HTTP request"):
        return None  # the server's parser takes no such target
    told = json.loads(body) if body.startswith(b"{") else {}
    by_gate = body == b"{}" or told.get("error", {}).get("code") in {"host_only", "not_found"}
    return None if status in (403, 404) and by_gate else f"{method} {target}: {status} {body[:100]!r}"


def gate_port(up: Up) -> int:
    """The port of the one engine that has a gate and admits."""

    def found() -> int | None:
        for process in up.engines():
            with contextlib.suppress(psutil.Error, httpx.HTTPError):
                for connection in process.net_connections(kind="tcp"):
                    if connection.status == psutil.CONN_LISTEN:
                        answer = httpx.get(f"http://127.0.0.1:{connection.laddr.port}{READY_PATH}", timeout=2)
                        if answer.status_code == 200:
                            return int(connection.laddr.port)
        return None

    return wait_for(found, within_s=20, saying="an engine says that it is ready")


def test_a_stranger_at_an_engine_that_serves_reaches_what_is_for_clients_only(up: Up) -> None:
    text(up.ask("one", timeout_s=START_S))
    port = gate_port(up)
    targets = [*TRICKS, *(path.replace("{adapter_name}", "x") for path in sorted(HOST))]
    assert [came for target in targets for method in ("GET", "POST") if (came := shut(port, target, method))] == []
    assert raw(port, STATE_PATH + "draining")[0] == 403
    assert raw(port, STATE_PATH + "draining", headers=f"{CREDENTIAL_HEADER}: guess\r\n")[0] == 403
    assert raw(port, "/v1/completions", headers=f"{CREDENTIAL_HEADER}: guess\r\n")[0] == 403
    assert raw(port, "/v1/models", method="GET")[0] == 200
    assert raw(port, "/health", method="GET")[0] == 200
    assert b"vllm:num_requests_running" in raw(port, "/metrics", method="GET")[1]
    assert raw(port, READY_PATH, method="HEAD") == (200, b"")
    text(up.ask("one", timeout_s=START_S))


def test_it_reaches_the_second_level_while_nobody_asks(up: Up) -> None:
    text(up.ask("one", timeout_s=START_S))
    start = wait_for(
        lambda: next((s for s in up.starts("one")[:1] if s["warmed_at"]), None),
        within_s=60,
        saying="every shape of it was computed",
    )
    assert start["outcome"] == "ready"
    assert start["warmed_at"] > start["marks"]["T9"]


def test_the_credential_is_nowhere_to_be_read(up: Up) -> None:
    """Neither in argv nor in the environment of any process, and no file of it is left."""
    text(up.ask("one", timeout_s=START_S))
    named = set()
    for process in up.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            named |= {value for name, value in process.environ().items() if name == GATE_ENV}
            assert CREDENTIAL_HEADER not in " ".join(process.cmdline())
    assert named, "the engine's environment names the file"
    # The number of a closed descriptor may stand for something else by now.
    assert not [path for path in named if Path(path).exists() and "credential" in os.readlink(path)]


class Engine:
    """A real engine as a pod without our host would run it, with vLLM's dev mode on: every admin route is there."""

    def __init__(self, root: Path, credential: str | None) -> None:
        self.port, self.log = free_port(), root / "engine.log"
        self.url = f"http://127.0.0.1:{self.port}"
        self.headers = {CREDENTIAL_HEADER: credential} if credential else {}
        make_model(root / "model", seed=1, size="tiny")
        environ = {**os.environ, "VLLM_SERVER_DEV_MODE": "1", "VLLM_CACHE_ROOT": str(root / "cache")}
        environ |= {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
        if credential:
            (root / "credential").touch(mode=0o600)
            (root / "credential").write_text(credential)
            environ[GATE_ENV] = str(root / "credential")
        argv = [sys.executable, "-P", "-m", "runtime.engine.serve", "serve", str(root / "model"), "--dtype=bfloat16"]
        argv += ["--host=127.0.0.1", f"--port={self.port}", "--served-model-name=one", "--max-model-len=512"]
        argv += ["--max-num-seqs=32", "--shutdown-timeout=60", "--middleware", "runtime.ready.gate_mount.MountedGate"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(argv, env=environ, cwd=root, stdout=log, stderr=log, start_new_session=True)

    async def up(self, http: httpx.AsyncClient) -> None:
        async with asyncio.timeout(START_S):
            while True:
                assert self.process.poll() is None, self.log.read_text()[-3000:]
                with contextlib.suppress(httpx.TransportError):
                    if (await http.get("/health")).status_code == 200:
                        return
                await asyncio.sleep(0.05)

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextlib.contextmanager
def engine(root: Path, credential: str | None) -> Iterator[Engine]:
    made = Engine(root, credential)
    try:
        yield made
    finally:
        made.end()


@contextlib.asynccontextmanager
async def asking(made: Engine) -> AsyncIterator[httpx.AsyncClient]:
    # Kept connections end after 5 s without a request, and a busy machine may send one in that instant.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=made.url, timeout=120, limits=limits, trust_env=False) as http:
        await made.up(http)
        yield http


STREAM: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}


def body(tokens: int, **fields: object) -> dict[str, Any]:
    return {"model": "one", "prompt": "a", "max_tokens": tokens, "ignore_eos": True, "temperature": 0, **fields}


async def stream(http: httpx.AsyncClient, tokens: int, **fields: object) -> tuple[int, bytes]:
    got = b""
    async with http.stream("POST", "/v1/completions", json=body(tokens, **STREAM, **fields)) as answer:
        async for chunk in answer.aiter_raw():
            got += chunk
    return answer.status_code, got


def whole(answer: tuple[int, bytes], tokens: int) -> bool:
    events = [line for line in answer[1].split(b"\n\n") if line]
    usage = json.loads(events[-2].removeprefix(b"data: "))["usage"]
    return answer[0] == 200 and events[-1] == b"data: [DONE]" and usage["completion_tokens"] == tokens


async def until(what: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while not await what():  # noqa: ASYNC110  (another process)
            await asyncio.sleep(0.01)


async def inside(http: httpx.AsyncClient) -> int:
    return int((await http.get(READY_PATH)).json()["in_flight"])


async def runs(http: httpx.AsyncClient) -> float:
    lines = (await http.get("/metrics")).text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("vllm:num_requests_running{"))


@pytest.mark.prove
async def test_a_gates_whole_life_with_every_admin_route_there(tmp_path: Path) -> None:
    with engine(tmp_path, new_credential()) as made:
        async with asking(made) as http:
            await _starting(made, http)
            await _serving(made, http)
            await _warming_up(made, http)
            await _draining(made, http)


async def _starting(made: Engine, http: httpx.AsyncClient) -> None:
    refused = await http.post("/v1/completions", json=body(1))
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "starting")
    assert (await http.get("/v1/models")).status_code == 503
    assert (await http.get(READY_PATH)).status_code == 503
    assert (await http.post("/v1/completions", json=body(1), headers=made.headers)).status_code == 200
    assert [came for target in TRICKS if (came := shut(made.port, target))] == []
    assert (await http.get("/is_sleeping", headers=made.headers)).json() == {"is_sleeping": False}
    moved = await http.post(STATE_PATH + "minimum", headers=made.headers)
    assert (moved.status_code, moved.json()["state"]) == (200, "minimum")


async def _serving(made: Engine, http: httpx.AsyncClient) -> None:
    assert [came for target in TRICKS if (came := shut(made.port, target))] == []
    assert (await http.get("/is_sleeping", headers=made.headers)).json() == {"is_sleeping": False}
    streams = await asyncio.gather(*(stream(http, 20) for _ in range(200)))
    assert all(whole(answer, 20) for answer in streams)
    assert await inside(http) == 0
    async with http.stream("POST", "/v1/completions", json=body(400, prompt=["a"] * 16, **STREAM)) as answer:
        chunks = answer.aiter_raw()  # kept: httpx closes an answer whose iterator nobody has any more
        assert answer.status_code == 200
        await anext(chunks)
        assert await inside(http) == 1

    async def gone() -> bool:  # a client that leaves is seen by gate and engine
        return await inside(http) == 0 and await runs(http) == 0

    await until(gone)


async def _warming_up(made: Engine, http: httpx.AsyncClient) -> None:
    """It ends when a client comes, long before its own end."""
    headers = {**made.headers, WARM_UP_HEADER: "1"}
    warming = asyncio.create_task(http.post("/v1/completions", json=body(450, prompt=["a"] * 16), headers=headers))

    async def begun() -> bool:
        return await runs(http) > 0

    await until(begun)
    assert (await http.post("/v1/completions", json=body(1))).status_code == 200
    assert (await warming).text == "null"


async def _draining(made: Engine, http: httpx.AsyncClient) -> None:
    running = [asyncio.create_task(stream(http, 400, prompt=["a"] * 4)) for _ in range(8)]

    async def all_inside() -> bool:
        return await inside(http) == 8

    await until(all_inside)
    assert (await http.post(STATE_PATH + "leaving", headers=made.headers)).status_code == 200
    assert (await http.get(READY_PATH)).status_code == 503
    assert (await http.post("/v1/completions", json=body(1))).status_code == 200
    assert (await http.post(STATE_PATH + "draining", headers=made.headers)).status_code == 200
    refused = await http.post("/v1/completions", json=body(1))
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
    assert refused.headers["connection"] == "close"
    assert (await http.post(STATE_PATH + "minimum", headers=made.headers)).status_code == 409
    assert (await http.get("/health")).status_code == 200
    assert all(whole(answer, 4 * 400) for answer in await asyncio.gather(*running))


@pytest.mark.prove
async def test_without_a_host_it_admits_and_shuts_every_admin_route(tmp_path: Path) -> None:
    with engine(tmp_path, None) as made:
        async with asking(made) as http:
            assert (await http.get(READY_PATH)).json()["state"] == "minimum"
            assert (await http.post("/v1/completions", json=body(1))).status_code == 200
            assert [came for target in TRICKS if (came := shut(made.port, target))] == []
            assert (await http.post(STATE_PATH + "draining", headers={CREDENTIAL_HEADER: ""})).status_code == 403
