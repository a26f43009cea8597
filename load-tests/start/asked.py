"""Asking an engine over HTTP: the instant of its first streamed token, and its greedy tokens."""

import json
import time
from collections.abc import Callable

import httpx

from start.measured import BenchFailed
from start.plan import PROMPT, TOKENS

START_S = 600.0
"""No start here takes as long; a subject that does is broken."""
LOOK_S = 0.02


def wait_for(what: str, done: Callable[[], bool], alive: Callable[[], bool], log: str) -> None:
    """Look every 20 ms until `done`. Raises BenchFailed when the process ends or takes too long."""
    until = time.monotonic() + START_S
    while not done():
        if not alive():
            raise BenchFailed(f"{what}: the process has ended; see {log}")
        if time.monotonic() > until:
            raise BenchFailed(f"{what}: not ready after {START_S:.0f} s; see {log}")
        time.sleep(LOOK_S)


def healthy(url: str) -> bool:
    """Whether the engine's `/health` is 200."""
    try:
        return httpx.get(f"{url}/health", timeout=2.0, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def first_token(url: str, name: str) -> float:
    """Ask for a stream; the monotonic instant at which its first data came."""
    body = {"model": name, "prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True, "stream": True}
    with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=120.0, trust_env=False) as answer:
        if answer.status_code != 200:
            raise BenchFailed(f"{name}: the first request got {answer.status_code}: {answer.read()[:300]!r}")
        at = None
        for line in answer.iter_lines():
            if line.startswith("data: {") and at is None:
                at = time.monotonic()
        if at is None:
            raise BenchFailed(f"{name}: the first stream carried no token")
        return at


def greedy(url: str, name: str) -> tuple[int, ...]:
    """The tokens at temperature 0."""
    body = {"model": name, "prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True}
    answer = httpx.post(
        f"{url}/v1/completions", content=json.dumps(body | {"return_token_ids": True}), timeout=120.0, trust_env=False,
        headers={"content-type": "application/json"},
    )  # fmt: skip
    try:
        return tuple(answer.json()["choices"][0]["token_ids"])
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise BenchFailed(f"{name}: no token ids in {answer.text[:300]!r}") from error
