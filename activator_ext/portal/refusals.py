"""Every way in which the portal itself says no, in the shape that OpenAI clients read."""

import json
import math
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from activator_ext.portal.table import Table
from runtime.contract import Route


class Outcome(StrEnum):
    """How a request ended, as a metric label. `retried` is counted beside the final one."""

    ANSWERED = "answered"
    REJECTED_FULL = "rejected_full"
    TIMED_OUT = "timed_out"
    FAILED = "failed"
    CLIENT_GONE = "client_gone"
    UPSTREAM_ERROR = "upstream_error"
    RETRIED = "retried"
    INVALID = "invalid"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer in place of the engine's. `retry_after_s` None: nobody knows when another try would help."""

    status: int
    message: str
    type: str
    code: str
    outcome: Outcome = Outcome.INVALID
    retry_after_s: int | None = None

    def body(self) -> bytes:
        """`{"error": {"message", "type", "code"}}` as one line of JSON."""
        return json.dumps({"error": {"message": self.message, "type": self.type, "code": self.code}}).encode()

    def headers(self) -> dict[str, str]:
        """Headers that belong to the answer."""
        headers = {"Content-Type": "application/json"}
        if self.status == 405:
            headers["Allow"] = "GET, POST"
        if self.retry_after_s is not None:
            headers["Retry-After"] = str(self.retry_after_s)
        return headers


class Refused(Exception):
    """The request is answered by `refusal`."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.code)
        self.refusal = refusal


def seconds_until(at: datetime, now: datetime) -> int:
    """Whole seconds until `at`, rounded up, at least 1: 30.2 s → 31, so that nobody comes back too early."""
    return max(1, math.ceil((at - now).total_seconds()))


def invalid(message: str, code: str, status: int = 400) -> Refusal:
    """The request itself cannot be served."""
    return Refusal(status, message, "invalid_request_error", code)


def unknown_model(name: str, table: Table) -> Refusal:
    """No service is called `name`."""
    shown = name if len(name) <= 200 else name[:200] + "…"
    return invalid(f"the model {shown!r} does not exist; known are: {table.known_names()}", "model_not_found", 404)


def ambiguous_model(name: str, services: tuple[str, ...]) -> Refusal:
    """Several services are called `name`."""
    return invalid(f"{name!r} means several models: write one of {', '.join(services)}", "model_ambiguous", 404)


def not_served(path: str) -> Refusal:
    """The path is none that the portal forwards."""
    shown = path if len(path) <= 200 else path[:200] + "…"
    return invalid(f"{shown} is not served here; see /v1/models and the OpenAI paths under /v1/", "not_found", 404)


def no_table() -> Refusal:
    """No table was ever seen: nothing can be said about any model."""
    message = "the portal has not yet heard from its controller; try again"
    return Refusal(503, message, "unavailable", "no_routes", Outcome.FAILED, 1)


def stopping() -> Refusal:
    """The portal is on its way out."""
    return Refusal(503, "the portal is stopping; try again", "unavailable", "stopping", Outcome.STOPPING, 1)


def full(what: str, route: Route, now: datetime, default_s: int) -> Refusal:
    """The waiting room is full; come back when the start is expected to be done."""
    after_s = default_s if route.eta_at is None else seconds_until(route.eta_at, now)
    message = f"{route.service} is not ready and {what}; try again in {after_s} s"
    return Refusal(429, message, "overloaded", "waiting_room_full", Outcome.REJECTED_FULL, after_s)


def timed_out(route: Route, now: datetime, default_s: int) -> Refusal:
    """It waited for as long as its service allows."""
    at = route.retry_at or route.eta_at
    message = f"{route.service} did not become ready within {route.waiting.timeout_s:g} s of waiting"
    after_s = default_s if at is None else seconds_until(at, now)
    return Refusal(503, message, "unavailable", "waiting_timed_out", Outcome.TIMED_OUT, after_s)


def failed(route: Route, now: datetime) -> Refusal:
    """The start failed; the route says why and when a new try is due."""
    at = route.retry_at or route.eta_at
    cause, said = ("failed", "") if route.failure is None else (route.failure.cause.value, route.failure.message)
    after_s = None if at is None else seconds_until(at, now)
    return Refusal(503, f"{route.service} cannot answer: {said}", "unavailable", cause, Outcome.FAILED, after_s)


def engine_lost(service: str) -> Refusal:
    """The engine went away before its first byte, and no retry is left."""
    message = f"the engine of {service} ended before it answered; try again"
    return Refusal(502, message, "upstream_error", "engine_lost", Outcome.UPSTREAM_ERROR, 1)


def answer_too_large(service: str) -> Refusal:
    """After heartbeats an answer that is no stream must fit into one event."""
    message = f"{service} gave no stream, and its answer is too large for one event: ask without `stream`"
    return Refusal(502, message, "upstream_error", "answer_too_large", Outcome.UPSTREAM_ERROR)
