"""Probe and golden prompt against a server of a few lines, which answers what each case says."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from runtime.contract import EngineSpec, FailureCause, Golden
from runtime.ready.fault import Fault
from runtime.ready.golden import ask_golden, golden_key
from runtime.ready.probe import wait_until_serving


@contextlib.asynccontextmanager
async def serving(**answers: list[web.Response]) -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
    """A server that gives the answers of each route in turn, the last one for good; and the bodies it got."""
    bodies: list[dict[str, Any]] = []

    async def handle(request: web.Request) -> web.Response:
        if request.can_read_body:
            bodies.append(await request.json())
        queue = answers[request.path.rpartition("/")[2]]
        given = queue.pop(0) if len(queue) > 1 else queue[0]
        return web.Response(status=given.status, body=given.body, content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", bodies
    finally:
        await runner.cleanup()


def models(*names: str) -> list[web.Response]:
    return [web.json_response({"data": [{"id": name} for name in names]})]


def tokens(*ids: int) -> web.Response:
    return web.json_response({"choices": [{"token_ids": list(ids)}]})


def up() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


async def test_it_waits_until_health_is_200() -> None:
    health = [web.Response(status=503), web.Response(status=503), web.Response()]
    async with serving(health=health, models=models("a", "chat")) as (url, _):
        await wait_until_serving(url, "chat", up())
    assert len(health) == 1


async def test_the_line_of_the_server_ends_the_long_pause() -> None:
    server_up = asyncio.Event()
    health = [web.Response(status=503), web.Response()]
    async with serving(health=health, models=models("chat")) as (url, _):
        waiting = asyncio.create_task(wait_until_serving(url, "chat", server_up))
        server_up.set()
        await waiting


async def test_without_that_line_it_asks_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.ready.probe.BEFORE_SERVER_S", 0.01)
    async with serving(health=[web.Response(status=503), web.Response()], models=models("chat")) as (url, _):
        await wait_until_serving(url, "chat", asyncio.Event())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (models("other", "third"), "it serves other, third"),
        (models(), "it serves nothing"),
        ([web.Response(body=b"no json")], "it serves nothing"),
        ([web.json_response({"data": [{}]})], "it serves nothing"),
    ],
)
async def test_a_server_of_something_else(answer: list[web.Response], words: str) -> None:
    async with serving(health=[web.Response()], models=answer) as (url, _):
        with pytest.raises(Fault, match=words) as caught:
            await wait_until_serving(url, "chat", up())
    assert caught.value.cause is FailureCause.NOT_SERVED


async def test_declared_tokens_need_one_answer() -> None:
    async with serving(completions=[tokens(1, 2)]) as (url, bodies):
        assert await ask_golden(url, "chat", Golden(prompt="p", max_tokens=2, tokens=(1, 2)), 5) == (1, 2)
    assert bodies == [
        {
            "model": "chat",
            "prompt": "p",
            "max_tokens": 2,
            "temperature": 0,
            "ignore_eos": True,
            "return_token_ids": True,
        }
    ]


async def test_learned_tokens_need_two_that_agree() -> None:
    async with serving(completions=[tokens(1, 2)]) as (url, bodies):
        assert await ask_golden(url, "chat", Golden(), 5) == (1, 2)
    assert len(bodies) == 2


async def test_what_an_earlier_start_taught_is_expected() -> None:
    taught = Golden(learned={"key": (1, 2), "other": (3, 4)})
    async with serving(completions=[tokens(1, 2)]) as (url, bodies):
        assert await ask_golden(url, "chat", taught, 5, "key") == (1, 2)
    assert len(bodies) == 1
    async with serving(completions=[tokens(1, 2)]) as (url, _):
        with pytest.raises(Fault, match=r"expected \[3, 4\]: the same weights"):
            await ask_golden(url, "chat", taught, 5, "other")


def test_the_golden_key_names_what_decides_the_tokens() -> None:
    spec = EngineSpec(service="team/chat", served_names=("team/chat",), model="/m", args=("--dtype=bfloat16",))
    key = golden_key("sha256:a", spec)
    assert key == golden_key("sha256:a", spec.model_copy(update={"served_names": ("x",), "drain_timeout_s": 1.0}))
    others = [
        golden_key("sha256:b", spec),
        golden_key("sha256:a", spec.model_copy(update={"args": ("--dtype=float32",)})),
        golden_key("sha256:a", spec.model_copy(update={"env": {"VLLM_X": "1"}})),
        golden_key("sha256:a", spec.model_copy(update={"golden": Golden(max_tokens=3)})),
    ]
    assert len({key, *others}) == 5
    assert golden_key(None, spec) is None


@pytest.mark.parametrize(
    ("answers", "expected", "cause", "words"),
    [
        ([tokens(1, 2)], (3, 4), FailureCause.GOLDEN_WRONG, r"gave \[1, 2\], expected \[3, 4\]: the weights"),
        ([tokens(1), tokens(2)], None, FailureCause.GOLDEN_WRONG, "two answers at temperature 0 differ"),
        ([web.Response(status=500, body=b"boom")], None, FailureCause.GOLDEN_FAILED, "status 500: boom"),
        ([web.Response(body=b"no json")], None, FailureCause.GOLDEN_FAILED, "no token_ids"),
        ([web.json_response({"choices": []})], None, FailureCause.GOLDEN_FAILED, "no token_ids"),
        ([web.json_response({"choices": [{"token_ids": None}]})], None, FailureCause.GOLDEN_FAILED, "no token_ids"),
    ],
)
async def test_a_golden_prompt_that_fails(
    answers: list[web.Response], expected: tuple[int, ...] | None, cause: FailureCause, words: str
) -> None:
    async with serving(completions=answers) as (url, _):
        with pytest.raises(Fault, match=words) as caught:
            await ask_golden(url, "chat", Golden(prompt="the secret prompt", tokens=expected), 5)
    assert caught.value.cause is cause
    assert "secret" not in str(caught.value)


async def test_nobody_there() -> None:
    with pytest.raises(Fault, match="no answer") as caught:
        await ask_golden("http://127.0.0.1:1", "chat", Golden(), 5)
    assert caught.value.cause is FailureCause.GOLDEN_FAILED
