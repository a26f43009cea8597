"""Every path of the API over a fake controller: answers, refusals, the guard, the OpenAPI document."""

import hmac
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter

from activator_ext.app.api import build_api
from activator_ext.app.views import EventView, HoldView, PlanView, PreviewView, ServiceStatus
from runtime.contract import StartRecord
from tests.unit.app.fakes import NOW, FakeController, event, ready_start

TOKEN = "the-token"
GOOD = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def controller() -> FakeController:
    return FakeController()


@pytest.fixture
async def api(controller: FakeController) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(build_api(controller, TOKEN, "0.1.0"), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8081", headers=GOOD) as client:
        yield client


def read(kind: Any, response: httpx.Response) -> Any:
    assert response.status_code in (200, 201), response.text
    return TypeAdapter(kind).validate_json(response.content)


async def test_services(api: httpx.AsyncClient, controller: FakeController) -> None:
    assert read(list[ServiceStatus], await api.get("/v1/services")) == controller.services()
    one = read(ServiceStatus, await api.get("/v1/services/team-a/chat"))
    assert one == controller.statuses["team-a/chat"]


async def test_starts(api: httpx.AsyncClient, controller: FakeController) -> None:
    path = "/v1/services/team-a/chat/starts"
    assert read(list[StartRecord], await api.get(path)) == controller.records
    assert read(list[StartRecord], await api.get(path, params={"limit": 1})) == controller.records[:1]
    assert read(StartRecord, await api.get("/v1/starts/local-7")) == ready_start()


async def test_preview(api: httpx.AsyncClient) -> None:
    params = {"days": "7", "from": NOW.isoformat()}
    preview = read(PreviewView, await api.get("/v1/services/team-a/chat/preview", params=params))
    assert preview.from_ == NOW
    assert (preview.to - NOW).days == 7


async def test_plan(api: httpx.AsyncClient, controller: FakeController) -> None:
    assert read(PlanView, await api.get("/v1/plan")) == controller.plan()


async def test_a_hold_is_asked_for_listed_and_released(api: httpx.AsyncClient) -> None:
    body = {"service": "team-a/chat", "for_s": 3600, "reason": "demo"}
    response = await api.post("/v1/holds", json=body)
    assert response.status_code == 201
    hold = read(HoldView, response)
    assert read(list[HoldView], await api.get("/v1/holds")) == [hold]
    assert (await api.delete(f"/v1/holds/{hold.id}")).status_code == 204
    assert read(list[HoldView], await api.get("/v1/holds")) == []


async def test_the_same_idempotency_key_gives_the_same_hold(api: httpx.AsyncClient) -> None:
    body = {"service": "team-a/chat", "for_s": 3600}
    first, second = [await api.post("/v1/holds", json=body, headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert first.json() == second.json()
    assert len((await api.get("/v1/holds")).json()) == 1


async def test_events(api: httpx.AsyncClient, controller: FakeController) -> None:
    controller.happened = [event(seq) for seq in range(1, 6)]
    assert read(list[EventView], await api.get("/v1/events")) == controller.happened
    answer = await api.get("/v1/events", params={"after": 2, "limit": 2})
    assert [each.seq for each in read(list[EventView], answer)] == [3, 4]
    answer = await api.get("/v1/events", params={"after": -2})
    assert [each.seq for each in read(list[EventView], answer)] == [4, 5]


async def test_metrics_are_prometheus_text(api: httpx.AsyncClient) -> None:
    response = await api.get("/metrics")
    assert response.text == "pilotlight_portal_up 1.0\n"
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


async def test_health_and_readiness(api: httpx.AsyncClient, controller: FakeController) -> None:
    assert (await api.get("/healthz")).text == "ok\n"
    assert (await api.get("/readyz")).text == "ready\n"
    controller.missing = "the host does not answer"
    response = await api.get("/readyz")
    assert (response.status_code, response.text) == (503, "not ready: the host does not answer\n")
    assert (await api.get("/healthz")).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "code", "says"),
    [
        ("GET", "/v1/services/team-a/chatt", 404, "unknown-service", "there are: team-a/chat"),
        ("GET", "/v1/services/team-a/chatt/starts", 404, "unknown-service", "no service team-a/chatt"),
        ("GET", "/v1/services/team-a/chatt/preview", 404, "unknown-service", "no service team-a/chatt"),
        ("GET", "/v1/starts/none", 404, "not-found", "/v1/services/{ns}/{name}/starts lists them"),
        ("DELETE", "/v1/holds/none", 404, "not-found", "GET /v1/holds lists them"),
        ("GET", "/v2/services", 404, "no-such-path", "/docs lists the paths"),
        ("PUT", "/v1/holds", 405, "no-such-method", "/v1/holds does not take PUT"),
        ("GET", "/v1/services/team-a/chat/starts?limit=0", 422, "invalid-field", "query.limit: Input should be"),
        ("GET", "/v1/services/team-a/chat/preview?days=-1", 422, "invalid-field", "query.days"),
        ("GET", "/v1/services/team-a/chat/preview?from=2026-12-01T09:00", 422, "invalid-field", "add the offset"),
        ("GET", "/v1/events?after=x", 422, "invalid-field", "query.after"),
    ],
)
async def test_refusals(api: httpx.AsyncClient, method: str, path: str, status: int, code: str, says: str) -> None:
    response = await api.request(method, path)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (status, code)
    assert says in error["message"]


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        pytest.param({"service": "team-a/no", "for_s": 1}, 404, "no service team-a/no", id="unknown service"),
        pytest.param({"service": "team-a/chat", "for_s": 1, "replicas": 9}, 400, "raise bounds.max", id="too many"),
        pytest.param({"service": "team-a/chat"}, 422, "body.for_s: Field required (add it)", id="missing"),
        pytest.param(
            {"service": "team-a/chat", "for_s": -5},
            422,
            "body.for_s: Input should be greater than 0, got -5",
            id="sign",
        ),
        pytest.param(
            {"service": "team-a/chat", "for_s": 1, "for": 2},
            422,
            "no such field; write some of service, for_s",
            id="extra",
        ),
        pytest.param(
            {"service": "team-a/chat", "for_s": 1, "ready_by": "2026-12-01T09:00"}, 422, "add the offset", id="naive"
        ),
    ],
)
async def test_holds_that_are_refused(api: httpx.AsyncClient, body: object, status: int, says: str) -> None:
    response = await api.post("/v1/holds", json=body)
    assert response.status_code == status
    assert says in response.json()["error"]["message"]


async def test_a_body_that_is_no_json_is_refused(api: httpx.AsyncClient) -> None:
    response = await api.post("/v1/holds", content=b"{", headers={"Content-Type": "application/json"})
    assert response.status_code == 422
    assert "send one JSON object" in response.json()["error"]["message"]


async def test_an_unforeseen_error_has_the_same_shape_and_tells_no_secret(
    api: httpx.AsyncClient, controller: FakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(controller, "plan", broken)
    response = await api.get("/v1/plan")
    assert response.status_code == 500
    assert response.json()["error"]["code"] == "internal"
    assert "hunter2" not in response.text


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", "Bearer other", "bearer the-tokenx", "Basic the-token", "the-token", "Bearer é"],
)
@pytest.mark.parametrize("path", ["/v1/services", "/metrics", "/v1/routes", "/nothing"])
async def test_without_the_token_nothing_is_told(api: httpx.AsyncClient, path: str, header: str | None) -> None:
    del api.headers["Authorization"]
    headers = [] if header is None else [(b"Authorization", header.encode("latin-1"))]
    response = await api.get(path, headers=headers)
    assert (response.status_code, response.json()["error"]["code"]) == (401, "no-token")
    assert response.headers["www-authenticate"] == "Bearer"
    assert "state directory" in response.json()["error"]["message"]


async def test_a_token_is_compared_in_constant_time(api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    real = hmac.compare_digest

    def noted(given: bytes, known: bytes) -> bool:
        compared.append((given, known))
        return real(given, known)

    monkeypatch.setattr(hmac, "compare_digest", noted)
    for given in ("the-tokem", "x"):
        assert (await api.get("/v1/services", headers={"Authorization": f"Bearer {given}"})).status_code == 401
    assert compared == [(b"the-tokem", TOKEN.encode()), (b"x", TOKEN.encode())]


async def test_two_authorization_headers_are_refused(api: httpx.AsyncClient) -> None:
    headers = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer other")]
    del api.headers["Authorization"]
    assert (await api.get("/v1/services", headers=headers)).status_code == 401


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/docs", "/openapi.json"])
async def test_open_paths_want_no_token(api: httpx.AsyncClient, path: str) -> None:
    del api.headers["Authorization"]
    assert (await api.get(path)).status_code == 200


async def test_the_scheme_is_read_in_any_case(api: httpx.AsyncClient) -> None:
    assert (await api.get("/v1/services", headers={"Authorization": f"bearer {TOKEN}"})).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8081", 200),
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("[::1]:8081", 200),
        ("evil.example", 403),
        ("evil.example:8081", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost@evil.example", 403),
        ("", 403),
    ],
)
@pytest.mark.parametrize("path", ["/healthz", "/v1/services"])
async def test_only_loopback_names_are_answered(api: httpx.AsyncClient, path: str, host: str, status: int) -> None:
    assert (await api.get(path, headers={"Host": host})).status_code == status


async def test_other_names_are_answered_when_told(controller: FakeController) -> None:
    transport = httpx.ASGITransport(build_api(controller, TOKEN, "0.1.0", hosts=("pilotlight.internal",)))
    async with httpx.AsyncClient(transport=transport, base_url="http://pilotlight.internal") as client:
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/healthz", headers={"Host": "localhost"})).status_code == 403


def test_an_empty_token_is_refused(controller: FakeController) -> None:
    with pytest.raises(ValueError, match="empty token"):
        build_api(controller, "", "0.1.0")


async def test_the_openapi_document_names_every_path_and_resolves(api: httpx.AsyncClient) -> None:
    document = (await api.get("/openapi.json")).json()
    assert document["info"]["version"] == "0.1.0"
    assert {(method, path) for path, methods in document["paths"].items() for method in methods} == {
        ("get", "/v1/services"),
        ("get", "/v1/services/{ns}/{name}"),
        ("get", "/v1/services/{ns}/{name}/starts"),
        ("get", "/v1/services/{ns}/{name}/preview"),
        ("get", "/v1/starts/{start_id}"),
        ("get", "/v1/holds"),
        ("post", "/v1/holds"),
        ("delete", "/v1/holds/{hold_id}"),
        ("get", "/v1/plan"),
        ("get", "/v1/events"),
        ("get", "/metrics"),
        ("get", "/healthz"),
        ("get", "/readyz"),
    }
    schemas = document["components"]["schemas"]
    references = {part.split('"')[0] for part in json.dumps(document).split("#/components/schemas/")[1:]}
    assert references <= set(schemas)
    assert "HTTPValidationError" not in schemas
    guarded = document["paths"]["/v1/plan"]["get"]
    assert guarded["security"] == [{"HTTPBearer": []}]
    assert {"401", "403", "422"} <= set(guarded["responses"])


async def test_the_docs_page_shows_every_path_and_loads_nothing(api: httpx.AsyncClient) -> None:
    page = await api.get("/docs")
    document = (await api.get("/openapi.json")).json()
    for path in document["paths"]:
        assert f"<code>{path}</code>" in page.text
    for schema in document["components"]["schemas"]:
        assert f'id="{schema}"' in page.text
    for loading in ("<script", "src=", "<link", "http://", "https://", "@import", "url("):
        assert loading not in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
