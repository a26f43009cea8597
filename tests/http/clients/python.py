"""The clients of Python: OpenAI's SDK, httpx, aiohttp, requests, urllib."""

import asyncio
import io
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse

import aiohttp
import httpx
import openai
import requests
from openai.types.chat import ChatCompletionMessageParam

from tests.http.clients.ways import Client, Heard, Question, heard, words

JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Called:
    """A client that is a function; what it raises becomes the name of its error."""

    name: str
    call: Callable[[Question], Heard]
    retries: bool = False

    def ask(self, question: Question) -> Heard:
        """See `ways.Client`."""
        try:
            return self.call(question)
        except openai.APIStatusError as error:
            return Heard(error.status_code, error.message, type(error).__name__)
        except (openai.OpenAIError, httpx.HTTPError, aiohttp.ClientError, requests.RequestException) as error:
            return Heard(0, str(error), type(error).__name__)
        except (OSError, HTTPException) as error:
            return Heard(0, str(error), type(error).__name__)


def awaited(call: Callable[[Question], Awaitable[Heard]]) -> Callable[[Question], Heard]:
    """A coroutine function as a function, in a loop of its own."""

    async def run(question: Question) -> Heard:
        return await call(question)

    return lambda question: asyncio.run(run(question))


def _messages(question: Question) -> list[ChatCompletionMessageParam]:
    return [{"role": "user", "content": question.content}]


def openai_sync(question: Question) -> Heard:
    """`openai.OpenAI`."""
    with openai.OpenAI(
        base_url=question.base, api_key="none", timeout=question.patience_s, max_retries=question.retries
    ) as client:
        if not question.stream:
            whole = client.chat.completions.create(model=question.model, messages=_messages(question))
            return Heard(200, whole.choices[0].message.content or "")
        text = ""
        with client.chat.completions.create(model=question.model, messages=_messages(question), stream=True) as stream:
            for chunk in stream:
                text += chunk.choices[0].delta.content or ""
                if question.leave:
                    break
        return Heard(200, text)


async def openai_async(question: Question) -> Heard:
    """`openai.AsyncOpenAI`."""
    async with openai.AsyncOpenAI(
        base_url=question.base, api_key="none", timeout=question.patience_s, max_retries=question.retries
    ) as client:
        if not question.stream:
            whole = await client.chat.completions.create(model=question.model, messages=_messages(question))
            return Heard(200, whole.choices[0].message.content or "")
        text = ""
        stream = await client.chat.completions.create(model=question.model, messages=_messages(question), stream=True)
        async with stream:
            async for chunk in stream:
                text += chunk.choices[0].delta.content or ""
                if question.leave:
                    break
        return Heard(200, text)


def httpx_sync(question: Question) -> Heard:
    """`httpx.Client`."""
    with (
        httpx.Client(timeout=question.patience_s) as client,
        client.stream("POST", question.url, content=question.body(), headers=JSON) as answer,
    ):
        if question.stream and answer.status_code == 200:
            return heard(200, question, answer.iter_lines())
        return heard(answer.status_code, question, [], answer.read())


async def httpx_async(question: Question) -> Heard:
    """`httpx.AsyncClient`."""
    async with (
        httpx.AsyncClient(timeout=question.patience_s) as client,
        client.stream("POST", question.url, content=question.body(), headers=JSON) as answer,
    ):
        if not question.stream or answer.status_code != 200:
            return heard(answer.status_code, question, [], await answer.aread())
        text = ""
        async for line in answer.aiter_lines():
            text += "".join(words([line]))
            if text and question.leave:
                break
        return Heard(200, text)


async def aiohttp_client(question: Question) -> Heard:
    """`aiohttp.ClientSession`."""
    timeout = aiohttp.ClientTimeout(total=question.patience_s)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.post(question.url, data=io.BytesIO(question.body()), headers=JSON) as answer,
    ):
        if not question.stream or answer.status != 200:
            return heard(answer.status, question, [], await answer.read())
        text = ""
        async for line in answer.content:
            text += "".join(words([line]))
            if text and question.leave:
                break
        return Heard(200, text)


def requests_client(question: Question) -> Heard:
    """`requests.Session`."""
    with (
        requests.Session() as session,
        session.post(
            question.url, data=question.body(), headers=JSON, timeout=question.patience_s, stream=question.stream
        ) as answer,
    ):
        if question.stream and answer.status_code == 200:
            return heard(200, question, answer.iter_lines(chunk_size=1))
        return heard(answer.status_code, question, [], answer.content)


def urllib_client(question: Question) -> Heard:
    """`urllib.request.urlopen`, which asks to close each connection."""
    asked = urllib.request.Request(question.url, data=question.body(), headers=JSON)  # noqa: S310 — http to loopback
    try:
        with urllib.request.urlopen(asked, timeout=question.patience_s) as answer:  # noqa: S310 — as above
            if question.stream:
                return heard(answer.status, question, _lines(answer))
            return heard(answer.status, question, [], answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return heard(error.code, question, [], error.read())


def _lines(answer: HTTPResponse) -> Iterator[bytes]:
    """Not by `readline`: that takes an answer that breaks off for its end (http.client's `_peek_chunked`)."""
    rest = b""
    while piece := answer.read1():
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines


PYTHON: tuple[Client, ...] = (
    Called("OpenAI SDK", openai_sync, retries=True),
    Called("OpenAI SDK, async", awaited(openai_async), retries=True),
    Called("httpx", httpx_sync),
    Called("httpx, async", awaited(httpx_async)),
    Called("aiohttp", awaited(aiohttp_client)),
    Called("requests", requests_client),
    Called("urllib", urllib_client),
)
