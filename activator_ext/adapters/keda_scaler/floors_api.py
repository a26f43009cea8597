"""Floors from a controller's HTTP API, asked each second."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import httpx
from pydantic import AwareDatetime, BaseModel, Field, TypeAdapter

from activator_ext.adapters.keda_scaler.answers import MAX_REPLICAS
from activator_ext.adapters.keda_scaler.floors import Floors, KnownFloor
from activator_ext.core.model import ServiceId

POLL_S = 1.0
"""A floor that rises is pushed to KEDA at most this much later."""
TIMEOUT_S = 5.0
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class BadController(Exception):
    """The controller cannot be asked as told; the message names the option and the fix."""


class _Status(BaseModel):
    """What is used of a service's status."""

    service: str
    floor: int = Field(ge=0, le=MAX_REPLICAS)
    floor_until: AwareDatetime | None = None


_STATUSES = TypeAdapter(list[_Status])


class ControllerFloors:
    """Keeps `floors` as a controller says. `token_file` is read at each call: tokens of a pod are renewed on disk."""

    def __init__(
        self,
        url: str,
        floors: Floors,
        report: Callable[[str], None],
        *,
        token_file: Path | None = None,
        ca_file: Path | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadController(f"{url!r} is no URL of a controller: write --controller http://127.0.0.1:8081")
        if token_file is not None and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise BadController(f"{url} would carry the token in the clear: use https, with --controller-ca FILE")
        self._url = url.rstrip("/")
        self._floors = floors
        self._report = report
        self._token_file = token_file
        self._http = httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False, verify=_trusted(ca_file))
        self._silent = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def follow(self) -> None:
        """Ask each POLL_S, until cancelled. A silent controller is told once; its floors age meanwhile."""
        while True:
            await self.ask()
            await asyncio.sleep(POLL_S)

    async def ask(self) -> None:
        """Ask once."""
        why = await self._try()
        if why and why != self._silent:
            self._report(f"{self._url} tells no floors: {why}")
        elif self._silent and not why:
            self._report(f"{self._url} tells floors again")
        self._silent = why

    async def _try(self) -> str:
        """Tell the floors; else why they could not be had."""
        try:
            response = await self._http.get(f"{self._url}/v1/services", headers=self._headers())
        except OSError as error:
            return f"cannot read {self._token_file} ({error.strerror}): name another with --token-file"
        except httpx.HTTPError as error:
            return f"no answer ({type(error).__name__}): is it running there?"
        if response.status_code in (401, 403):
            return f"it answers {response.status_code}: give its token with --token-file"
        if not response.is_success:
            return f"it answers {response.status_code}"
        try:
            known = floors_of(response.content)
        except ValueError:
            return "its answer is not that of this version of pilotlight: run the same version there and here"
        self._floors.tell(known)
        return ""

    def _headers(self) -> dict[str, str]:
        if self._token_file is None:
            return {}
        return {"authorization": f"Bearer {self._token_file.read_text(encoding='ascii').strip()}"}


def floors_of(answer: bytes) -> dict[ServiceId, KnownFloor]:
    """The floors in an answer of /v1/services. Raises ValueError."""
    return {
        ServiceId.parse(status.service): KnownFloor(status.floor, status.floor_until)
        for status in _STATUSES.validate_json(answer)
    }


def _trusted(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    except (OSError, ssl.SSLError) as error:
        raise BadController(f"cannot read {ca_file} ({error}): name another with --controller-ca") from error
