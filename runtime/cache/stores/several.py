"""Many small questions to one store, a few at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

Q = TypeVar("Q")
A = TypeVar("A")

AT_ONCE = 8
"""Enough to hide a round trip of 50 ms behind the others; few enough for any server."""


async def ask_each(ask: Callable[[Q], Awaitable[A]], questions: Iterable[Q]) -> tuple[A, ...]:
    """The answers in the order of the questions. Raises the first error, once none is under way any more."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(question: Q) -> A:
        async with gate:
            return await ask(question)

    answers = await asyncio.gather(*(one(question) for question in questions), return_exceptions=True)
    given = []
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        given.append(answer)
    return tuple(given)
