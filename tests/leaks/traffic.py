"""Accelerated traffic: an hour's worth of requests, streams, left clients, holds, edits and API calls in minutes."""

import asyncio
import itertools
import json
import time
from collections import Counter
from random import Random

import httpx

from tests.fakes.model import make_model
from tests.serving import Up, service

NAMES = ("a", "b", "c")
PASSING = "passing"


class Traffic:
    """Everything at once against one `up`. `done` counts what was done, by kind and outcome."""

    def __init__(self, up: Up, seed: int) -> None:
        self._up = up
        self._random = Random(seed)
        self._numbers = itertools.count()
        self.done: Counter[str] = Counter()
        for name in NAMES:
            make_model(up.models / name)
            self._write(name, 0)

    def _write(self, name: str, edit: int) -> None:
        text = service(name, model=NAMES[0] if name not in NAMES else name, cost="1s")
        # An edit of an argument makes another engine.
        text = text.replace("modelFormat: {name: vllm}", f'modelFormat: {{name: vllm}}, args: ["--seed={edit}"]')
        (self._up.files / f"{name}.yaml").write_text(text)

    async def run(self, seconds: float) -> None:
        """For so long."""
        until = time.monotonic() + seconds
        api = json.loads((self._up.state / "api.json").read_text())["url"]
        token = (self._up.state / "token").read_text().strip()
        async with (
            httpx.AsyncClient(base_url=f"http://{self._up.portal}", timeout=60) as portal,
            httpx.AsyncClient(base_url=api, headers={"authorization": f"Bearer {token}"}, timeout=60) as calls,
        ):
            jobs = [self._asks(portal, name, until) for name in NAMES for _ in range(2)]
            await asyncio.gather(*jobs, self._calls(calls, until), self._holds(calls, until), self._edits(until))

    async def _asks(self, portal: httpx.AsyncClient, name: str, until: float) -> None:
        while time.monotonic() < until:
            for _ in range(self._random.randint(1, 20)):
                await self._ask(portal, name)
            # Longer than coldStartCost: it goes to zero, and the next request starts it again.
            await asyncio.sleep(self._random.choice((0.0, 1.2, 1.5)))

    async def _ask(self, portal: httpx.AsyncClient, name: str) -> None:
        streams, leaves = self._random.random() < 0.4, self._random.random() < 0.2
        body = {"model": name, "prompt": "p", "max_tokens": 8, "stream": streams}
        kind = f"{'stream' if streams else 'request'}{' left' if leaves else ''}"
        try:
            async with asyncio.timeout(self._random.choice((0.0, 0.01, 0.05, 0.3)) if leaves else None):
                answer = await portal.post("/v1/completions", json=body)
            self.done[f"{kind} {answer.status_code}"] += 1
        except TimeoutError:
            self.done[f"{kind} gone"] += 1
        except httpx.HTTPError as error:
            self.done[f"{kind} {type(error).__name__}"] += 1

    async def _calls(self, calls: httpx.AsyncClient, until: float) -> None:
        paths = ("/v1/services", "/v1/plan", "/v1/services/test/a", "/v1/services/test/b/starts?limit=20", "/metrics",
                 "/v1/events?limit=100", "/v1/services/test/nobody", "/v1/holds", "/readyz")  # fmt: skip
        while time.monotonic() < until:
            answer = await calls.get(self._random.choice(paths))
            self.done[f"call {answer.status_code}"] += 1
            await asyncio.sleep(0.05)

    async def _holds(self, calls: httpx.AsyncClient, until: float) -> None:
        while time.monotonic() < until:
            body = {"service": f"test/{self._random.choice(NAMES)}", "for_s": self._random.choice((0.5, 30)),
                    "replicas": self._random.choice((1, 2))}  # fmt: skip
            answer = await calls.post("/v1/holds", json=body)
            self.done[f"hold {answer.status_code}"] += 1
            await asyncio.sleep(self._random.uniform(0.2, 1.5))
            if answer.is_success:
                await calls.delete(f"/v1/holds/{answer.json()['id']}")

    async def _edits(self, until: float) -> None:
        """Arguments change, and services with names never seen before come and go."""
        while time.monotonic() < until:
            number = next(self._numbers)
            self._write(self._random.choice(NAMES), number)
            passing = f"{PASSING}-{number}"
            self._write(passing, 0)
            await asyncio.sleep(1.0)
            (self._up.files / f"{passing}.yaml").unlink()
            self.done["edit"] += 1
            await asyncio.sleep(0.5)
