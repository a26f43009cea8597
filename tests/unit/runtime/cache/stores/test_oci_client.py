"""Requests to a registry: what is tried again, how long, and what is not."""

import json
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from runtime.cache.stores.base import StoreCause, StoreFault
from runtime.cache.stores.oci_client import MOST_JSON_BYTES, RegistryClient
from runtime.cache.stores.patience import Patience

Answer = Callable[[httpx.Request], httpx.Response]


class Arriving(httpx.AsyncByteStream):
    """A body that has still to be read, as from a socket."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body


class Asked:
    """A client whose answers a test gives, and how long it waited between tries."""

    def __init__(self, answer: Answer, origin: str = "https://r.example") -> None:
        self.waits: list[float] = []
        self.requests: list[httpx.Request] = []

        def handle(request: httpx.Request) -> httpx.Response:
            self.requests.append(request)
            given = answer(request)
            return httpx.Response(given.status_code, headers=given.headers, stream=Arriving(given.content))

        async def sleep(seconds: float) -> None:
            self.waits.append(seconds)

        self.client = RegistryClient(origin, "a/b", Patience(), sleep=sleep)
        self.client._http = httpx.AsyncClient(transport=httpx.MockTransport(handle), follow_redirects=True)


async def ask(asked: Asked) -> httpx.Response:
    return await asked.client.ask("GET", asked.client.url("x"), accept=(200,))


async def fault(asked: Asked) -> StoreFault:
    with pytest.raises(StoreFault) as caught:
        await ask(asked)
    return caught.value


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_a_server_in_trouble_is_asked_again_more_and_more_slowly(status: int) -> None:
    answers = iter([status, status, 200])
    asked = Asked(lambda request: httpx.Response(next(answers)))
    assert (await ask(asked)).status_code == 200
    assert asked.waits == [0.2, 0.4]


async def test_not_for_ever() -> None:
    asked = Asked(lambda request: httpx.Response(503))
    assert (await fault(asked)).cause is StoreCause.UNREACHABLE
    assert len(asked.requests) == 4


@pytest.mark.parametrize(
    ("header", "waits"),
    [("1", [1.0, 1.0, 1.0]), ("600", []), ("-1", []), ("nan", []), ("Wed, 21 Oct 2026 07:28:00 GMT", [0.2, 0.4, 0.8])],
)
async def test_it_may_say_when_but_not_too_late(header: str, waits: list[float]) -> None:
    asked = Asked(lambda request: httpx.Response(503, headers={"Retry-After": header}))
    await fault(asked)
    assert asked.waits == waits


async def test_a_connection_that_breaks_is_tried_again() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("reset")

    asked = Asked(answer)
    assert (await fault(asked)).cause is StoreCause.UNREACHABLE
    assert len(asked.requests) == 4


async def test_a_stall_is_not() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("")

    asked = Asked(answer)
    assert (await fault(asked)).cause is StoreCause.STALLED
    assert len(asked.requests) == 1


@pytest.mark.parametrize(
    ("status", "code", "cause"),
    [
        (401, "UNAUTHORIZED", StoreCause.DENIED),
        (403, "DENIED", StoreCause.DENIED),
        (404, "MANIFEST_UNKNOWN", StoreCause.ABSENT),
        (405, "UNSUPPORTED", StoreCause.DENIED),
        (413, "SIZE_INVALID", StoreCause.FULL),
        (403, "QUOTA", StoreCause.DENIED),
        (507, "", StoreCause.FULL),
        (400, "DIGEST_INVALID", StoreCause.CORRUPT),
        (400, "NAME_INVALID", StoreCause.UNREACHABLE),
    ],
)
async def test_what_an_answer_means_is_said_in_the_registrys_words(status: int, code: str, cause: StoreCause) -> None:
    body = json.dumps({"errors": [{"code": code, "message": "why"}]})
    found = await fault(Asked(lambda request: httpx.Response(status, text=body)))
    assert found.cause is cause
    assert f"GET answered {status}: {code} why".replace(":  ", ": ") in str(found)


async def test_an_answer_without_end_is_refused() -> None:
    asked = Asked(lambda request: httpx.Response(200, content=b"x" * (MOST_JSON_BYTES + 1)))
    assert (await fault(asked)).cause is StoreCause.CORRUPT


async def test_a_registry_that_knows_no_ranges_is_read_from_the_start() -> None:
    asked = Asked(lambda request: httpx.Response(200, content=b"0123456789"))
    assert b"".join([chunk async for chunk in asked.client.read("https://r.example/x", 4)]) == b"456789"
    assert asked.requests[0].headers["range"] == "bytes=4-"


@pytest.mark.parametrize("realm", ["http://auth.example/token", "", "ftp://x/"])
async def test_no_password_goes_where_others_can_read_it(realm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_AUTH_FILE", "/nonexistent")
    header = f'Bearer realm="{realm}",service="r"'
    asked = Asked(lambda request: httpx.Response(401, headers={"WWW-Authenticate": header}))
    found = await fault(asked)
    assert found.cause is StoreCause.DENIED
    assert [request.url.host for request in asked.requests] == ["r.example"]


async def test_a_login_does_not_follow_to_another_host() -> None:
    """Blobs often live in an object store, to which the registry sends with a signed URL."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "r.example":
            return httpx.Response(307, headers={"Location": "https://blobs.example/1?signature=x"})
        return httpx.Response(200)

    asked = Asked(answer)
    asked.client._authorization = "Bearer token"
    await ask(asked)
    assert [("authorization" in request.headers) for request in asked.requests] == [True, False]
