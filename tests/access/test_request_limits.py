"""How much may be asked of the API at once, over true connections: sizes, depth, slowness."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator

import httpx
import pytest

from activator_ext.app.api import build_api
from activator_ext.app.api.connection import MAX_HEAD_BYTES, ApiConnection
from activator_ext.app.api.limits import MAX_BODY_BYTES, MAX_TARGET_BYTES, Limits
from activator_ext.app.servers import Server, address_of, bind_tcp
from tests.access.test_token import token, url
from tests.serving import Up
from tests.unit.app.fakes import FakeController


def post(up: Up, content: bytes, **headers: str) -> httpx.Response:
    known = {"Authorization": f"Bearer {token(up)}", "Content-Type": "application/json"} | headers
    return httpx.post(url(up) + "/v1/holds", content=content, headers=known, timeout=30)


def code(answer: httpx.Response) -> str:
    return str(answer.json()["error"]["code"])


@pytest.mark.parametrize(
    ("content", "status", "says"),
    [
        pytest.param(b"{" + b" " * MAX_BODY_BYTES + b"}", 413, "body-too-large", id="a byte too many"),
        pytest.param(b"[" * 60_000, 400, "invalid-body", id="deep lists"),
        pytest.param(b'{"a":' * 12_000, 400, "invalid-body", id="deep objects"),
        pytest.param(b'{"service": "' + b"x" * 60_000 + b'", "for_s": 1}', 422, "invalid-field", id="a long name"),
        pytest.param(
            b'{"service": "test/chat", "for_s": 1' + b"0" * 6_000 + b"}", 400, "invalid-body", id="a huge number"
        ),
        pytest.param(b'{"service": "test/chat", "for_s": 1e999}', 422, "invalid-field", id="infinity"),
        pytest.param(b'{"service": "test/chat", "for_s": NaN}', 422, "invalid-field", id="no number"),
        pytest.param(b'{"service": "test/chat", "for_s": true}', 422, "invalid-field", id="a truth"),
        pytest.param(b'{"service": "test/chat\\u0000", "for_s": 1}', 404, "unknown-service", id="NUL"),
        pytest.param(b'{"service": "test/\\ud800", "for_s": 1}', 422, "invalid-field", id="half a surrogate"),
        pytest.param(b'{"service": "test/\xff\xfe", "for_s": 1}', 400, "invalid-body", id="no UTF-8"),
        pytest.param(
            b'\xef\xbb\xbf{"service": "test/chat", "for_s": 0.001, "replicas": 9}', 400, "invalid-request", id="BOM"
        ),
        pytest.param(b"", 422, "invalid-field", id="nothing"),
        pytest.param(b"null", 422, "invalid-field", id="null"),
    ],
)
def test_bodies_that_are_refused(up: Up, content: bytes, status: int, says: str) -> None:
    answer = post(up, content)
    assert (answer.status_code, code(answer)) == (status, says), answer.text[:500]
    assert len(answer.content) < 2000, "a refusal names what it refuses, it is no copy of it"


def test_a_body_is_counted_where_its_length_is_not_announced(up: Up) -> None:
    pieces = (b" " * 4096 for _ in range(40))
    headers = {"Authorization": f"Bearer {token(up)}", "Content-Type": "application/json"}
    answer = httpx.post(url(up) + "/v1/holds", content=pieces, headers=headers)
    assert (answer.status_code, code(answer)) == (413, "body-too-large")


def test_targets_and_heads_that_are_too_long(up: Up) -> None:
    headers = {"Authorization": f"Bearer {token(up)}"}
    answer = httpx.get(url(up) + "/v1/events?after=" + "0" * MAX_TARGET_BYTES, headers=headers)
    assert (answer.status_code, code(answer)) == (414, "target-too-long")
    with contextlib.suppress(httpx.ReadError, httpx.WriteError):  # closed while it still sends: refused just as well
        answer = httpx.get(url(up) + "/v1/services", headers=headers | {"X-Filler": "x" * 20 * MAX_HEAD_BYTES})
        assert answer.status_code in (400, 431)
    assert up.api("GET", "/v1/services").status_code == 200


@pytest.mark.parametrize("query", ["limit=1&limit=1", "limit=x&limit=1", "limit&limit=1", "a=1&limit=1&a=2", "&&l=&l"])
def test_a_parameter_that_is_given_twice_is_refused(up: Up, query: str) -> None:
    answer = up.api("GET", f"/v1/events?{query}")
    assert (answer.status_code, code(answer)) == (422, "invalid-field")
    assert "is given more than once" in answer.json()["error"]["message"]


@pytest.fixture
async def slow() -> AsyncIterator[str]:
    """An API whose patience is a twentieth of a second."""
    patience = pytest.MonkeyPatch()
    patience.setattr(ApiConnection, "head_s", 0.05)
    patience.setattr(Limits.__init__, "__kwdefaults__", {"body_s": 0.05})
    bound = bind_tcp("127.0.0.1:0", "--api-listen")
    server = Server(build_api(FakeController(), "t" * 32, "0"), bound)
    await server.begin()
    yield address_of(bound)
    await server.end()
    patience.undo()


async def said(address: str, *parts: bytes) -> bytes:
    """All that is answered until the connection is closed, to parts that are sent at once and are never whole."""
    host, port = address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.writelines(parts)
        async with asyncio.timeout(20):
            return await reader.read()
    finally:
        writer.close()


HEAD = b"POST /v1/holds HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + b"t" * 32 + b"\r\n"


async def test_who_says_nothing_or_half_a_head_is_not_waited_for(slow: str) -> None:
    assert await said(slow) == b""
    assert await said(slow, HEAD) == b""
    whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = await said(slow, whole, HEAD)
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.count(b"HTTP/1.1") == 1


async def test_a_body_that_does_not_come_is_not_waited_for(slow: str) -> None:
    answer = await said(slow, HEAD, b"Content-Type: application/json\r\nContent-Length: 30\r\n\r\n{")
    assert answer.startswith(b"HTTP/1.1 408")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "body-too-slow"


def test_two_hundred_idle_connections_do_not_keep_others_out(up: Up) -> None:
    host, port = url(up).removeprefix("http://").split(":")
    idle = [socket.create_connection((host, int(port))) for _ in range(200)]
    try:
        assert up.api("GET", "/v1/services").status_code == 200
    finally:
        for each in idle:
            each.close()
