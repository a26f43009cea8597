"""The golden prompt: at temperature 0 these weights must give these tokens.

With no tokens declared the engine is asked twice and both answers must agree; that answer is then the learned one.
The prompt itself never appears in a message or a log.
"""

import httpx

from runtime.contract import FailureCause, Golden
from runtime.ready.fault import Fault
from runtime.ready.http import client


async def ask_golden(url: str, served_name: str, golden: Golden, timeout_s: float) -> tuple[int, ...]:
    """The proven tokens. `timeout_s` bounds each answer.

    Raises Fault: GOLDEN_FAILED when there is no proper answer, GOLDEN_WRONG when it is not the expected one.
    """
    async with client(url, timeout_s) as http:
        got = await _ask(http, served_name, golden)
        expected = golden.tokens if golden.tokens is not None else await _ask(http, served_name, golden)
    if got != expected:
        raise _wrong(got, expected, declared=golden.tokens is not None)
    return got


async def _ask(http: httpx.AsyncClient, served_name: str, golden: Golden) -> tuple[int, ...]:
    body = {
        "model": served_name,
        "prompt": golden.prompt,
        "max_tokens": golden.max_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "return_token_ids": True,
    }
    try:
        response = await http.post("/v1/completions", json=body)
    except httpx.RequestError as error:
        raise _failed(f"no answer ({type(error).__name__}: {error})") from error
    if response.status_code != 200:
        raise _failed(f"status {response.status_code}: {response.text[:300]}", status=response.status_code)
    try:
        tokens = response.json()["choices"][0]["token_ids"]
        return tuple(int(token) for token in tokens)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise _failed("the answer carries no token_ids; the engine must honour return_token_ids") from error


def _failed(what: str, **numbers: float) -> Fault:
    return Fault(FailureCause.GOLDEN_FAILED, f"the golden prompt failed: {what}", numbers)


def _wrong(got: tuple[int, ...], expected: tuple[int, ...], *, declared: bool) -> Fault:
    cause = (
        "the weights or the engine changed; correct them, or declare the new golden tokens"
        if declared
        else "two answers at temperature 0 differ; the engine is not deterministic, declare other arguments"
    )
    return Fault(
        FailureCause.GOLDEN_WRONG,
        f"the golden prompt gave {list(got)}, expected {list(expected)}: {cause}",
        {"got": " ".join(map(str, got)), "expected": " ".join(map(str, expected))},
    )
