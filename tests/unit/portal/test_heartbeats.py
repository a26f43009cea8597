"""A streaming client that waits long is told how far the start is, and its status is spent."""

import asyncio
import json
from pathlib import Path

import pytest
from aiohttp import web

from activator_ext.portal.limits import Limits
from runtime.contract import Waiting
from tests.unit.portal.fakes import AT_STAGE, NOW, Handler, breaks_off, engine, failure, house, route

AT_ONCE = Limits(heartbeat_after_s=0.0, heartbeat_every_s=3600)
BEAT = b": pilotlight waiting stage=compile eta_s=31 position=1\n\n"
WARMING = route(**AT_STAGE, eta_at=NOW.replace(second=31))


async def streams(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    await response.write(b'data: {"n": 1}\n\n')
    await response.write(b"data: [DONE]\n\n")
    return response


def answers(status: int, body: object) -> Handler:
    async def handler(_request: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status)

    return handler


async def test_a_heartbeat_then_the_answer(tmp_path: Path) -> None:
    async with engine(streams) as up, house(tmp_path, WARMING, limits=AT_ONCE) as at:
        answer = await at.ask(stream=True)
        assert (answer.status, answer.content_type) == (200, "text/event-stream")
        assert answer.headers["x-pilotlight-service"] == "team-a/chat"
        assert await answer.content.readany() == BEAT
        await at.controller.push(route("team-a/chat", up.url))
        assert await answer.read() == b'data: {"n": 1}\n\ndata: [DONE]\n\n'


async def test_heartbeats_go_on_and_follow_the_stage(tmp_path: Path) -> None:
    limits = Limits(heartbeat_after_s=0.0, heartbeat_every_s=0.001)
    async with house(tmp_path, route(), limits=limits) as at:
        answer = await at.ask(stream=True)
        assert await answer.content.readuntil(b"\n\n") == b": pilotlight waiting stage=queued position=1\n\n"
        assert await answer.content.readuntil(b"\n\n") == b": pilotlight waiting stage=queued position=1\n\n"
        await at.controller.push(WARMING)
        async with asyncio.timeout(5):
            while await answer.content.readuntil(b"\n\n") != BEAT:
                pass
        answer.close()
        await at.waiting(0)


@pytest.mark.parametrize(
    ("body", "accept", "beats"),
    [
        pytest.param({"stream": True}, "*/*", True, id="stream in the body"),
        pytest.param({}, "text/event-stream", True, id="an accepted event stream"),
        pytest.param({"stream": False}, "*/*", False, id="no stream"),
        pytest.param({"stream": "yes"}, "*/*", False, id="only true is true"),
    ],
)
async def test_only_a_streaming_client_gets_heartbeats(
    tmp_path: Path, body: dict[str, object], accept: str, beats: bool
) -> None:
    async with house(tmp_path, route(), limits=AT_ONCE) as at:
        asked = at.ask(accept, **body)
        await at.waiting(1)
        if not beats:
            await at.controller.push(route(failure=failure()))
        answer = await asked
        assert answer.status == (200 if beats else 503)
        answer.close()
        await at.waiting(0)


async def test_a_failure_after_a_heartbeat_is_an_event_and_the_end(tmp_path: Path) -> None:
    async with house(tmp_path, WARMING, limits=AT_ONCE) as at:
        answer = await at.ask(stream=True)
        assert await answer.content.readany() == BEAT
        await at.controller.push(route(failure=failure()))
        event = await answer.read()
        assert event.startswith(b"data: {")
        assert event.endswith(b"}\n\n")
        assert json.loads(event[6:])["error"]["code"] == "model-missing"


async def test_a_timeout_after_a_heartbeat_is_an_event(tmp_path: Path) -> None:
    limits = Limits(heartbeat_after_s=0.0, heartbeat_every_s=0.0)
    async with house(tmp_path, route(waiting=Waiting(timeout_s=0.01)), limits=limits) as at:
        answer = await at.ask(stream=True)
        *beats, event = (await answer.read()).strip().split(b"\n\n")
        assert beats
        assert json.loads(event[6:])["error"]["code"] == "waiting_timed_out"


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        pytest.param(
            answers(400, {"error": {"message": "too long", "code": 400}}),
            {"error": {"message": "too long", "code": 400}},
            id="an error of the engine",
        ),
        pytest.param(
            answers(422, {"detail": "no"}),
            {"error": {"message": '{"detail": "no"}', "type": "upstream_error", "code": 422}},
            id="an error in another shape",
        ),
        pytest.param(answers(200, {"id": "x"}), {"id": "x"}, id="an answer that is no stream"),
        pytest.param(
            breaks_off(),
            {
                "error": {
                    "message": "the engine of team-a/chat ended before it answered; try again",
                    "type": "upstream_error",
                    "code": "engine_lost",
                }
            },
            id="no answer at all",
        ),
    ],
)
async def test_what_the_engine_says_after_a_heartbeat_becomes_an_event(
    tmp_path: Path, handler: Handler, expected: object
) -> None:
    limits = Limits(heartbeat_after_s=0.0, heartbeat_every_s=3600, retry_grace_s=0.0)
    async with engine(handler) as up, house(tmp_path, WARMING, limits=limits) as at:
        answer = await at.ask(stream=True)
        assert await answer.content.readany() == BEAT
        await at.controller.push(route("team-a/chat", up.url))
        event = await answer.read()
        assert json.loads(event.removeprefix(b"data: ")) == expected


async def test_a_stop_after_a_heartbeat_is_an_event(tmp_path: Path) -> None:
    async with house(tmp_path, WARMING, limits=AT_ONCE, drain_s=5) as at:
        answer = await at.ask(stream=True)
        assert await answer.content.readany() == BEAT
        at.portal.stop()
        assert json.loads((await answer.read()).removeprefix(b"data: "))["error"]["code"] == "stopping"
