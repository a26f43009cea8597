"""Requests that wait: together, to the limits, and until they leave."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from activator_ext.portal.limits import Limits
from runtime.contract import Waiting
from tests.unit.portal.fakes import NO_WAIT, NOW, engine, failure, house, route, until


async def test_fifty_at_once_on_a_service_at_zero_make_one_demand_and_are_all_answered(tmp_path: Path) -> None:
    async with engine() as up, house(tmp_path, route()) as at:
        at.controller.reports.clear()
        asked = [at.ask(messages=[n]) for n in range(50)]
        await at.waiting(50)
        await until(lambda: any(load.waiting for load in at.controller.loads()))
        assert not up.bodies
        await at.controller.push(route("team-a/chat", up.url))
        answers = await asyncio.gather(*asked)
        assert [await answer.json() for answer in answers] == [{"said": "hello"}] * 50
        assert {answer.headers["x-pilotlight-replica"] for answer in answers} == {"team-a/chat/0"}
        assert all(int(answer.headers["x-pilotlight-waited-ms"]) >= 0 for answer in answers)
        await at.running(0)
        counts = [load.waiting for load in at.controller.loads()]
        rises = [now for before, now in zip([0, *counts], counts, strict=False) if now and not before]
        assert len(rises) == 1, f"one report that waiting left zero, but {counts}"
        assert len(up.bodies) == 50
        assert await at.metric('pilotlight_portal_requests_total{outcome="answered",service="team-a/chat"} 50.0')
        assert await at.metric('pilotlight_portal_waiting_seconds_count{service="team-a/chat"} 50.0')
        assert await at.metric('pilotlight_portal_first_byte_seconds_count{service="team-a/chat",waited="yes"} 50.0')


async def test_least_in_flight_is_chosen_and_every_count_returns_to_zero(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def slow(_request: aiohttp.web.Request) -> aiohttp.web.StreamResponse:
        await gate.wait()
        return aiohttp.web.json_response({})

    async with engine(slow) as one, engine(slow) as two, house(tmp_path, route("team-a/chat", one.url, two.url)) as at:
        asked = []
        for n in range(4):
            asked.append(at.ask())
            await at.running(n + 1)
        loads = at.portal.door.loads
        endpoints = at.portal.door.table.routes["team-a/chat"].endpoints
        assert [loads.in_flight(each) for each in endpoints] == [2, 2]
        gate.set()
        replicas = [answer.headers["x-pilotlight-replica"] for answer in await asyncio.gather(*asked)]
        assert replicas == ["team-a/chat/0", "team-a/chat/1"] * 2
        await at.running(0)
        assert [loads.in_flight(each) for each in endpoints] == [0, 0]


@pytest.mark.parametrize(
    "room",
    [
        pytest.param(Waiting(max_requests=1), id="requests"),
        pytest.param(Waiting(max_bytes=60), id="bytes"),
    ],
)
async def test_a_full_room_is_429_and_a_place_is_free_when_its_client_leaves(tmp_path: Path, room: Waiting) -> None:
    eta_at = NOW.replace(second=40)
    async with house(tmp_path, route(waiting=room, eta_at=eta_at)) as at:
        first = at.ask(pad="x" * 20)
        await at.waiting(1)
        async with at.post(pad="x" * 20) as refused:
            assert refused.status == 429
            assert refused.headers["Retry-After"] == "40"
            assert (await refused.json())["error"]["code"] == "waiting_room_full"
        first.cancel()
        await at.waiting(0)
        second = at.ask(pad="x" * 20)
        await at.waiting(1)
        second.cancel()
        await at.waiting(0)
        assert await at.metric('pilotlight_portal_requests_total{outcome="rejected_full",service="team-a/chat"} 1.0')
        assert await at.metric('pilotlight_portal_requests_total{outcome="client_gone",service="team-a/chat"} 2.0')
        assert await at.metric("pilotlight_portal_bytes_waiting 0.0")


async def test_the_limit_of_all_services_together(tmp_path: Path) -> None:
    limits = Limits(total_requests=1)
    async with house(tmp_path, route(), route("team-b/other"), limits=limits) as at:
        first = at.ask()
        await at.waiting(1)
        async with at.post(model="other") as refused:
            assert refused.status == 429
            assert "1 requests wait in all" in (await refused.json())["error"]["message"]
        first.cancel()
        await at.waiting(0)


async def test_a_wait_ends_with_its_time(tmp_path: Path) -> None:
    async with house(tmp_path, route(waiting=NO_WAIT, eta_at=NOW.replace(minute=1))) as at, at.post() as answer:
        assert answer.status == 503
        assert answer.headers["Retry-After"] == "60"
        assert (await answer.json())["error"]["code"] == "waiting_timed_out"


async def test_a_failed_start_answers_who_waits_at_once(tmp_path: Path) -> None:
    async with house(tmp_path, route()) as at:
        asked = at.ask(stream=True)
        await at.waiting(1)
        await at.controller.push(route(failure=failure("model.safetensors is missing"), retry_at=NOW.replace(second=9)))
        answer = await asked
        assert answer.status == 503, "before any heartbeat a failure keeps its status"
        assert answer.headers["Retry-After"] == "9"
        assert "model.safetensors is missing" in (await answer.json())["error"]["message"]
        assert await at.metric('pilotlight_portal_requests_total{outcome="failed",service="team-a/chat"} 1.0')


async def test_a_service_that_is_removed_answers_who_waits(tmp_path: Path) -> None:
    async with house(tmp_path, route()) as at:
        asked = at.ask()
        await at.waiting(1)
        await at.controller.push(removed=("team-a/chat",))
        assert (await asked).status == 404


async def test_a_client_that_leaves_while_it_streams_cancels_the_engines_request(tmp_path: Path) -> None:
    async def endless(request: aiohttp.web.Request) -> aiohttp.web.StreamResponse:
        response = aiohttp.web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first")
        await asyncio.Event().wait()
        return response

    async with engine(endless) as up, house(tmp_path, route("team-a/chat", up.url)) as at:
        answer = await at.ask(stream=True)
        assert await answer.content.readany() == b"first"
        await at.running(1)
        answer.close()
        await at.running(0)
        await until(lambda: up.cancelled == 1)
        assert await at.metric('pilotlight_portal_requests_total{outcome="client_gone",service="team-a/chat"} 1.0')


async def test_a_client_that_leaves_before_the_first_byte_cancels_too(tmp_path: Path) -> None:
    async def silent(_request: aiohttp.web.Request) -> aiohttp.web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError("never")

    async with engine(silent) as up, house(tmp_path, route("team-a/chat", up.url)) as at:
        asked = at.ask()
        await at.running(1)
        await until(lambda: bool(up.bodies))
        asked.cancel()
        await at.running(0)
        await until(lambda: up.cancelled == 1)
