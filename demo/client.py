"""A client as anybody has one: a streaming chat request, timed, with the portal's heartbeats shown while it waits."""

import json
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import httpx

# A start under load may take minutes; the portal gives up before this client does.
TIMEOUT_S = 900.0
_HEARTBEAT = re.compile(r":\s*pilotlight waiting stage=(?P<stage>\S+)(?: eta_s=(?P<eta>\d+))?")


class AskFailed(Exception):
    """The request was not answered; the message holds what the server said."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a waiting client is told: the stage under way and the seconds left, None if nobody knows."""

    stage: str
    eta_s: int | None


@dataclass(frozen=True, slots=True)
class Answer:
    """The text, seconds to its first token and to its end, and how often the client was told to wait."""

    text: str
    first_token_s: float
    seconds: float
    heartbeats: int


def ask(
    client: httpx.Client,
    model: str,
    question: str,
    *,
    on_wait: Callable[[float, Heartbeat], None],
    max_tokens: int = 24,
    clock: Callable[[], float] = time.monotonic,
) -> Answer:
    """Ask at temperature 0 and read the stream to its end. Raises AskFailed."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        "max_tokens": max_tokens,
        "stream": True,
    }
    begun = clock()
    try:
        with client.stream("POST", "/v1/chat/completions", json=body, timeout=TIMEOUT_S) as response:
            if response.status_code != 200:
                response.read()
                raise AskFailed(f"HTTP {response.status_code}: {response.text[:500]}")
            return _read(response.iter_lines(), lambda: clock() - begun, on_wait)
    except httpx.HTTPError as error:
        raise AskFailed(f"{type(error).__name__}: {error}") from error


def _read(lines: Iterable[str], elapsed_s: Callable[[], float], on_wait: Callable[[float, Heartbeat], None]) -> Answer:
    text, first_token_s, heartbeats = "", None, 0
    for line in lines:
        if beat := _HEARTBEAT.match(line):
            heartbeats += 1
            on_wait(elapsed_s(), Heartbeat(beat["stage"], int(beat["eta"]) if beat["eta"] else None))
        if not line.startswith("data:"):
            continue
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            if first_token_s is None:
                raise AskFailed("the stream ended without a token")
            return Answer(text, first_token_s, elapsed_s(), heartbeats)
        piece = _piece(data)
        if piece and first_token_s is None:
            first_token_s = elapsed_s()
        text += piece
    raise AskFailed(f"the stream broke off after {text!r}")


def _piece(data: str) -> str:
    """The text of one chunk, "" for one without any. Raises AskFailed for an error sent within the stream."""
    chunk = json.loads(data)
    if "error" in chunk:
        raise AskFailed(f"an error within the stream: {json.dumps(chunk['error'])[:500]}")
    return "".join(choice.get("delta", {}).get("content") or "" for choice in chunk.get("choices", []))
