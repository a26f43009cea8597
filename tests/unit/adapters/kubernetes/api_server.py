"""A small API server that keeps objects, and lies, cuts and hangs as it is told."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


@dataclass
class ApiServer:
    """`objects` by name, one namespace. `faults`: each is asked first, once; one that returns None lets it pass.

    `log`: every event, for watches that begin at an older version; `queues`: the open watches.
    """

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    faults: list[Handler] = field(default_factory=list)
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    log: list[tuple[int, bytes]] = field(default_factory=list)
    queues: list[asyncio.Queue[bytes | None]] = field(default_factory=list)
    version: int = 100
    oldest: int = 0
    url: str = ""
    runner: web.AppRunner | None = None

    def put(self, name: str, **fields: Any) -> None:
        """Create or edit an object, and tell the watches."""
        kind = "MODIFIED" if name in self.objects else "ADDED"
        self.version += 1
        metadata = {"namespace": "team-a", "name": name, "uid": f"uid-{name}", "resourceVersion": str(self.version)}
        self.objects[name] = {"metadata": metadata, **fields}
        self.tell(kind, self.objects[name])

    def delete(self, name: str) -> None:
        self.version += 1
        gone = self.objects.pop(name)
        gone["metadata"]["resourceVersion"] = str(self.version)
        self.tell("DELETED", gone)

    def tell(self, kind: str, value: Any) -> None:
        line = json.dumps({"type": kind, "object": value}).encode() + b"\n"
        if kind != "BOOKMARK":
            self.log.append((int(value["metadata"]["resourceVersion"]), line))
        self.say(line)

    def say(self, data: bytes | None) -> None:
        """Bytes to every watch; None ends them."""
        for queue in self.queues:
            queue.put_nowait(data)

    async def watched(self, count: int = 1) -> None:
        """Until that many watches are open."""
        async with asyncio.timeout(10):
            while len(self.queues) != count:  # noqa: ASYNC110  (what is awaited has no event)
                await asyncio.sleep(0.001)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append((request.method, dict(request.query)))
        if self.faults:
            answer = await self.faults.pop(0)(request)
            if answer is not None:
                return answer
        return await (self.watch(request) if "watch" in request.query else self.list(request))

    async def list(self, request: web.Request) -> web.StreamResponse:
        names = sorted(self.objects)
        start, limit = int(request.query.get("continue") or 0), int(request.query["limit"])
        more = str(start + limit) if start + limit < len(names) else ""
        items = [self.objects[name] for name in names[start : start + limit]]
        return web.json_response({"metadata": {"resourceVersion": str(self.version), "continue": more}, "items": items})

    async def watch(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        since = int(request.query["resourceVersion"])
        if since < self.oldest:
            gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            await answer.write(json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n")
            return answer
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        for version, line in self.log:
            if version > since:
                queue.put_nowait(line)
        self.queues.append(queue)
        try:
            while (data := await queue.get()) is not None:
                await answer.write(data)
        finally:
            self.queues.remove(queue)
        return answer

    async def start(self, port: int = 0) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.handle)
        self.runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", port).start()
        self.url = f"http://127.0.0.1:{self.runner.addresses[0][1]}"

    async def stop(self) -> None:
        """Gone: every connection is cut."""
        self.say(None)
        assert self.runner is not None
        await self.runner.cleanup()

    def kubeconfig(self, folder: Path) -> Path:
        path = folder / "kubeconfig"
        path.write_text(
            yaml.safe_dump(
                {
                    "current-context": "here",
                    "clusters": [{"name": "here", "cluster": {"server": self.url}}],
                    "users": [{"name": "me", "user": {"token": "secret-1"}}],
                    "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
                }
            )
        )
        return path


@asynccontextmanager
async def api_server() -> AsyncIterator[ApiServer]:
    """A running one."""
    server = ApiServer()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
