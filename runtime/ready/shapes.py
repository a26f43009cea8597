"""The second level of readiness: every shape is computed once, so that no client's request is the first of its size.

Prompts of token ids in a ladder of lengths and batches, asked with the host's credential while no client is answered:
the gate turns such a request away when one is, and ends it when one comes. A salt of its own keeps each out of the
prefix cache that clients share.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import httpx

from runtime.ready.gate_door import WARM_UP_HEADER
from runtime.ready.http import client

PROMPTS: Final = (16, 64, 256, 1024, 2048)
"""Tokens of a prompt: each four times the last, and at most what vLLM computes in one step by default on a CPU."""
BATCHES: Final = (2, 4, 8)
"""Prompts at a time, short ones; larger batches come only with many clients, and take many clients' time."""
_ANSWER: Final = 2
"""Tokens of an answer: the first ends the prompt's computation, the second is one step of the answer's."""
_LEAST_ID, _IDS = 1, 16
"""Token ids that are in every vocabulary."""
ANSWER_S: Final = 300.0
"""The longest wait for one shape; a large model computes 2048 tokens on a CPU in a minute."""
REST_S: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Waits before the next try while clients are answered, the last one for good."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One request: `batch` prompts of `tokens` tokens each."""

    tokens: int
    batch: int = 1


def shapes(max_model_len: int | None, max_num_seqs: int | None) -> tuple[Shape, ...]:
    """The ladder within the engine's limits; without a known limit, its shortest rung.

    8192 tokens and 4 sequences: prompts of 16 … 2048, batches of 2 and 4.
    """
    longest = (max_model_len or PROMPTS[0] + _ANSWER) - _ANSWER
    lengths = tuple(length for length in PROMPTS if length <= longest) or (max(longest, 1),)
    batches = tuple(batch for batch in BATCHES if batch <= (max_num_seqs or BATCHES[-1]))
    return (*(Shape(length) for length in lengths), *(Shape(lengths[0], batch) for batch in batches))


def sequences(args: Sequence[str]) -> int | None:
    """The value of `--max-num-seqs` among vLLM's arguments, the last one; None where it is not given or no number."""
    words = [word for arg in args for word in arg.split("=", 1)]
    values = [value for name, value in pairwise(words) if name.replace("_", "-") == "--max-num-seqs"]
    return int(values[-1]) if values and values[-1].isdigit() else None


async def warm_shapes(
    url: str,
    served_name: str,
    args: Sequence[str],
    headers: Mapping[str, str],
    busy: Callable[[], bool] = lambda: False,
) -> bool:
    """Compute every shape, each when no client is answered; True once all are. Waits without an end of its own.

    `busy`: the machine has something to do that somebody may wait for, as the start of another engine: seen on two
    cores, a start took 4 s longer beside the shapes of a model of 1.1 GiB. No shape is begun until it has not.
    False: the engine failed at one or is gone; nothing is said of the rest then.
    """
    async with client(url, ANSWER_S, headers) as http:
        try:
            for shape in shapes(await _max_model_len(http), sequences(args)):
                tries = 0
                while (done := None if busy() else await _compute(http, served_name, shape)) is None:
                    await asyncio.sleep(REST_S[min(tries, len(REST_S) - 1)])
                    tries += 1
                if not done:
                    return False
        except httpx.RequestError:
            return False
    return True


async def _max_model_len(http: httpx.AsyncClient) -> int | None:
    """What the engine says in `/v1/models`, None where it does not."""
    try:
        limit = (await http.get("/v1/models")).json()["data"][0]["max_model_len"]
    except (ValueError, KeyError, IndexError, TypeError):
        return None
    return limit if isinstance(limit, int) else None


async def _compute(http: httpx.AsyncClient, served_name: str, shape: Shape) -> bool | None:
    """True: computed, or nobody may ask so. None: it gave way to a client. False: failed."""
    body = {
        "model": served_name,
        "prompt": [_prompt(shape.tokens, beginning) for beginning in range(shape.batch)],
        "max_tokens": _ANSWER,
        "ignore_eos": True,
        "temperature": 0,
        "cache_salt": secrets.token_hex(8),
    }
    response = await http.post("/v1/completions", json=body, headers={WARM_UP_HEADER: "1"})
    if response.status_code == 503:
        return None
    if response.status_code in (400, 422):
        return True
    # vLLM answers a request that it dropped with 200 and `null`.
    return None if response.text == "null" else response.status_code == 200


def _prompt(tokens: int, beginning: int) -> list[int]:
    """Prompts of a batch begin differently, so that none finds another's in the prefix cache."""
    return [_LEAST_ID + (beginning + place) % _IDS for place in range(tokens)]
