from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from activator_ext.adapters.kubernetes import client as client_module
from activator_ext.adapters.kubernetes.client import APPLY_PATCH, Client
from activator_ext.adapters.kubernetes.faults import NoCluster, Refused, Unreachable
from activator_ext.adapters.kubernetes.resource import PODS, REVISIONS, Key
from tests.unit.adapters.kubernetes.api_server import ApiServer, api_server

POD = PODS.path("team-a", "chat")


@asynccontextmanager
async def connected(tmp_path: Path) -> AsyncIterator[tuple[ApiServer, Client]]:
    async with api_server() as server, await Client.connect(server.kubeconfig(tmp_path)) as client:
        yield server, client


def test_paths() -> None:
    assert POD == "/api/v1/namespaces/team-a/pods/chat"
    assert REVISIONS.path() == "/apis/serving.knative.dev/v1/revisions"
    assert REVISIONS.path("a b", "x/y", "status") == (
        "/apis/serving.knative.dev/v1/namespaces/a%20b/revisions/x%2Fy/status"
    )
    assert str(REVISIONS) == "revisions.serving.knative.dev"
    assert (str(Key("", "node-1")), str(Key("team-a", "chat"))) == ("node-1", "team-a/chat")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "is no file"),
        ("", "kubeconfig"),
        ("- a\n- list\n", "kubeconfig"),
        ("current-context: nowhere\ncontexts: []\nclusters: []\nusers: []\n", "nowhere"),
        ("{", "kubeconfig"),
    ],
)
async def test_what_is_no_kubeconfig_is_told_with_the_fix(tmp_path: Path, content: str | None, said: str) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content)
    with pytest.raises(NoCluster) as fault:
        await Client.connect(path)
    assert said in str(fault.value)
    assert "set KUBECONFIG to a kubeconfig file, or run in a pod" in str(fault.value)


async def test_without_any_the_places_looked_at_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(NoCluster, match=r"KUBECONFIG is not set, this is no pod, and there is no .*/\.kube/config"):
        await Client.connect()


async def test_the_credential_is_sent_and_never_told(tmp_path: Path) -> None:
    async with connected(tmp_path) as (server, client):
        seen = []

        async def refuse(request: web.Request) -> web.StreamResponse:
            seen.append(request.headers["Authorization"])
            return web.json_response(
                {"kind": "Status", "reason": "Forbidden", "message": "User cannot get pods", "code": 403}, status=403
            )

        server.faults = [refuse]
        with pytest.raises(Refused) as fault:
            await client.get(POD)
        assert seen == ["Bearer secret-1"]
        assert str(fault.value) == (
            f"GET {POD}: 403 Forbidden: User cannot get pods (grant it: the roles of manifests/ name all that is used)"
        )


async def test_an_expired_credential_is_read_anew_once(tmp_path: Path) -> None:
    async with connected(tmp_path) as (server, client):
        path = server.kubeconfig(tmp_path)
        renewed = yaml.safe_load(path.read_text())
        renewed["users"][0]["user"]["token"] = "secret-2"
        path.write_text(yaml.safe_dump(renewed))

        async def expired(request: web.Request) -> web.StreamResponse:
            if request.headers["Authorization"] == "Bearer secret-2":
                return web.json_response({"metadata": {"name": "chat"}})
            return web.json_response({"reason": "Unauthorized"}, status=401)

        server.faults = [expired, expired]
        assert await client.get(POD) == {"metadata": {"name": "chat"}}
        server.faults = [_answer(401, b"no"), _answer(401, b"no")]
        with pytest.raises(Refused, match="its credential is not taken"):
            await client.get(POD)


def _answer(status: int, body: bytes, **headers: str):  # type: ignore[no-untyped-def]  # a handler of aiohttp's
    async def handle(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, body=body, headers=headers)

    return handle


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"", b"\xff\xfe", b"null"])
async def test_an_answer_that_is_no_object_is_told(tmp_path: Path, body: bytes) -> None:
    async with connected(tmp_path) as (server, client):
        server.faults = [_answer(200, body)]
        with pytest.raises(Unreachable, match=f"GET {POD}: what came is no"):
            await client.get(POD)


@pytest.mark.parametrize("body", [b"<html>bad gateway</html>", b"[1]", b"", b"\xff"])
async def test_a_proxys_error_is_an_error(tmp_path: Path, body: bytes) -> None:
    async with connected(tmp_path) as (server, client):
        server.faults = [_answer(502, body)]
        with pytest.raises(Refused, match=f"GET {POD}: 502 Error") as fault:
            await client.get(POD)
        assert not fault.value.gone
        assert not fault.value.missing
        assert not fault.value.conflict


async def test_an_answer_without_end_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "MOST_BYTES", 1000)
    async with connected(tmp_path) as (server, client):
        server.faults = [_answer(200, b'{"a": "' + b"x" * 2000 + b'"}')]
        with pytest.raises(Unreachable, match="an answer of more than 1000 bytes"):
            await client.get(POD)


async def test_nobody_there_is_told_with_the_server(tmp_path: Path) -> None:
    async with api_server() as server:
        path = server.kubeconfig(tmp_path)
    async with await Client.connect(path) as client:
        with pytest.raises(Unreachable, match=f"GET {POD} at {server.url}"):
            await client.get(POD)


async def test_what_is_sent_and_how_it_is_counted(tmp_path: Path) -> None:
    async with connected(tmp_path) as (server, client):
        seen = []

        async def take(request: web.Request) -> web.StreamResponse:
            seen.append((request.method, request.content_type, request.query_string, await request.text()))
            return web.json_response({"kind": "Revision", "metadata": {}})

        server.faults = [take] * 4
        params = {"fieldManager": "pilotlight"}
        await client.send("PATCH", REVISIONS.path("a", "b"), {"x": 1}, content_type=APPLY_PATCH, params=params)
        await client.send("POST", REVISIONS.path("a"), {})
        await client.send("DELETE", REVISIONS.path("a", "b"))
        await client.get("/version")
        assert seen[0] == ("PATCH", APPLY_PATCH, "fieldManager=pilotlight", '{"x": 1}')
        assert client.requests == {"PATCH revisions": 1, "POST revisions": 1, "DELETE revisions": 1, "GET /version": 1}
