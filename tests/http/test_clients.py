"""The matrix of docs/reference/clients.md: each client is asked again, and its row is still what the page says."""

import asyncio
import json
from collections.abc import Callable

import aiohttp
import httpx
import pytest

from tests.http.clients.cases import CASES, SLOW, base
from tests.http.clients.page import CLIENTS, PAGE, render, row, slow_rows, written
from tests.http.clients.programs import missing
from tests.http.clients.ways import Client
from tests.http.house import House, Place
from tests.http.test_keepalive import echo

ids = [client.name for client in CLIENTS]


@pytest.fixture(scope="module")
def slow(portal: House) -> dict[str, dict[str, str]]:
    """The cases that wait, for all clients at once."""
    return slow_rows(portal, tuple(client for client in CLIENTS if not missing(client)))


@pytest.mark.parametrize("client", CLIENTS, ids=ids)
def test_the_row_of_a_client(portal: House, slow: dict[str, dict[str, str]], client: Client) -> None:
    if what := missing(client):
        pytest.skip(what)
    cells = row(portal, client, cases=frozenset(CASES) - SLOW) | slow[client.name]
    print(client.name, *(f"  {case}: {cells[case]}" for case in CASES), sep="\n")

    assert cells == written()[client.name], "python -m tests.http.clients.page writes the page anew"


def test_the_page_is_the_one_that_is_written() -> None:
    assert list(written()) == ids
    assert render(written()) == PAGE.read_text()


def test_a_pool_of_httpx_mixes_nothing_up(settle: Callable[..., Place]) -> None:
    here = settle(echo)

    async def ask_all() -> list[dict[str, object]]:
        async with httpx.AsyncClient(limits=httpx.Limits(max_connections=10), timeout=30) as client:
            answers = await asyncio.gather(
                *(client.post(f"{base(here)}/completions", json={"model": here.name, "n": n}) for n in range(200))
            )
        return [answer.json() for answer in answers]

    assert [said["n"] for said in asyncio.run(ask_all())] == list(range(200))


def test_a_pool_of_aiohttp_mixes_nothing_up(settle: Callable[..., Place]) -> None:
    here = settle(echo)

    async def one(session: aiohttp.ClientSession, n: int) -> object:
        async with session.post(f"{base(here)}/completions", json={"model": here.name, "n": n}) as answer:
            return json.loads(await answer.read())["n"]

    async def ask_all() -> list[object]:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=10)) as session:
            return list(await asyncio.gather(*(one(session, n) for n in range(200))))

    assert asyncio.run(ask_all()) == list(range(200))
