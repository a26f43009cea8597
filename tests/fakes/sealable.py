"""A small engine with the real gate, made to be dumped: stands in for vLLM where a test is about images of processes.

It is a fake: what a real vLLM needs to be dumped and restored is shown by tests/engine/test_snapshot.py. It takes the
argv of the launcher, has vLLM's shape from outside as far as a start looks (uvicorn, the gate as its outermost
middleware, a child process, a file in /dev/shm that both share), and answers tokens from its model's bytes.
`MODEL/fake.json`: `"unsteady": true` answers otherwise once it was restored.
"""

import argparse
import asyncio
import hashlib
import json
import socket
import sys
import time
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request

from runtime.engine.leash import leash, leash_to_starter


class FakeClient:
    """vLLM's engine client, as far as the gate calls it; counts what it was told in memory that a child shares."""

    def __init__(self, shared: shared_memory.SharedMemory) -> None:
        self.told: list[str] = []
        self.shared = shared

    async def reset_prefix_cache(self) -> None:
        self.told.append("reset_prefix_cache")

    async def collective_rpc(self, name: str) -> None:
        self.told.append(name)


def serve() -> None:
    leash_to_starter()
    parser = argparse.ArgumentParser()
    parser.add_argument("serve")
    parser.add_argument("model", type=Path)
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--served-model-name", nargs="+")
    given, _ = parser.parse_known_args()
    weights = hashlib.sha256(
        b"".join(path.read_bytes() for path in sorted(given.model.glob("*.safetensors")))
    ).hexdigest()
    told = given.model / "fake.json"
    wanted = json.loads(told.read_text()) if told.exists() else {}
    shared = shared_memory.SharedMemory(create=True, size=64 * 2**20)
    child = _child(shared.name)
    client = FakeClient(shared)
    app = FastAPI()
    app.state.engine_client = client

    @app.get("/health")
    async def health() -> dict[str, Any]:
        return {}

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"data": [{"id": name} for name in given.served_model_name]}

    @app.get("/metrics")
    async def metrics() -> str:
        return ""

    @app.post("/v1/completions")
    async def complete(request: Request) -> dict[str, Any]:
        body = await request.json()
        assert shared.buf is not None
        shared.buf[0] = 1  # the child answers 2: what both share must still be shared
        until = time.monotonic() + 10
        while shared.buf[0] != 2:
            assert time.monotonic() < until
            await asyncio.sleep(0.001)
        salt = "restored" if wanted.get("unsteady") and "pilotlight_wake" in client.told else ""
        digest = hashlib.sha256(f"{body['prompt']}{weights}{salt}".encode()).digest()
        return {"choices": [{"token_ids": list(digest[: body["max_tokens"]]), "text": " ".join(client.told)}]}

    from runtime.ready.gate_mount import MountedGate  # noqa: PLC0415  (made as it is asked for)

    app.add_middleware(MountedGate)  # type: ignore[arg-type]  # as vLLM makes it: with its application alone
    listener = socket.socket()
    listener.bind((given.host, given.port))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", loop="asyncio"))
    app.state.server = server
    print("Application startup complete.", flush=True)
    asyncio.run(server.serve(sockets=[listener]))
    child.terminate()
    shared.unlink()


def _child(name: str) -> Any:
    import subprocess  # noqa: PLC0415  (only here)

    return subprocess.Popen([sys.executable, "-P", "-m", "tests.fakes.sealable", "child", name])


def answer(name: str) -> None:
    """The child: turns each 1 in the shared memory into a 2."""
    leash()
    shared = shared_memory.SharedMemory(name=name)
    assert shared.buf is not None
    while True:
        if shared.buf[0] == 1:
            shared.buf[0] = 2
        time.sleep(0.002)


if __name__ == "__main__":
    answer(sys.argv[2]) if sys.argv[1] == "child" else serve()
