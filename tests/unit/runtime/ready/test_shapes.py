"""Which shapes are warmed, and that warming gives way, ends and tells the truth; against a server of a few lines."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from runtime.ready.gate_door import WARM_UP_HEADER
from runtime.ready.shapes import BATCHES, PROMPTS, Shape, sequences, shapes, warm_shapes

HEADERS = {"x-pilotlight-credential": "c"}
DONE: dict[str, Any] = {"choices": [{}]}


@pytest.mark.parametrize(
    ("max_model_len", "max_num_seqs", "expected"),
    [
        (8192, 4, [(16, 1), (64, 1), (256, 1), (1024, 1), (2048, 1), (16, 2), (16, 4)]),
        (258, 1, [(16, 1), (64, 1), (256, 1)]),
        (257, 1, [(16, 1), (64, 1)]),
        (10, 2, [(8, 1), (8, 2)]),
        (1, 1, [(1, 1)]),
        (None, None, [(16, 1), (16, 2), (16, 4), (16, 8)]),
    ],
)
def test_the_ladder(max_model_len: int | None, max_num_seqs: int | None, expected: list[tuple[int, int]]) -> None:
    assert list(shapes(max_model_len, max_num_seqs)) == [Shape(*shape) for shape in expected]


def test_it_is_bounded_whatever_the_limits() -> None:
    most = shapes(10**9, 10**9)
    assert len(most) == len(PROMPTS) + len(BATCHES)
    assert sum(shape.tokens * shape.batch for shape in most) < 4096


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("--max-num-seqs", "8"), 8),
        (("--max_num_seqs=8",), 8),
        (("--max-num-seqs=8", "--dtype", "auto", "--max-num-seqs", "4"), 4),
        (("--max-num-seqs", "many"), None),
        (("--max-num-seqs",), None),
        (("--max-model-len", "8"), None),
        ((), None),
    ],
)
def test_sequences(args: tuple[str, ...], expected: int | None) -> None:
    assert sequences(args) == expected


@contextlib.asynccontextmanager
async def serving(*answers: web.Response, max_model_len: int | None = 100) -> AsyncIterator[tuple[str, list[Any]]]:
    """A server that gives the answers in turn, the last one for good; and the bodies it got."""
    queue, bodies = list(answers), []

    async def models(request: web.Request) -> web.Response:
        assert WARM_UP_HEADER not in request.headers, "asked also while clients are answered"
        return web.json_response({"data": [{"max_model_len": max_model_len}]})

    async def completions(request: web.Request) -> web.Response:
        assert request.headers["x-pilotlight-credential"] == "c"
        assert request.headers[WARM_UP_HEADER] == "1"
        bodies.append(await request.json())
        given = queue.pop(0) if len(queue) > 1 else queue[0]
        return web.Response(status=given.status, body=given.body, content_type="application/json")

    app = web.Application()
    app.router.add_get("/v1/models", models)
    app.router.add_post("/v1/completions", completions)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", bodies
    finally:
        await runner.cleanup()


async def test_every_shape_once_and_none_from_a_cache() -> None:
    async with serving(web.json_response(DONE)) as (url, bodies):
        assert await warm_shapes(url, "chat", ("--max-num-seqs=4",), HEADERS)
    asked = [(len(body["prompt"][0]), len(body["prompt"])) for body in bodies]
    assert asked == [(16, 1), (64, 1), (16, 2), (16, 4)]
    assert len({body["cache_salt"] for body in bodies}) == len(bodies)
    assert len({prompt[0] for prompt in bodies[-1]["prompt"]}) == 4
    assert all(1 <= token <= 16 for body in bodies for prompt in body["prompt"] for token in prompt)


async def test_it_comes_back_for_a_shape_that_gave_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.ready.shapes.REST_S", (0.0,))
    gone = [web.Response(status=503), web.Response(body=b"null"), web.Response(status=503)]
    async with serving(*gone, web.json_response(DONE)) as (url, bodies):
        assert await warm_shapes(url, "chat", ("--max-num-seqs=1",), HEADERS)
    assert [len(body["prompt"][0]) for body in bodies] == [16, 16, 16, 16, 64]


async def test_none_is_begun_while_the_machine_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.ready.shapes.REST_S", (0.0,))
    asked_when: list[bool] = []
    state = iter([True, True, False, True, False])

    def busy() -> bool:
        asked_when.append(next(state, False))
        return asked_when[-1]

    async with serving(web.json_response(DONE)) as (url, bodies):
        assert await warm_shapes(url, "chat", ("--max-num-seqs=1",), HEADERS, busy)
    assert [len(body["prompt"][0]) for body in bodies] == [16, 64]
    assert asked_when == [True, True, False, True, False]


@pytest.mark.parametrize("status", [400, 422])
async def test_what_no_client_could_ask_needs_no_warming(status: int) -> None:
    async with serving(web.Response(status=status)) as (url, bodies):
        assert await warm_shapes(url, "chat", (), HEADERS)
    assert len(bodies) == 5


@pytest.mark.parametrize("status", [403, 404, 500])
async def test_an_engine_that_fails_is_not_warmed(status: int) -> None:
    async with serving(web.Response(status=status)) as (url, bodies):
        assert not await warm_shapes(url, "chat", (), HEADERS)
    assert len(bodies) == 1


async def test_an_engine_that_is_gone_is_not_warmed() -> None:
    assert not await warm_shapes("http://127.0.0.1:1", "chat", (), HEADERS)


async def test_it_waits_as_long_as_clients_are_answered_and_can_be_cancelled() -> None:
    async with serving(web.Response(status=503)) as (url, bodies):
        warming = asyncio.create_task(warm_shapes(url, "chat", (), HEADERS))
        async with asyncio.timeout(10):
            while not bodies:  # noqa: ASYNC110  (the server of a few lines keeps them in a list)
                await asyncio.sleep(0)
        warming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await warming
