"""Floors from a controller's API: its answers, its silence, and the token on its way."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from activator_ext.adapters.keda_scaler.floors import Floors, Unknown
from activator_ext.adapters.keda_scaler.floors_api import BadController, ControllerFloors
from activator_ext.core.model import ServiceId

CHAT = ServiceId("team-a", "chat")
NOW = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)


@dataclass
class Controller:
    status: int = 200
    body: Any = field(default_factory=lambda: [{"service": "team-a/chat", "floor": 1, "floor_until": None, "new": 3}])
    tokens: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        self.tokens.append(request.headers.get("authorization", ""))
        return web.json_response(self.body, status=self.status)


@pytest.fixture
def controller() -> Controller:
    return Controller()


@pytest.fixture
async def url(controller: Controller) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/v1/services", controller.answer)
    async with TestServer(app, host="127.0.0.1") as server:
        yield str(server.make_url("")).rstrip("/")


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


async def test_floors_come_with_their_ends(controller: Controller, url: str) -> None:
    floors = Floors(Clock())
    async with ControllerFloors(url, floors, print) as api:
        await api.ask()
        assert floors.of(CHAT) == 1

        controller.body = [{"service": "team-a/chat", "floor": 3, "floor_until": "2026-12-01T08:59:00Z"}]
        await api.ask()
        assert floors.of(CHAT) == 0


async def test_the_token_is_read_at_each_call(controller: Controller, url: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    async with ControllerFloors(url, Floors(Clock()), print, token_file=token) as api:
        for text in ("one\n", "two"):
            token.write_text(text)
            await api.ask()

    assert controller.tokens == ["Bearer one", "Bearer two"]


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (401, {}, "it answers 401: give its token with --token-file"),
        (500, {}, "it answers 500"),
        (200, {"error": 1}, "not that of this version"),
        (200, [{"service": "team-a/chat", "floor": -1}], "not that of this version"),
        (200, [{"service": "a/b/c", "floor": 1}], "not that of this version"),
    ],
)
async def test_an_answer_of_no_use_is_told_once_and_known_floors_age(
    controller: Controller, url: str, status: int, body: Any, told: str
) -> None:
    clock, said = Clock(), list[str]()
    floors = Floors(clock)
    async with ControllerFloors(url, floors, said.append) as api:
        await api.ask()
        controller.status, controller.body = status, body
        await api.ask()
        await api.ask()
        assert floors.of(CHAT) == 1
        clock.now += timedelta(seconds=61)
        assert isinstance(floors.of(CHAT), Unknown)

        controller.status, controller.body = 200, [{"service": "team-a/chat", "floor": 2}]
        await api.ask()
        assert floors.of(CHAT) == 2

    assert [told in said[0], said[1:]] == [True, [f"{url} tells floors again"]]


async def test_a_controller_that_is_not_there_is_told(tmp_path: Path) -> None:
    said = list[str]()
    async with ControllerFloors("http://127.0.0.1:9", Floors(Clock()), said.append) as api:
        await api.ask()
    async with ControllerFloors("http://127.0.0.1:9", Floors(Clock()), said.append, token_file=tmp_path / "t") as api:
        await api.ask()

    assert "no answer (ConnectError)" in said[0]
    assert "name another with --token-file" in said[1]


@pytest.mark.parametrize(
    ("url", "told"), [("controller:8081", "no URL"), ("ftp://x", "no URL"), ("http://10.0.0.1:80", "in the clear")]
)
def test_where_no_controller_can_be(url: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(BadController, match=told):
        ControllerFloors(url, Floors(Clock()), print, token_file=tmp_path / "token")


def test_an_authority_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadController, match="--controller-ca"):
        ControllerFloors("https://x", Floors(Clock()), print, ca_file=tmp_path / "none.crt")
