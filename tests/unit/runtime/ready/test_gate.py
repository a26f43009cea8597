"""The gate as ASGI: what passes untouched, who is let in when, what is said to the others."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runtime.ready.gate import Gate, Message, Receive, Scope, Send
from runtime.ready.gate_door import CREDENTIAL_HEADER, READY_PATH, STATE_PATH, WARM_UP_HEADER, State

CREDENTIAL = "c" * 43
HOST = (CREDENTIAL_HEADER.encode(), CREDENTIAL.encode())
WARM_UP = (WARM_UP_HEADER.encode(), b"1")
CHAT = "/v1/chat/completions"
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
OK: list[Message] = [
    {"type": "http.response.start", "status": 200, "headers": []},
    {"type": "http.response.body", "body": b"answer"},
]


class Case:
    """A gate in front of an app that keeps what it was called with and answers `OK`, or does what it is given."""

    def __init__(self, credential: str | None = CREDENTIAL) -> None:
        self.now = NOON
        self.calls: list[tuple[Scope, Receive, Send]] = []
        self.does: Callable[[Scope, Receive, Send], Awaitable[None]] = self._answers
        self.gate = Gate(self._app, credential=credential, clock=lambda: self.now)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.calls.append((scope, receive, send))
        await self.does(scope, receive, send)

    async def _answers(self, _: Scope, __: Receive, send: Send) -> None:
        for message in OK:
            await send(message)

    async def ask(self, path: str, *headers: tuple[bytes, bytes], method: str = "POST", **scope: Any) -> "Answer":
        answer = Answer()
        asked = {"type": "http", "method": method, "path": path, "headers": list(headers), **scope}
        await self.gate(asked, never, answer.send)
        return answer

    async def to(self, state: State) -> "Answer":
        return await self.ask(STATE_PATH + state.value, HOST)

    async def at(self, state: State) -> "Case":
        assert (await self.to(state)).status == 200
        return self


class Answer:
    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def send(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.messages[0]["headers"])

    @property
    def json(self) -> Any:
        body = b"".join(message["body"] for message in self.messages[1:])
        assert self.headers[b"content-length"] == str(len(body)).encode()
        assert self.headers[b"content-type"] == b"application/json"
        return json.loads(body)


async def never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def test_while_it_starts_only_the_host_may_ask() -> None:
    case = Case()
    refused = await case.ask(CHAT)
    assert case.calls == []
    assert (refused.status, refused.headers[b"retry-after"]) == (503, b"5")
    assert refused.json["error"] == {
        "message": "the engine has not yet proven that it answers",
        "type": "service_unavailable_error",
        "param": None,
        "code": "starting",
    }
    assert (await case.ask(CHAT, HOST)).messages == OK
    assert (await case.ask("/v1/models", HOST, method="GET")).messages == OK


@pytest.mark.parametrize("path", ["/health", "/metrics", "/version"])
@pytest.mark.parametrize("state", list(State))
async def test_probes_pass_in_every_state(path: str, state: State) -> None:
    assert (await (await Case().at(state)).ask(path, method="GET")).messages == OK


@pytest.mark.parametrize(
    ("state", "ready", "client"),
    [
        (State.STARTING, 503, 503),
        (State.MINIMUM, 200, 200),
        (State.WARMED, 200, 200),
        (State.LEAVING, 503, 200),
        (State.DRAINING, 503, 503),
    ],
)
async def test_each_state(state: State, ready: int, client: int) -> None:
    case = await Case().at(state)
    told = await case.ask(READY_PATH, method="GET")
    assert (told.status, told.json["state"], told.headers[b"cache-control"]) == (ready, state.value, b"no-store")
    assert (await case.ask(READY_PATH, method="HEAD")).status == ready
    answered = await case.ask(CHAT)
    assert answered.status == client
    if client == 503:
        assert answered.json["error"]["code"] == state.value
        assert answered.headers[b"connection"] == b"close"
    assert (await case.ask(CHAT, HOST)).messages == OK


async def test_the_state_only_goes_forward_and_keeps_its_instant() -> None:
    case = Case()
    for minutes, state in enumerate(State):
        case.now = NOON + timedelta(minutes=minutes)
        told = await case.to(state)
        assert told.status == 200
        assert told.json == {"state": state.value, "since": case.now.isoformat(), "in_flight": 0}
    case.now += timedelta(hours=1)
    assert (await case.to(State.DRAINING)).status == 200
    for earlier in list(State)[:-1]:
        told = await case.to(earlier)
        assert (told.status, told.json["state"]) == (409, "draining")
    assert case.gate.door.since == NOON + timedelta(minutes=4)


@pytest.mark.parametrize("wrong", [b"", b"x", CREDENTIAL[:-1].encode(), CREDENTIAL.encode() + b"c", b"\xff" * 43])
async def test_a_wrong_credential_opens_nothing(wrong: bytes) -> None:
    case = await Case().at(State.MINIMUM)
    for path in ("/sleep", CHAT, "/health"):
        refused = await case.ask(path, (HOST[0], wrong))
        assert (refused.status, refused.json["error"]["code"]) == (403, "wrong_credential")
    assert (await case.ask(STATE_PATH + "draining", (HOST[0], wrong))).status == 403
    assert (await case.ask(STATE_PATH + "draining")).status == 403
    assert case.calls == []
    assert case.gate.door.state is State.MINIMUM


async def test_the_credential_goes_no_further() -> None:
    case = Case()
    await case.ask("/sleep", (b"a", b"1"), HOST, WARM_UP)
    ((scope, _, _),) = case.calls
    assert scope["headers"] == [(b"a", b"1")]


@pytest.mark.parametrize("path", ["/sleep", "/adapters/x", "/docs", "/nonsense", "//v1/models", "", "/v1/Models"])
async def test_what_is_not_for_clients_is_shut_in_every_state(path: str) -> None:
    for state in State:
        case = await Case().at(state)
        for method in ("GET", "POST", "HEAD", "OPTIONS", "DELETE"):
            assert (await case.ask(path, method=method)).status in (403, 404)
        assert case.calls == []
        assert (await case.ask(path, HOST)).messages == OK


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
async def test_control_answers_to_post_and_known_states_only(method: str) -> None:
    case = Case()
    expected = 200 if method == "POST" else 405
    assert (await case.ask(STATE_PATH + "minimum", HOST, method=method)).status == expected
    assert (await case.ask(STATE_PATH + "asleep", HOST)).status == 404
    assert (await case.ask(READY_PATH, method="POST")).status == 405
    assert (await case.ask("/pilotlight/else", HOST)).status == 404
    assert case.calls == []


async def test_without_a_host_it_admits_and_shuts_what_is_the_hosts() -> None:
    case = Case(credential=None)
    assert (await case.ask(READY_PATH, method="GET")).json["state"] == "minimum"
    assert (await case.ask(CHAT)).messages == OK
    for credential in (b"", b"None", CREDENTIAL.encode()):
        assert (await case.ask("/sleep", (HOST[0], credential))).status == 403
        assert (await case.ask(STATE_PATH + "draining", (HOST[0], credential))).status == 403


async def test_nothing_that_passes_is_wrapped() -> None:
    case = await Case().at(State.MINIMUM)
    lifespan: Scope = {"type": "lifespan"}
    await case.gate(lifespan, never, (sent := Answer()).send)
    asked: Scope = {"type": "http", "method": "POST", "path": CHAT, "headers": []}
    await case.gate(asked, never, sent.send)
    (one, two) = case.calls
    assert (one[0], one[1]) == (lifespan, never)
    assert two[0] is asked
    assert two[1] is never
    assert two[2] == sent.send


async def test_in_flight_counts_clients_to_their_end_however_it_comes() -> None:
    case = await Case().at(State.MINIMUM)
    seen: list[int] = []

    async def fails(*_: Any) -> None:
        seen.append(case.gate.door.in_flight)
        raise RuntimeError("the engine's own")

    case.does = fails
    for path, headers in ((CHAT, ()), ("/health", ()), (CHAT, (HOST,))):
        with pytest.raises(RuntimeError, match="the engine's own"):
            await case.ask(path, *headers)
    assert seen == [1, 0, 0]
    case.does = lambda *_: asyncio.Event().wait()  # type: ignore[assignment]  # it only has to wait
    running = asyncio.create_task(case.ask(CHAT))
    await asyncio.sleep(0)
    assert (await case.ask(READY_PATH, method="GET")).json["in_flight"] == 1
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert case.gate.door.in_flight == 0


async def test_what_runs_is_not_cut_by_a_drain() -> None:
    case = await Case().at(State.MINIMUM)
    go_on = asyncio.Event()

    async def slow(_: Scope, __: Receive, send: Send) -> None:
        await send(OK[0])
        await go_on.wait()
        await send(OK[1])

    case.does = slow
    running = asyncio.create_task(case.ask(CHAT))
    await asyncio.sleep(0)
    await case.at(State.DRAINING)
    assert (await case.ask(CHAT)).status == 503
    go_on.set()
    assert (await running).messages == OK


async def test_a_warm_up_gives_way_to_the_first_client() -> None:
    case = await Case().at(State.MINIMUM)
    ended = asyncio.Event()

    async def until_disconnect(scope: Scope, receive: Receive, _: Send) -> None:
        if not any(name == b"client" for name, _ in scope["headers"]):
            assert (await receive())["type"] == "http.disconnect"
            ended.set()

    case.does = until_disconnect
    warming = asyncio.create_task(case.ask(CHAT, HOST, WARM_UP))
    await asyncio.sleep(0)
    await case.ask("/health", (b"client", b"1"), method="GET")
    assert not ended.is_set()
    await case.ask(CHAT, (b"client", b"1"))
    async with asyncio.timeout(10):
        await warming
    assert ended.is_set()


async def test_a_warm_up_reads_its_body_and_does_not_begin_beside_a_client() -> None:
    case = await Case().at(State.MINIMUM)
    body: Message = {"type": "http.request", "body": b"{}", "more_body": False}
    got: list[Message] = []

    async def reads(_: Scope, receive: Receive, __: Send) -> None:
        got.append(await receive())

    async def one() -> Message:
        return body

    case.does = reads
    await case.gate({"type": "http", "method": "POST", "path": CHAT, "headers": [HOST, WARM_UP]}, one, Answer().send)
    assert got == [body]
    case.gate.door.in_flight = 1
    refused = await case.ask(CHAT, HOST, WARM_UP)
    assert (refused.status, refused.json["error"]["code"]) == (503, "busy")


async def connect(case: Case, path: str, *headers: tuple[bytes, bytes], extensions: Any = None) -> list[Message]:
    answer = Answer()

    async def asks() -> Message:
        return {"type": "websocket.connect"}

    scope = {"type": "websocket", "path": path, "headers": list(headers), "extensions": extensions or {}}
    await case.gate(scope, asks, answer.send)
    return answer.messages


async def test_websockets() -> None:
    case = Case()
    assert await connect(case, "/v1/realtime") == [{"type": "websocket.close", "code": 1013, "reason": "starting"}]
    start, body = await connect(case, "/v1/realtime", extensions={"websocket.http.response": {}})
    assert (start["type"], start["status"]) == ("websocket.http.response.start", 503)
    assert b"starting" in body["body"]
    assert await connect(case, READY_PATH) == [{"type": "websocket.close", "code": 1013}]
    assert (await connect(case, "/sleep"))[0]["reason"] == "host_only"
    assert case.calls == []
    await case.at(State.MINIMUM)
    assert await connect(case, "/v1/realtime") == OK
    assert await connect(case, "/sleep", HOST) == OK
