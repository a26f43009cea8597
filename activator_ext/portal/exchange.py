"""One request through the portal: wait until an engine can answer, send it there, hand the answer back as it comes.

What needs no waiting happens in calls, without a task: a warm model costs two writes and no turn of the loop.
"""

import asyncio
import json
import logging
from functools import lru_cache
from urllib.parse import unquote, urlsplit

from activator_ext.portal import models
from activator_ext.portal.admission import Avoid
from activator_ext.portal.door import Door
from activator_ext.portal.engine import EngineConnection
from activator_ext.portal.engines import Engines, Unreachable
from activator_ext.portal.heads import AnswerHead, to_engine
from activator_ext.portal.intake import Intake, Target, by_body, by_head, decoded, may_come, target
from activator_ext.portal.refusals import Outcome, Refusal, Refused, answer_too_large, engine_lost, stopping
from activator_ext.portal.reply import Client, Reply
from activator_ext.portal.request import Request
from activator_ext.portal.wait import Wait
from runtime.contract import Endpoint

log = logging.getLogger(__name__)

_ATTEMPTS = 2
# An engine that takes no connection has seen nothing of the request: that costs no attempt. When a host dies, all of
# its engines are like that until the table says so; each is left alone for `retry_grace_s` meanwhile.
_REFUSALS = 8
_SHUTDOWN_STATUSES = (500, 503)  # what vLLM answers new requests with while it drains
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_UNKNOWN = Intake("", b"", streaming=False)
_NOWHERE = Endpoint(replica="", url="")


class Exchange:
    """Carries one request from its head to the last byte of its answer."""

    # Where most requests end as they began, the class holds the value.
    _intake = _UNKNOWN
    _streamed = False  # the body is sent on as it comes, and never a second time
    _attempts_left = _ATTEMPTS
    _refusals_left = _REFUSALS
    _avoid: Avoid | None = None
    _endpoint = _NOWHERE  # on which it is counted as running
    _connection: EngineConnection | None = None
    _task: asyncio.Task[None] | None = None
    _waited_s: float | None = None
    _status = 0  # the engine's, once the first byte of its answer is here
    _passing = False  # the engine's answer goes on to the client as it comes
    _collected: bytearray | None = None  # an answer that must become one event
    _over = False

    def __init__(self, door: Door, engines: Engines, client: Client, request: Request) -> None:
        self._door = door
        self._engines = engines
        self._client = client
        self._request = request
        self._reply = Reply(client, request)
        self._arrived_s = door.clock.elapsed_s()
        self._where = self._find()

    # The client's connection tells.

    def head_arrived(self) -> None:
        """The head is there: say no at once if the body need not come; else invite it."""
        request, limit = self._request, self._door.limits.kept_body_bytes
        where = self._where
        if isinstance(where, Refusal):
            # A body of bounded size is read away, and the connection can be used again.
            if request.bad is not None or request.expects or request.length > limit:
                self._refuse(where)
            return
        if request.expects:
            self._client.write(_CONTINUE)
        if request.length > limit:
            self._stream_body()

    def body_grew(self) -> None:
        """More of the body has arrived, perhaps too much to be kept."""
        if self._streamed:
            self._send_on()
            if self._connection is None and sum(map(len, self._request.chunks)) > self._door.limits.kept_body_bytes:
                self._client.read(False)
        elif self._request.size > self._door.limits.kept_body_bytes:
            self._stream_body()

    def body_arrived(self) -> None:
        """The body is whole."""
        if self._streamed:
            self._send_on()
            return
        try:
            where = self._found()
            if self._request.method == b"GET" and where.path.startswith(models.PATH):
                self._list_models(where)
                return
            body = decoded(self._request, self._door.limits.kept_body_bytes)
            self._intake = by_body(self._request, body, where, self._door.table)
            self._go(self._intake.service)
        except Refused as refused:
            self._refuse(refused.refusal)

    def refuse(self, refusal: Refusal) -> None:
        """The rest of the request cannot be read. If its answer has begun, that is broken off."""
        if self._status:
            self._reply.keeps = False
            self._client.break_off()
            self._finish(refusal.outcome)
        else:
            self._refuse(refusal)

    def client_left(self) -> None:
        """The client is gone: place and engine are given up."""
        self._finish(Outcome.STOPPING if self._door.stopping else Outcome.CLIENT_GONE)

    def client_slow(self, slow: bool) -> None:
        """The client takes no more for now, or takes it again."""
        if self._connection is not None:
            self._connection.slow(slow)

    # The engine's connection tells.

    def answered(self, head: AnswerHead | None, data: bytes, *, ended: bool) -> None:
        """A piece of the answer."""
        if ended:
            self._connection = None
        if head is not None and not self._begin(head):
            return
        if self._passing:
            self._reply.write(data, last=ended)
        else:
            self._collected = self._collected or bytearray()
            self._collected += data
            if len(self._collected) > self._door.limits.kept_body_bytes:
                self._refuse(answer_too_large(self._intake.service))
                return
        if ended:
            self._end()

    def engine_lost(self) -> None:
        """The connection to the engine broke."""
        self._connection = None
        if self._passing:
            log.warning("%s: the engine broke off in the middle of an answer", self._intake.service)
            self._reply.keeps = False
            self._client.break_off()
            self._finish(Outcome.UPSTREAM_ERROR)
        elif self._status:
            self._refuse(engine_lost(self._intake.service))
        else:
            self._try_again()

    def engine_slow(self, slow: bool) -> None:
        """The engine takes no more of the body for now, or takes it again."""
        self._client.read(not slow)

    # Before an engine.

    def _find(self) -> Target | Refusal:
        if self._request.bad is not None:
            return self._request.bad
        if self._door.stopping:
            return stopping()
        try:
            where = target(self._request, self._door.table)
            may_come(self._request, where, self._door.limits.kept_body_bytes)
        except Refused as refused:
            return refused.refusal
        return where

    def _found(self) -> Target:
        if isinstance(self._where, Refusal):
            raise Refused(self._where)
        return self._where

    def _list_models(self, where: Target) -> None:
        name = where.path.removeprefix(models.PATH).strip("/")
        table = self._door.table
        said = models.model(unquote(name), table) if name else models.models(table, where.route)
        self._reply.own(200, {"Content-Type": "application/json"}, json.dumps(said).encode())
        self._finish(None)

    def _stream_body(self) -> None:
        """From now on the body is sent on as it comes: up to the limit here, the rest in the network for an engine."""
        try:
            self._intake = by_head(self._request, self._found(), self._door.limits.kept_body_bytes)
            self._streamed = True
            self._attempts_left = 1
            self._go(self._intake.service)
        except Refused as refused:
            self._refuse(refused.refusal)

    def _go(self, service: str) -> None:
        """To an engine now if one is free, else wait; raises Refused."""
        endpoint = self._door.admit(service, None, self._avoid)
        if endpoint is not None:
            self._ask(endpoint)
        else:
            self._task = asyncio.get_running_loop().create_task(self._wait(service))

    async def _wait(self, service: str) -> None:
        beat = (lambda text: self._reply.beat(service, text)) if self._intake.streaming else None
        try:
            # Of a body that is still to come, as much may be here as is kept of others.
            size = self._door.limits.kept_body_bytes if self._streamed else self._request.size
            ticket = self._door.enter(service, size)
            try:
                # Kept here at once: a client that leaves in this very moment must give it back.
                self._endpoint = await Wait(self._door, ticket, self._avoid, beat).endpoint()
            finally:
                self._waited_s = (self._waited_s or 0.0) + self._door.leave(ticket)
        except Refused as refused:
            self._refuse(refused.refusal)
        else:
            self._ask(self._endpoint)

    # With an engine.

    def _ask(self, endpoint: Endpoint) -> None:
        self._task = None
        self._endpoint = endpoint
        connection = self._engines.idle(endpoint.url)
        if connection is not None:
            self._send(connection, endpoint)
        else:
            self._task = asyncio.get_running_loop().create_task(self._connect(endpoint))

    async def _connect(self, endpoint: Endpoint) -> None:
        try:
            connection = await self._engines.connect(endpoint.url)
        except Unreachable:
            self._task = None
            self._try_again(sent=False)
            return
        self._task = None
        self._send(connection, endpoint)

    def _send(self, connection: EngineConnection, endpoint: Endpoint) -> None:
        request, (authority, prefix) = self._request, _where(endpoint.url)
        path = prefix + self._intake.path_query
        self._connection = connection
        if self._streamed:
            self._client.read(True)
            length = request.length if request.length >= 0 else None
            connection.ask(self, to_engine(request, path, authority, length), b"", whole=False)
            self._send_on()
        else:
            body = request.body()
            connection.ask(self, to_engine(request, path, authority, len(body)), body, whole=True)

    def _send_on(self) -> None:
        """What has come of a streamed body, in the framing in which it came."""
        if self._connection is None:
            return
        request = self._request
        data = request.body()
        request.chunks = []
        if request.length < 0:
            data = (b"%x\r\n%b\r\n" % (len(data), data) if data else b"") + (b"0\r\n\r\n" if request.whole else b"")
        self._connection.send(data, last=request.whole)

    def _try_again(self, *, sent: bool = True) -> None:
        """No byte of an answer came: once more, elsewhere if possible. `sent` False: nor was anything asked."""
        service, endpoint = self._intake.service, self._endpoint
        self._endpoint = _NOWHERE
        self._door.loads.end(service, endpoint)
        if sent or self._streamed:
            self._attempts_left -= 1
        else:
            self._refusals_left -= 1
        log.warning("%s ended before its first byte; attempts left: %d", endpoint.replica, self._attempts_left)
        try:
            if not (self._attempts_left and self._refusals_left):
                raise Refused(engine_lost(service))
            self._door.metrics.ended(service, Outcome.RETRIED)
            failed = (endpoint,) if self._avoid is None else (*self._avoid.endpoints, endpoint)
            self._avoid = Avoid(failed, self._door.clock.elapsed_s() + self._door.limits.retry_grace_s)
            self._go(service)
        except Refused as refused:
            self._refuse(refused.refusal)

    # The answer.

    def _begin(self, head: AnswerHead) -> bool:
        """The first byte is here; False: it is not handed back, since another engine is asked."""
        service, endpoint = self._intake.service, self._endpoint
        shutting_down = head.status in _SHUTDOWN_STATUSES and not self._door.table.has(service, endpoint)
        if shutting_down and self._attempts_left > 1:
            if self._connection is not None:
                self._connection.drop()
                self._connection = None
            self._try_again()
            return False
        self._status = head.status
        seconds = self._door.clock.elapsed_s() - self._arrived_s
        self._door.metrics.first_byte(service, seconds, waited=self._waited_s is not None)
        if self._streamed and not self._request.whole:
            self._reply.keeps = False  # it answers before it has all of the body: what is left is not worth reading
        elif not self._streamed:
            self._request.chunks = []  # the answer may stream for minutes; the question is not needed any more
        if self._door.stopping:
            self._reply.keeps = False
        waited_ms = 0 if self._waited_s is None else round(1000 * self._waited_s)
        head.lines.append(b"%bx-pilotlight-waited-ms: %d\r\n" % (_signature(service, endpoint.replica), waited_ms))
        self._passing = self._reply.begin(head)
        return True

    def _end(self) -> None:
        if not self._passing:
            self._reply.one_event(self._status, bytes(self._collected or b""))
        self._finish(Outcome.ANSWERED if self._status < 500 else Outcome.UPSTREAM_ERROR)

    def _refuse(self, refusal: Refusal) -> None:
        self._reply.refuse(refusal)
        self._finish(refusal.outcome)

    def _finish(self, outcome: Outcome | None) -> None:
        """Give everything back, once. `outcome` None: an answer of our own, which is no request to a service."""
        if self._over:
            return
        self._over = True
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
        self._task = None
        if self._connection is not None:
            self._connection.drop()
            self._connection = None
        if self._endpoint is not _NOWHERE:
            self._door.loads.end(self._intake.service, self._endpoint)
            self._endpoint = _NOWHERE
        if outcome is not None:
            self._door.metrics.ended(self._intake.service or None, outcome)
        self._client.done(keep=self._reply.keeps)


@lru_cache(maxsize=1024)
def _signature(service: str, replica: str) -> bytes:
    return f"x-pilotlight-service: {service}\r\nx-pilotlight-replica: {replica}\r\n".encode()


@lru_cache(maxsize=1024)
def _where(url: str) -> tuple[bytes, bytes]:
    """Authority and path prefix of an engine's base URL."""
    where = urlsplit(url)
    return where.netloc.encode(), where.path.rstrip("/").encode()
