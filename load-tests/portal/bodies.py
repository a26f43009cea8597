"""The requests of the bench: OpenAI chat bodies of 4 KB, and how they stand on the wire. Pure.

Half of them name `model` first, as people with curl do, half last, as the OpenAI SDK for Python does: who reads
only at the beginning would route these wrong. No two are equally long, as in life: one that remembers heads by their
bytes would gain what it never gains with real clients.
"""

import json

MODELS = tuple(f"model-{n}" for n in range(4))
"""Each has a null engine of its own, on a port of its own. The committed proxy configurations know these four."""

BODY_BYTES = 4096
"""A chat of two or three turns; the mean of `mix`."""

_STEP_BYTES = 16
"""Between the lengths of two bodies of `mix`."""

_WORDS = "Tell me, in a few plain words, why the sky over the harbour turns red before the rain comes in. "


def chat(model: str, *, first: bool, size_bytes: int = BODY_BYTES, **more: object) -> bytes:
    """A chat body of exactly `size_bytes` that means `model`, named first or last; `more` are further fields."""
    empty = _chat(model, "", first, more)
    room = size_bytes - len(empty)
    return _chat(model, (_WORDS * (room // len(_WORDS) + 1))[:room], first, more)


def mix() -> list[bytes]:
    """The bodies that a load goes through in turn: each model once named first and once last."""
    named = [(model, first) for first in (True, False) for model in MODELS]
    smallest = BODY_BYTES - (len(named) - 1) * _STEP_BYTES // 2
    return [chat(model, first=first, size_bytes=smallest + n * _STEP_BYTES) for n, (model, first) in enumerate(named)]


def stream(model: str, chunks: int, period_us: int) -> bytes:
    """A chat body for which the null backend streams `chunks` chunks, one each `period_us` microseconds."""
    return chat(model, first=False, stream=True, bench_chunks=chunks, bench_period_us=period_us)


def decoys(model: str, other: str) -> list[bytes]:
    """Bodies that mean `model` and also hold `"model":"<other>"` where it means nothing: nested, quoted, and both."""
    quoted = f'Why does {{"model":"{other}"}} not work?'
    nested = {"model": other}
    return [
        _dump({"metadata": nested, "messages": [_user("Hello")], "model": model}),
        _dump({"model": model, "messages": [_user(quoted)]}),
        _dump({"messages": [_user(quoted)], "tools": [nested], "model": model}),
    ]


def on_wire(body: bytes) -> bytes:
    """The whole HTTP/1.1 request."""
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\n"
        "Host: localhost\r\n"
        "User-Agent: pilotlight-bench\r\n"
        "Accept: application/json\r\n"
        "Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("ascii") + body


def _chat(model: str, text: str, first: bool, more: dict[str, object]) -> bytes:
    rest = {
        "messages": [{"role": "system", "content": "You answer briefly."}, _user(text)],
        "max_tokens": 64,
        "temperature": 0.7,
        **more,
    }
    return _dump({"model": model, **rest} if first else {**rest, "model": model})


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")
