"""Answers handed on as they come, headers, retries, and ends in the middle."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from activator_ext.portal.limits import Limits
from tests.unit.portal.fakes import Handler, breaks_off, engine, house, route, until


async def test_each_piece_arrives_before_the_next_is_sent(tmp_path: Path) -> None:
    seen = asyncio.Queue[bytes]()

    async def step_by_step(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for n in range(5):
            await response.write(b"data: %d\n\n" % n)
            assert await seen.get() == b"data: %d\n\n" % n
        return response

    async with engine(step_by_step) as up, house(tmp_path, route("team-a/chat", up.url)) as at:
        answer = await at.ask(stream=True)
        async for piece in answer.content.iter_any():
            seen.put_nowait(piece)
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert answer.headers["x-pilotlight-waited-ms"] == "0"


async def test_a_slow_client_slows_the_engine(tmp_path: Path) -> None:
    sent = 0

    async def flood(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(640):
            await response.write(b"x" * 100_000)
            sent += 100_000
        return response

    async with engine(flood) as up, house(tmp_path, route("team-a/chat", up.url)) as at:
        answer = await at.ask()
        before = -1
        while before != sent:  # nobody reads: the engine comes to a standstill
            before = sent
            await asyncio.sleep(0.05)
        assert sent < 48_000_000, "buffers on the way, not the whole answer"
        assert len(await answer.read()) == 64_000_000


async def test_headers_are_end_to_end(tmp_path: Path) -> None:
    async def answer_with_headers(_request: web.Request) -> web.Response:
        headers = [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("X-Mine", "yes"), ("Keep-Alive", "timeout=9")]
        return web.Response(body=b"ok", headers=headers)

    async with engine(answer_with_headers) as up, house(tmp_path, route("team-a/chat", up.url)) as at:
        headers = {"Authorization": "Bearer k", "Connection": "x-secret", "x-secret": "1", "TE": "trailers"}
        async with at.client.post(
            URL(f"{at.url}/v1/completions?a=%2F&b", encoded=True), json={"model": "chat"}, headers=headers
        ) as answer:
            assert answer.headers.getall("Set-Cookie") == ["a=1", "b=2"]
            assert (answer.headers["X-Mine"], answer.headers["Content-Length"]) == ("yes", "2")
            assert "Keep-Alive" not in answer.headers
        assert up.paths == ["/v1/completions?a=%2F&b"]
        got = {name.lower(): value for name, value in up.headers[0].items()}
        assert got["authorization"] == "Bearer k"
        assert not {"x-secret", "te"} & set(got)
        assert got["host"] == up.url.removeprefix("http://")
        assert json.loads(up.bodies[0]) == {"model": "chat"}


@pytest.mark.parametrize("given", ["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None])
async def test_a_trace_of_the_client_stays_and_a_missing_one_is_begun(tmp_path: Path, given: str | None) -> None:
    async with engine() as up, house(tmp_path, route("team-a/chat", up.url)) as at:
        headers = {"traceparent": given} if given else {}
        for _ in range(2):
            async with at.client.post(f"{at.url}/v1/completions", json={"model": "chat"}, headers=headers):
                pass
        first, second = (each["traceparent"] for each in up.headers)
        assert (first == given) if given else (first != second and len(first) == 55)


async def test_the_engines_own_errors_pass_as_they_are(tmp_path: Path) -> None:
    async def refuses(_request: web.Request) -> web.Response:
        return web.json_response({"error": {"message": "too long"}}, status=400)

    async with engine(refuses) as up, house(tmp_path, route("team-a/chat", up.url)) as at, at.post() as answer:
        assert (answer.status, await answer.json()) == (400, {"error": {"message": "too long"}})


@pytest.mark.parametrize(
    "dies",
    [pytest.param(breaks_off(), id="before headers"), pytest.param(None, id="connection refused")],
)
async def test_an_engine_lost_before_its_first_byte_is_made_good_elsewhere(
    tmp_path: Path, dies: Handler | None
) -> None:
    async with engine(dies) as lost, engine() as good:
        urls = (lost.url if dies else "http://127.0.0.1:1", good.url)
        async with house(tmp_path, route("team-a/chat", *urls)) as at, at.post(q="keep") as answer:
            assert answer.status == 200
            assert answer.headers["x-pilotlight-replica"] == "team-a/chat/1"
            assert len(lost.bodies) == (1 if dies else 0)
            assert json.loads(good.bodies[0]) == {"model": "chat", "q": "keep"}
            assert await at.metric('pilotlight_portal_requests_total{outcome="retried",service="team-a/chat"} 1.0')
            await at.running(0)


async def test_the_only_engine_is_tried_once_more_after_a_grace(tmp_path: Path) -> None:
    async with engine(breaks_off()) as lost:
        limits = Limits(retry_grace_s=0.0)
        async with house(tmp_path, route("team-a/chat", lost.url), limits=limits) as at, at.post() as answer:
            assert answer.status == 502
            assert (await answer.json())["error"]["code"] == "engine_lost"
            assert len(lost.bodies) == 2
            await at.running(0)


async def test_a_retry_waits_for_the_next_engine_when_there_is_none(tmp_path: Path) -> None:
    async with engine(breaks_off()) as lost, engine() as next_one:
        limits = Limits(retry_grace_s=3600)
        async with house(tmp_path, route("team-a/chat", lost.url), limits=limits) as at:
            asked = at.ask()
            await at.waiting(1)
            await at.controller.push(route())
            await at.controller.push(route("team-a/chat", next_one.url))
            assert (await asked).status == 200


async def test_engines_that_all_take_no_connection_are_waited_for(tmp_path: Path) -> None:
    """A dead host's engines stay in the table for a moment; a request that reached none of them has lost nothing."""
    async with engine() as next_one, house(tmp_path, route("team-a/chat", *["http://127.0.0.1:1"] * 3)) as at:
        asked = at.ask()
        await at.waiting(1)
        await at.controller.push(route("team-a/chat", next_one.url))
        assert (await asked).status == 200


@pytest.mark.parametrize(("leaves", "status"), [(True, 200), (False, 503)])
async def test_an_engines_503_is_retried_only_if_it_left_the_table(tmp_path: Path, leaves: bool, status: int) -> None:
    reached, go = asyncio.Event(), asyncio.Event()

    async def shutting_down(_request: web.Request) -> web.Response:
        reached.set()
        await go.wait()
        return web.json_response({"error": {"message": "shutting down"}}, status=503)

    async with engine(shutting_down) as old, engine() as new, house(tmp_path, route("team-a/chat", old.url)) as at:
        asked = at.ask()
        await reached.wait()
        if leaves:
            await at.controller.push(route("team-a/chat", new.url))
            await until(lambda: at.portal.door.table.version == at.controller.version)
        go.set()
        assert (await asked).status == status


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_break_in_the_middle_is_a_break_for_the_client(tmp_path: Path, streaming: bool) -> None:
    async with (
        engine(breaks_off(after=b"data: half\n\n")) as up,
        engine() as other,
        house(tmp_path, route("team-a/chat", up.url, other.url)) as at,
    ):
        answer = await at.ask(stream=streaming)
        assert answer.status == 200
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()
        await at.running(0)
        assert not other.bodies, "after the first byte nothing is retried"
        assert await at.metric('pilotlight_portal_requests_total{outcome="upstream_error",service="team-a/chat"} 1.0')


async def test_a_stream_outlives_its_endpoints_place_in_the_table(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def long(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"begin ")
        await go.wait()
        await response.write(b"end")
        return response

    async with engine(long) as up, house(tmp_path, route("team-a/chat", up.url)) as at:
        answer = await at.ask(stream=True)
        assert await answer.content.readany() == b"begin "
        await at.controller.push(route())
        await until(lambda: not at.portal.door.table.routes["team-a/chat"].endpoints)
        waits = at.ask()
        await at.waiting(1)  # new requests wait, the running one goes on
        await at.controller.push(removed=("team-a/chat",))
        assert (await waits).status == 404
        go.set()
        assert await answer.read() == b"end"
        await at.running(0)


@pytest.mark.parametrize("by", ["length", "chunks"])
async def test_a_large_body_goes_by_path_or_host_and_is_streamed(tmp_path: Path, by: str) -> None:
    body = json.dumps({"model": "chat", "pad": "x" * 9 * 2**20}).encode()

    async def pieces() -> AsyncIterator[bytes]:
        yield body

    async with engine() as up, house(tmp_path, route("team-a/chat", up.url)) as at:
        for path, headers, status in (
            ("/v1/chat/completions", {}, 413),
            ("/team-a/chat/v1/chat/completions", {}, 200),
            ("/v1/chat/completions", {"Host": "chat.team-a.example.com"}, 200),
        ):
            data = io.BytesIO(body) if by == "length" else pieces()
            async with at.client.post(at.url + path, data=data, headers=headers) as answer:
                assert answer.status == status
                if status == 413:
                    assert "/NAMESPACE/NAME/v1/" in (await answer.json())["error"]["message"]
        assert [len(each) for each in up.bodies] == [len(body)] * 2
        assert up.paths == ["/v1/chat/completions"] * 2


async def test_a_kept_body_of_several_pieces_arrives_whole_at_the_second_engine(tmp_path: Path) -> None:
    body = json.dumps({"model": "chat", "pad": "0123456789" * 300_000}).encode()
    async with (
        engine(breaks_off()) as lost,
        engine() as good,
        house(tmp_path, route("team-a/chat", lost.url, good.url)) as at,
    ):
        async with at.client.post(f"{at.url}/v1/completions", data=io.BytesIO(body)) as answer:
            assert answer.status == 200
        assert (lost.bodies, good.bodies) == ([body], [body])


async def test_a_large_body_is_never_retried(tmp_path: Path) -> None:
    async with engine() as good, house(tmp_path, route("team-a/chat", "http://127.0.0.1:1", good.url)) as at:
        path = "/team-a/chat/v1/chat/completions"
        async with at.client.post(at.url + path, data=io.BytesIO(b"x" * 9 * 2**20)) as answer:
            assert answer.status == 502
        assert not good.bodies


@pytest.mark.parametrize(
    ("path", "size", "lines"),
    [
        pytest.param("/v1/completions", 100, [b"HTTP/1.1 100 Continue", b"HTTP/1.1 200 OK"], id="kept"),
        pytest.param(
            "/team-a/chat/v1/completions", 9 * 2**20, [b"HTTP/1.1 100 Continue", b"HTTP/1.1 200 OK"], id="streamed"
        ),
        pytest.param("/v1/completions", 9 * 2**20, [b"HTTP/1.1 413 Request Entity Too Large"], id="refused unsent"),
    ],
)
async def test_a_client_that_asks_before_it_sends(tmp_path: Path, path: str, size: int, lines: list[bytes]) -> None:
    body = b'{"model": "chat", "pad": "' + b"x" * size + b'"}'
    async with engine() as up, house(tmp_path, route("team-a/chat", up.url)) as at:
        host, _, port = at.portal.listen.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"
        writer.write(head.encode())
        assert (await reader.readline()).strip() == lines[0]
        if len(lines) == 2:
            assert await reader.readline() == b"\r\n"
            writer.write(body)
            assert (await reader.readline()).strip() == lines[1]
            assert up.bodies == [body]
        writer.close()
        await writer.wait_closed()


async def test_a_compressed_body_is_read_and_sent_on_plain(tmp_path: Path) -> None:
    async with engine() as up, house(tmp_path, route("team-a/chat", up.url)) as at:
        data = json.dumps({"model": "chat", "pad": "x" * 1000})
        async with at.client.post(f"{at.url}/v1/completions", data=data, compress="gzip") as answer:
            assert answer.status == 200
        assert up.bodies == [data.encode()]
        assert "Content-Encoding" not in up.headers[0]
