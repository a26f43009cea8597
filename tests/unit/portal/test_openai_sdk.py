"""The OpenAI SDK, as it is, against the portal."""

from pathlib import Path

import openai
import pytest
from aiohttp import web

from activator_ext.portal.limits import Limits
from tests.unit.portal.fakes import House, engine, failure, house, route

CHUNK = (
    '{"id":"c","object":"chat.completion.chunk","created":1,"model":"chat",'
    '"choices":[{"index":0,"delta":{"content":"%s"}}]}'
)
WHOLE = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "chat",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}],
}
AT_ONCE = Limits(heartbeat_after_s=0.0, heartbeat_every_s=0.001)
HELLO: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "hello?"}]


async def chat(request: web.Request) -> web.StreamResponse:
    if not (await request.json()).get("stream"):
        return web.json_response(WHOLE)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for word in ("hel", "lo"):
        await response.write(f"data: {CHUNK % word}\n\n".encode())
    await response.write(b"data: [DONE]\n\n")
    return response


def sdk(at: House) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{at.url}/v1", api_key="none", max_retries=0)


async def test_whole_answers_and_models(tmp_path: Path) -> None:
    async with engine(chat) as up, house(tmp_path, route("team-a/chat", up.url)) as at, sdk(at) as client:
        answer = await client.chat.completions.create(model="chat", messages=HELLO)
        assert answer.choices[0].message.content == "hello"
        assert [model.id async for model in client.models.list()] == ["team-a/chat", "chat"]
        assert (await client.models.retrieve("team-a/chat")).owned_by == "pilotlight"


async def test_a_stream_after_heartbeats(tmp_path: Path) -> None:
    async with engine(chat) as up, house(tmp_path, route(), limits=AT_ONCE) as at, sdk(at) as client:
        stream = await client.chat.completions.create(model="chat", messages=HELLO, stream=True)
        await at.waiting(1)
        await at.controller.push(route("team-a/chat", up.url))
        assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) == "hello"


async def test_errors_are_the_sdks_own(tmp_path: Path) -> None:
    async with house(tmp_path, route(), limits=AT_ONCE) as at, sdk(at) as client:
        with pytest.raises(openai.NotFoundError, match="known are: team-a/chat"):
            await client.chat.completions.create(model="nobody", messages=HELLO)
        stream = await client.chat.completions.create(model="chat", messages=HELLO, stream=True)
        await at.controller.push(route(failure=failure("the disk is full")))
        with pytest.raises(openai.APIError, match="the disk is full"):
            async for _ in stream:
                pass
