"""The golden prompt: at temperature 0 these weights must give these tokens.

With no tokens declared, those that an earlier start of the same golden key has taught are expected; without such a
start the engine is asked twice and both answers must agree: that answer is then the learned one. The prompt itself
never appears in a message or a log.
"""

import hashlib
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version

import httpx

from runtime.contract import EngineSpec, FailureCause, Golden
from runtime.ready.fault import Fault
from runtime.ready.http import client

# Another build computes in another order, and where two tokens are nearly as likely the other may win.
_COMPUTES = ("vllm", "torch")


def golden_key(model_digest: str | None, spec: EngineSpec) -> str | None:
    """What two starts must share to give the same tokens: weights, arguments, environment, prompt length, build.

    None where the weights have no digest (streamed from a URL): nothing is learned of them then.
    """
    if model_digest is None:
        return None
    parts = [model_digest, spec.platform, str(spec.golden.max_tokens), *spec.args]
    parts += [f"{name}={value}" for name, value in sorted(spec.env.items())]
    return hashlib.sha256("\n".join([*parts, *_versions(_COMPUTES)]).encode()).hexdigest()[:32]


def _versions(names: Iterable[str]) -> Iterable[str]:
    for name in names:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            yield f"{name} none"


async def ask_golden(
    url: str,
    served_name: str,
    golden: Golden,
    timeout_s: float,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, ...]:
    """The proven tokens. `timeout_s` bounds each answer; `key` is the golden key of this start.

    `headers` let the host through the engine's gate.

    Raises Fault: GOLDEN_FAILED when there is no proper answer, GOLDEN_WRONG when it is not the expected one.
    """
    learned = golden.learned.get(key) if key is not None else None
    async with client(url, timeout_s, headers) as http:
        got = await _ask(http, served_name, golden)
        if golden.tokens is not None:
            expected, cause = golden.tokens, _DECLARED
        elif learned is not None:
            expected, cause = learned, _LEARNED
        else:
            expected, cause = await _ask(http, served_name, golden), _UNSTEADY
    if got != expected:
        raise _wrong(got, expected, cause)
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


_DECLARED = "the weights or the engine changed; correct them, or declare the new golden tokens"
_LEARNED = "the same weights, arguments and build gave those before; check memory and disk, or declare golden tokens"
_UNSTEADY = "two answers at temperature 0 differ; the engine is not deterministic, declare other arguments"


def _wrong(got: tuple[int, ...], expected: tuple[int, ...], cause: str) -> Fault:
    return Fault(
        FailureCause.GOLDEN_WRONG,
        f"the golden prompt gave {list(got)}, expected {list(expected)}: {cause}",
        {"got": " ".join(map(str, got)), "expected": " ".join(map(str, expected))},
        # What was declared is never given by these weights; what was learned was given once.
        permanent=cause is _DECLARED,
    )
