"""The list of models, how a request names one, and what is refused."""

import asyncio
import io
from pathlib import Path

import aiohttp
import pytest

from tests.unit.portal.fakes import NOW, engine, house, route

TWINS = (
    route("team-a/twin", names=("team-a/twin",)),
    route("team-b/twin", names=("team-b/twin",)),
)


async def test_models_lists_services_at_zero_too(tmp_path: Path) -> None:
    async with house(tmp_path, route("team-a/chat", "http://127.0.0.1:1"), route("team-b/cold")) as at:
        async with at.client.get(f"{at.url}/v1/models") as answer:
            listed = await answer.json()
        assert listed["object"] == "list"
        assert [(each["id"], each["pilotlight"]["warmth"]) for each in listed["data"]] == [
            ("team-a/chat", "warm"),
            ("chat", "warm"),
            ("team-b/cold", "cold"),
            ("cold", "cold"),
        ]
        assert listed["data"][1] == {
            "id": "chat",
            "object": "model",
            "created": int(NOW.timestamp()),
            "owned_by": "pilotlight",
            "pilotlight": {"service": "team-a/chat", "warmth": "warm"},
        }
        async with at.client.get(f"{at.url}/team-b/cold/v1/models") as answer:
            assert [each["id"] for each in (await answer.json())["data"]] == ["team-b/cold", "cold"]


@pytest.mark.parametrize(
    ("name", "status"),
    [("chat", 200), ("team-a/chat", 200), ("team-a%2Fchat", 200), ("nobody", 404), ("twin", 404)],
)
async def test_one_model(tmp_path: Path, name: str, status: int) -> None:
    async with house(tmp_path, route(), *TWINS) as at, at.client.get(f"{at.url}/v1/models/{name}") as answer:
        assert answer.status == status


@pytest.mark.parametrize(
    ("path", "headers", "model"),
    [
        pytest.param("/v1/embeddings", {}, "team-a/chat", id="full name"),
        pytest.param("/v1/embeddings", {}, "chat", id="name"),
        pytest.param("/v1/embeddings", {"Host": "chat.team-a.local:8080"}, "whatever", id="Host"),
        pytest.param("/team-a/chat/v1/embeddings", {}, "whatever", id="path"),
        pytest.param("/team-a/chat/v1/embeddings", {"Host": "other.team-b.local"}, "other", id="path before Host"),
    ],
)
async def test_ways_to_name_a_service(tmp_path: Path, path: str, headers: dict[str, str], model: str) -> None:
    async with engine() as up, house(tmp_path, route("team-a/chat", up.url), route("team-b/other")) as at:
        async with at.client.post(at.url + path, json={"model": model}, headers=headers) as answer:
            assert answer.status == 200
        assert up.paths == ["/v1/embeddings"]


async def test_a_get_is_forwarded_by_path(tmp_path: Path) -> None:
    async with engine() as up, house(tmp_path, route("team-a/chat", up.url)) as at:
        async with at.client.get(f"{at.url}/team-a/chat/v1/responses/resp_1?stream=false") as answer:
            assert answer.status == 200
        assert up.paths == ["/v1/responses/resp_1?stream=false"]


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        pytest.param(b'{"model": "nobody"}', 404, "known are: team-a/chat, team-a/twin, team-b/twin", id="unknown"),
        pytest.param(b'{"model": "twin"}', 404, "write one of team-a/twin, team-b/twin", id="ambiguous"),
        pytest.param(b"{", 400, "not valid JSON", id="broken JSON"),
        pytest.param(b"\xff", 400, "not valid JSON", id="no text"),
        pytest.param(b"[" * 100_000, 400, "not valid JSON", id="too deep"),
        pytest.param(b"[]", 400, "must be a JSON object", id="no object"),
        pytest.param(b"{}", 400, "names no `model`", id="no model"),
        pytest.param(b"", 400, "names no `model`", id="no body"),
        pytest.param(b'{"model": 7}', 400, "names no `model`", id="a number for a model"),
    ],
)
async def test_bodies_that_name_no_service(tmp_path: Path, body: bytes, status: int, says: str) -> None:
    async with house(tmp_path, route(), *TWINS) as at:
        async with at.client.post(f"{at.url}/v1/chat/completions", data=body) as answer:
            error = (await answer.json())["error"]
            assert (answer.status, set(error)) == (status, {"message", "type", "code"})
            assert says in error["message"]
        assert await at.metric('pilotlight_portal_requests_total{outcome="invalid",service="other"} 1.0')


async def test_a_form_is_told_to_use_a_path(tmp_path: Path) -> None:
    async with house(tmp_path, route()) as at:
        form = aiohttp.FormData({"model": "chat", "file": io.BytesIO(b"abc")})
        async with at.client.post(f"{at.url}/v1/audio/transcriptions", data=form) as answer:
            assert answer.status == 400
            assert "/NAMESPACE/NAME/v1/" in (await answer.json())["error"]["message"]


@pytest.mark.parametrize(
    "path",
    ["/sleep", "/wake_up", "/collective_rpc", "/metrics", "/reset_prefix_cache", "/pause", "/team-a/chat/sleep", "/"],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_admin_routes_of_the_engine_are_never_reached(tmp_path: Path, method: str, path: str) -> None:
    async with engine() as up, house(tmp_path, route("team-a/chat", up.url)) as at:
        for host in ("localhost", "chat.team-a.local"):
            async with at.client.request(
                method, at.url + path, json={"model": "chat"}, headers={"Host": host}
            ) as answer:
                assert answer.status == 404
        assert not up.paths


async def test_paths_that_climb_are_refused(tmp_path: Path) -> None:
    async with engine() as up, house(tmp_path, route("team-a/chat", up.url)) as at:
        host, _, port = at.portal.listen.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))  # raw: clients would tidy the path
        writer.write(b"GET /v1/../sleep HTTP/1.1\r\nHost: chat.team-a.x\r\nConnection: close\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 404")
        writer.close()
        await writer.wait_closed()
        assert not up.paths


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_other_methods_are_refused(tmp_path: Path, method: str) -> None:
    async with house(tmp_path, route()) as at, at.client.request(method, f"{at.url}/v1/embeddings") as answer:
        assert answer.status == 405


async def test_before_any_table_nothing_is_called_unknown(tmp_path: Path) -> None:
    async with house(tmp_path, route()) as at:
        at.portal.door.table = type(at.portal.door.table)()
        async with at.post() as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")


@pytest.mark.parametrize(
    ("site", "status"), [("cross-site", 403), ("same-origin", 200), ("same-site", 200), ("none", 200)]
)
async def test_a_page_of_another_site_starts_nothing(tmp_path: Path, site: str, status: int) -> None:
    """A browser sends a page's form or fetch to loopback too, and says where it comes from."""
    async with engine() as up, house(tmp_path, route("team-a/chat", up.url)) as at:
        asked = at.client.post(
            f"{at.url}/v1/completions", data='{"model": "chat"}', headers={"Sec-Fetch-Site": site, "Origin": "http://e"}
        )
        async with asked as answer:
            assert answer.status == status
        assert len(up.bodies) == (status == 200)
