"""The host's side of an engine's gate: move it, and ask how many requests of clients are inside."""

import contextlib

import httpx

from runtime.contract import FailureCause
from runtime.ready.fault import Fault
from runtime.ready.gate_door import CREDENTIAL_HEADER, READY_PATH, SEAL_PATH, STATE_PATH, State
from runtime.ready.http import client

TIMEOUT_S = 2.0
"""The longest wait for an answer of the gate: it computes nothing, so an engine that takes longer stands still."""
SEAL_S = 60.0
"""The longest wait for an engine that drops what it knows of prompts: all its workers do."""


class GateControl:
    """The gate of the engine at `url`; holds the credential and shows it to nobody else."""

    def __init__(self, url: str, credential: str) -> None:
        self.url = url
        self.headers = {CREDENTIAL_HEADER: credential}
        """What the host's own requests to the engine carry."""

    def __repr__(self) -> str:
        return f"GateControl({self.url!r})"

    async def open(self) -> None:
        """First level reached: admit clients. Raises Fault (NOT_SERVED) where no gate takes it."""
        try:
            status = await self._move(State.MINIMUM)
        except httpx.RequestError as error:
            raise _no_gate(f"does not answer ({type(error).__name__})") from error
        if status != 200:
            raise _no_gate(f"answers {status}")

    async def move(self, to: State) -> bool:
        """Move the gate of an engine that serves. False: it does not answer, or has gone further already."""
        with contextlib.suppress(httpx.RequestError):
            return await self._move(to) == 200
        return False

    async def seal(self) -> None:
        """Ready the engine for an image of it: it then has no host. Raises Fault (NOT_SERVED)."""
        try:
            async with client(self.url, SEAL_S) as http:
                status = (await http.post(SEAL_PATH, headers=self.headers)).status_code
        except httpx.RequestError as error:
            raise _no_gate(f"does not answer ({type(error).__name__})") from error
        if status == 409:
            raise Fault(FailureCause.NOT_SERVED, "the engine has served a client: what that asked must be in no image")
        if status != 200:
            raise _no_gate(f"answers {status}")

    async def in_flight(self) -> int | None:
        """Requests of clients that have passed the gate and are not over; None when it does not say."""
        try:
            async with client(self.url, TIMEOUT_S) as http:
                count = (await http.get(READY_PATH)).json()["in_flight"]
        except (httpx.RequestError, ValueError, KeyError, TypeError):
            return None
        return count if isinstance(count, int) else None

    async def _move(self, to: State) -> int:
        async with client(self.url, TIMEOUT_S) as http:
            return (await http.post(f"{STATE_PATH}{to.value}", headers=self.headers)).status_code


def _no_gate(what: str) -> Fault:
    return Fault(
        FailureCause.NOT_SERVED,
        f"the engine's gate {what}: it serves without the launcher's --middleware, or another program took its port",
    )
