"""One request through the portal: wait until an engine can answer, send it there, hand the answer back as it comes."""

import asyncio
import json
import logging

import aiohttp
from aiohttp import web

from activator_ext.portal import sse
from activator_ext.portal.admission import Avoid
from activator_ext.portal.door import Door
from activator_ext.portal.intake import Intake
from activator_ext.portal.progress import progress
from activator_ext.portal.refusals import Outcome, Refusal, Refused, answer_too_large, engine_lost
from activator_ext.portal.room import Ticket
from activator_ext.portal.upstream import Answer, EngineLost, ask, response_headers
from runtime.contract import Endpoint

log = logging.getLogger(__name__)

_ATTEMPTS = 2
_SHUTDOWN_STATUSES = (500, 503)  # what vLLM answers new requests with while it drains


class Exchange:
    """Carries one request from its intake to its end. `run` once."""

    def __init__(self, door: Door, session: aiohttp.ClientSession, request: web.BaseRequest, intake: Intake) -> None:
        self._door = door
        self._session = session
        self._request = request
        self._intake = intake
        self._arrived_s = door.clock.elapsed_s()
        self._waited_s: float | None = None
        self._beaten: web.StreamResponse | None = None  # the answer, if heartbeats began it

    async def run(self) -> web.StreamResponse:
        """Answer the request. Cancelled when the client leaves; then place and engine request are given up."""
        outcome = Outcome.FAILED
        try:
            try:
                outcome, response = await self._attempts()
            except Refused as refused:
                response = await self._refuse(refused.refusal)
                outcome = refused.refusal.outcome
        except ConnectionError:  # of a write to the client: its answer has nowhere to go
            outcome = Outcome.CLIENT_GONE
            return self._beaten or web.Response()
        except asyncio.CancelledError:
            outcome = Outcome.STOPPING if self._door.stopping else Outcome.CLIENT_GONE
            raise
        finally:
            self._door.metrics.ended(self._intake.service, outcome)
        return response

    async def _attempts(self) -> tuple[Outcome, web.StreamResponse]:
        avoid: Avoid | None = None
        attempts = _ATTEMPTS if self._intake.whole else 1
        for left in reversed(range(attempts)):
            endpoint = await self._endpoint(avoid)
            try:
                return await self._answer(endpoint, last=not left)
            except EngineLost:
                log.warning("%s ended before its first byte; attempts left: %d", endpoint.replica, left)
            finally:
                self._door.loads.end(self._intake.service, endpoint)
            if left:
                self._door.metrics.ended(self._intake.service, Outcome.RETRIED)
            avoid = Avoid(endpoint, self._door.clock.elapsed_s() + self._door.limits.retry_grace_s)
        raise Refused(engine_lost(self._intake.service))

    async def _endpoint(self, avoid: Avoid | None) -> Endpoint:
        """An endpoint on which this request is counted as running: the caller ends that."""
        service = self._intake.service
        if endpoint := self._door.admit(service, None, avoid):
            return endpoint
        ticket = self._door.enter(service, len(self._intake.kept))
        try:
            beat_s = ticket.entered_s + self._door.limits.heartbeat_after_s
            while (endpoint := self._door.admit(service, ticket, avoid)) is None:
                beat_s = await self._wait(ticket, beat_s, avoid)
            return endpoint
        finally:
            self._waited_s = (self._waited_s or 0.0) + self._door.leave(ticket)

    async def _wait(self, ticket: Ticket, beat_s: float, avoid: Avoid | None) -> float:
        """Until something may have changed; beats if it is time, and gives the time of the next beat."""
        now_s = self._door.clock.elapsed_s()
        streaming = self._intake.streaming
        if streaming and now_s >= beat_s:
            await self._beat(ticket)
            return self._door.clock.elapsed_s() + self._door.limits.heartbeat_every_s
        until = [ticket.deadline_s]
        if streaming:
            until.append(beat_s)
        if avoid and avoid.until_s > now_s:
            until.append(avoid.until_s)
        await self._door.listen(ticket, min(until) - now_s)
        return beat_s

    async def _beat(self, ticket: Ticket) -> None:
        route = self._door.route(ticket.service)
        if self._beaten is None:
            headers = {
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-cache",
                "x-pilotlight-service": ticket.service,
            }
            self._beaten = web.StreamResponse(headers=headers)
            await self._beaten.prepare(self._request)
        position = self._door.loads.room.position(ticket)
        await self._beaten.write(sse.comment(progress(route, self._door.clock.now(), position)))

    async def _answer(self, endpoint: Endpoint, *, last: bool) -> tuple[Outcome, web.StreamResponse]:
        answer = await ask(self._session, self._request, self._intake, endpoint)
        upstream = answer.response
        try:
            gone = not self._door.table.has(self._intake.service, endpoint)
            if gone and not last and upstream.status in _SHUTDOWN_STATUSES:
                raise EngineLost
            self._intake.kept = b""
            seconds = self._door.clock.elapsed_s() - self._arrived_s
            self._door.metrics.first_byte(self._intake.service, seconds, waited=self._waited_s is not None)
            outcome = Outcome.ANSWERED if upstream.status < 500 else Outcome.UPSTREAM_ERROR
            if self._beaten is not None:
                whole = await self._continue(self._beaten, answer)
                return (outcome if whole else Outcome.UPSTREAM_ERROR), self._beaten
            headers = response_headers(upstream.headers)
            headers.update(self._own_headers(endpoint))
            response = web.StreamResponse(status=upstream.status, reason=upstream.reason, headers=headers)
            await response.prepare(self._request)
            whole = await self._pass_on(response, answer)
            return (outcome if whole else Outcome.UPSTREAM_ERROR), response
        except BaseException:
            upstream.close()
            raise
        finally:
            upstream.release()

    def _own_headers(self, endpoint: Endpoint) -> dict[str, str]:
        return {
            "x-pilotlight-service": self._intake.service,
            "x-pilotlight-replica": endpoint.replica,
            "x-pilotlight-waited-ms": str(round(1000 * (self._waited_s or 0.0))),
        }

    async def _pass_on(self, response: web.StreamResponse, answer: Answer) -> bool:
        """Each piece as it comes; False: the engine broke off, and so did we, that the client sees it.

        `write` waits while the client is slow, and nothing more is read from the engine meanwhile.
        """
        chunk = answer.first
        while chunk:
            await response.write(chunk)
            try:
                chunk = await answer.response.content.readany()
            except (aiohttp.ClientError, OSError):
                log.warning("%s: the engine broke off in the middle of an answer", self._intake.service)
                if self._request.transport is not None:
                    self._request.transport.close()
                return False
        return True

    async def _continue(self, response: web.StreamResponse, answer: Answer) -> bool:
        """After heartbeats the status is spent: events go on as they are, any other answer becomes one event."""
        upstream = answer.response
        if upstream.status == 200 and upstream.content_type == "text/event-stream":
            return await self._pass_on(response, answer)
        body = bytearray(answer.first)
        try:
            while chunk := await upstream.content.readany():
                body += chunk
                if len(body) > self._door.limits.kept_body_bytes:
                    raise Refused(answer_too_large(self._intake.service))
        except (aiohttp.ClientError, OSError):
            raise Refused(engine_lost(self._intake.service)) from None
        said = bytes(body)
        await response.write(sse.data(said if upstream.status == 200 else _as_error(upstream.status, said)))
        return True

    async def _refuse(self, refusal: Refusal) -> web.StreamResponse:
        if self._beaten is not None:
            await self._beaten.write(sse.data(refusal.body()))
            return self._beaten
        return refuse(refusal)


def refuse(refusal: Refusal) -> web.Response:
    """A refusal as a response of its own."""
    response = web.Response(status=refusal.status, body=refusal.body(), headers=refusal.headers())
    if refusal.outcome is Outcome.STOPPING:
        response.force_close()
    return response


def _as_error(status: int, body: bytes) -> bytes:
    """An engine's error body as one line, in the shape of an error whatever it was."""
    try:
        said = json.loads(body)
    except ValueError:
        said = body[:2000].decode(errors="replace")
    if not (isinstance(said, dict) and "error" in said):
        message = said if isinstance(said, str) else json.dumps(said)
        said = {"error": {"message": message, "type": "upstream_error", "code": status}}
    return json.dumps(said).encode()
