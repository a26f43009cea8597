"""Who may pass an engine's gate now, and the two levels of being ready: pure, the instant is passed in.

The gate in front of vLLM (`gate.py`) and that of the tests' fake engine ask the same door.
"""

import hmac
import json
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from runtime.ready.gate_routes import Audience

CREDENTIAL_HEADER: Final = "x-pilotlight-credential"
"""Carries the credential of this engine. Not `Authorization`, which belongs to the engine's own keys."""
WARM_UP_HEADER: Final = "x-pilotlight-warm-up"
"""Beside the credential: this request only warms a shape and gives way to the first client."""
READY_PATH: Final = "/pilotlight/ready"
"""Open to anyone: 200 while requests are admitted, else 503; the body says why."""
STATE_PATH: Final = "/pilotlight/state/"
"""`POST` to this path and a state, with the credential, moves the gate there."""
SEAL_PATH: Final = "/pilotlight/seal"
"""`POST` with the credential readies an engine for an image of it (`gate_seal.py`), where it was begun for that."""
OUR_PATHS: Final = "/pilotlight/"


class State(StrEnum):
    """What an engine is ready for, in the only order in which it changes."""

    STARTING = "starting"
    """Only the host may ask: nothing has been proven."""
    MINIMUM = "minimum"
    """The first level: it has answered the golden prompt, and admits."""
    WARMED = "warmed"
    """The second: every shape has been computed once, so that no request is the first of its size."""
    LEAVING = "leaving"
    """Not ready for whoever asks whether it is; requests still pass, for who sends them may not have heard of it."""
    DRAINING = "draining"
    """New requests are refused; those that run, run to their end."""


_ORDER: Final = tuple(State)
_ADMITTING: Final = frozenset({State.MINIMUM, State.WARMED, State.LEAVING})
_READY: Final = frozenset({State.MINIMUM, State.WARMED})
_RETRY_S: Final = {State.STARTING: 5, State.DRAINING: 1}
"""When another try may help: a start takes a while; beside a replica that goes there may be another."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer in place of the engine's, in the shape that OpenAI clients read."""

    status: int
    code: str
    message: str
    retry_after_s: int | None = None

    @property
    def body(self) -> bytes:
        """`{"error": {"message", "type", "param", "code"}}`."""
        kind = "service_unavailable_error" if self.status == 503 else "permission_error"
        kind = "not_found_error" if self.status == 404 else kind
        return json.dumps({"error": {"message": self.message, "type": kind, "param": None, "code": self.code}}).encode()

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Its headers; a connection that met a closed gate is not kept, the next one may lead to another replica."""
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(self.body)).encode())]
        if self.retry_after_s is not None:
            headers += [(b"retry-after", str(self.retry_after_s).encode()), (b"connection", b"close")]
        return headers


_WRONG = Refusal(403, "wrong_credential", f"the credential in {CREDENTIAL_HEADER} is not that of this engine")
_SHUT = Refusal(403, "host_only", "this path is open to the engine's host only: ask it with the engine's credential")
_UNKNOWN = Refusal(404, "not_found", "no route of this path is open to clients of the engine")
_NOT_YET = Refusal(503, "starting", "the engine has not yet proven that it answers", _RETRY_S[State.STARTING])
_GOING = Refusal(503, "draining", "the engine takes no new requests, it is about to stop", _RETRY_S[State.DRAINING])
_BUSY = Refusal(503, "busy", "clients are being answered: shapes are warmed later", 1)


class Door:
    """The gate's state and its judgement. `in_flight`: requests of clients that have passed and are not yet over.

    `served`: whether a client has ever passed.

    `credential` None: there is no host. Nobody would ever open the gate then, and vLLM serves only once its model is
    loaded; so it admits from the start. What is the host's stays shut, to everybody.
    """

    def __init__(self, credential: str | None, now: datetime) -> None:
        self._credential = credential.encode() if credential is not None else None
        self.state = State.STARTING if credential is not None else State.MINIMUM
        self.since = now
        self.in_flight = 0
        self.served = False

    @property
    def ready(self) -> bool:
        """Whether new requests should be sent here."""
        return self.state in _READY

    @property
    def report(self) -> bytes:
        """The body of the readiness path: `{"state", "since", "in_flight"}`."""
        return json.dumps(
            {"state": self.state.value, "since": self.since.isoformat(), "in_flight": self.in_flight}
        ).encode()

    def knows(self, credential: bytes) -> bool:
        """Whether this is the engine's credential; takes as long for a wrong one."""
        return self._credential is not None and hmac.compare_digest(credential, self._credential)

    def judge(self, audience: Audience, credential: bytes | None, *, warm_up: bool = False) -> Refusal | None:
        """None: it may pass. `audience` is that of the path asked for, `credential` as sent, None without one."""
        if credential is not None:
            if not self.knows(credential):
                return _WRONG
            return _BUSY if warm_up and self.in_flight else None
        match audience:
            case Audience.CLIENTS:
                return self._admission()
            case Audience.ANYONE:
                return None
            case Audience.HOST:
                return _SHUT
            case Audience.NOBODY_KNOWN:
                return _UNKNOWN

    def move(self, to: State, now: datetime) -> bool:
        """Change the state; False, and no change, if that would be a step back. The present one again is none."""
        if _ORDER.index(to) < _ORDER.index(self.state):
            return False
        if to is not self.state:
            self.state, self.since = to, now
        return True

    def seal(self, now: datetime) -> bool:
        """Back to the beginning, and from now on nobody's; False, and no change, once a client has passed.

        What a client has asked must be in no image.
        """
        if self.served:
            return False
        self._credential = None
        self.state, self.since = State.STARTING, now
        return True

    def renew(self, credential: str, now: datetime) -> None:
        """A sealed door has a new host. Raises ValueError where it has one already."""
        if self._credential is not None or self.state is not State.STARTING:
            raise ValueError("the engine has a host")
        self._credential, self.since = credential.encode(), now

    def _admission(self) -> Refusal | None:
        if self.state in _ADMITTING:
            return None
        return _NOT_YET if self.state is State.STARTING else _GOING
