"""The CLI's side of the HTTP API: finds the `up` of a state directory, asks it, explains what went wrong."""

import json
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter, ValidationError

from activator_ext.app.cli.failures import CliError
from activator_ext.app.state_dir import StateDir
from activator_ext.app.views import EventView, HoldRequest, HoldView, PreviewView, ServiceStatus
from activator_ext.core.model import ServiceId
from runtime.contract import StartRecord

TIMEOUT_S = 10.0
"""The API answers from memory or SQLite, in well under a second."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Answer(Generic[_T]):
    """What the API said: `text` as it came (for --json), `value` read."""

    text: str
    value: _T


class ApiClient:
    """The API of the `up` that runs on one state directory. Every method raises CliError, the fix included."""

    def __init__(self, state: Path) -> None:
        self._directory = StateDir(state)
        self._address = self._published()
        # trust_env false: a proxy set for the internet must not be asked for a loopback address. The API speaks plain
        # HTTP there; a TLS context without the bundle of certificates saves its 65 ms of loading.
        self._http = httpx.Client(
            base_url=self._url(),
            headers={"Authorization": f"Bearer {self._token()}"},
            timeout=TIMEOUT_S,
            trust_env=False,
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        )

    def __enter__(self) -> "ApiClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def services(self) -> Answer[list[ServiceStatus]]:
        """Every service, by name."""
        return self._ask(list[ServiceStatus], "GET", "/v1/services")

    def service(self, service: ServiceId) -> Answer[ServiceStatus]:
        """One service."""
        return self._ask(ServiceStatus, "GET", _path(service))

    def starts(self, service: ServiceId, limit: int) -> Answer[list[StartRecord]]:
        """Its newest starts first."""
        return self._ask(list[StartRecord], "GET", f"{_path(service)}/starts", params={"limit": limit})

    def start(self, start_id: str) -> Answer[StartRecord]:
        """One start."""
        return self._ask(StartRecord, "GET", f"/v1/starts/{_segment(start_id)}")

    def preview(self, service: ServiceId, days: float) -> Answer[PreviewView]:
        """When it will be warm, by plan."""
        return self._ask(PreviewView, "GET", f"{_path(service)}/preview", params={"days": days})

    def holds(self) -> Answer[list[HoldView]]:
        """Holds that stand or ended in the last day."""
        return self._ask(list[HoldView], "GET", "/v1/holds")

    def add_hold(self, request: HoldRequest, idempotency_key: str) -> Answer[HoldView]:
        """Ask for a floor. Tried twice when no answer comes; the key makes one hold of both."""
        return self._ask(
            HoldView,
            "POST",
            "/v1/holds",
            tries=2,
            json=request.model_dump(mode="json"),
            headers={"Idempotency-Key": idempotency_key},
        )

    def release_hold(self, hold_id: str) -> None:
        """End a hold now."""
        self._send("DELETE", f"/v1/holds/{_segment(hold_id)}", tries=1)

    def events(self, after: int, limit: int) -> Answer[list[EventView]]:
        """Events after a seq, oldest first; −n for the newest n."""
        return self._ask(list[EventView], "GET", "/v1/events", params={"after": after, "limit": limit})

    def resolve(self, text: str) -> ServiceId:
        """NAMESPACE/NAME as it is, NAME where one service only has it."""
        return service_named(text, lambda: [ServiceId.parse(status.service) for status in self.services().value])

    def _ask(self, kind: Any, method: str, path: str, *, tries: int = 1, **request: Any) -> Answer[Any]:
        response = self._send(method, path, tries=tries, **request)
        try:
            return Answer(response.text, TypeAdapter(kind).validate_json(response.content))
        except ValidationError as error:
            raise CliError(
                f"{self._address.get('url')} answers, but not as this version of pilotlight expects: another version "
                "runs there, stop it and start this one"
            ) from error

    def _send(self, method: str, path: str, *, tries: int, **request: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, **request)
        except httpx.ConnectError as error:
            raise self._nothing_runs(f"{self._address.get('url')} cannot be reached") from error
        except httpx.HTTPError as error:
            if tries > 1:
                return self._send(method, path, tries=tries - 1, **request)
            raise CliError(
                f"{self._address.get('url')} gave no answer within {TIMEOUT_S:.0f} s ({type(error).__name__}): "
                f"look at the output of `pilotlight up` (pid {self._address.get('pid')})"
            ) from error
        if not response.is_success:
            raise CliError(self._refusal(response))
        return response

    def _refusal(self, response: httpx.Response) -> str:
        if response.status_code == 401:
            return f"the token in {self._directory.token_file} is not the one that the running `up` took: restart it"
        try:
            return str(response.json()["error"]["message"])
        except (ValueError, KeyError, TypeError):
            return f"{response.url} answered {response.status_code}, which is not Pilotlight: restart `pilotlight up`"

    def _published(self) -> Mapping[str, Any]:
        try:
            found = json.loads(self._directory.api_file.read_bytes())
        except FileNotFoundError:
            raise self._nothing_runs() from None
        except (OSError, ValueError) as error:
            raise CliError(f"cannot read {self._directory.api_file} ({error}): restart `pilotlight up`") from error
        return found if isinstance(found, dict) else {}

    def _url(self) -> str:
        url = self._address.get("url")
        if not isinstance(url, str) or not url.startswith("http"):
            raise CliError(f"{self._directory.api_file} names no API: restart `pilotlight up`")
        return url

    def _token(self) -> str:
        try:
            return self._directory.token_file.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise CliError(
                f"cannot read the token {self._directory.token_file} ({error}): run as the user of `pilotlight up`"
            ) from error

    def _nothing_runs(self, why: str = "") -> CliError:
        note = f" ({why})" if why else ""
        return CliError(
            f"no pilotlight up is running on {self._directory.root}{note}: start one with `pilotlight up FILES…`, or "
            "name another directory with --state"
        )


def service_named(text: str, known: Callable[[], list[ServiceId]]) -> ServiceId:
    """NAMESPACE/NAME as it is; a bare NAME must be one known service's. Raises CliError that lists the candidates."""
    if "/" in text:
        try:
            return ServiceId.parse(text)
        except ValueError as error:
            raise CliError(str(error)) from error
    services = known()
    found = [service for service in services if service.name == text]
    if len(found) == 1:
        return found[0]
    if found:
        raise CliError(f"{text} is in several namespaces: write one of {', '.join(map(str, found))}")
    raise CliError(f"no service {text}; there are: {', '.join(map(str, services)) or 'none'}")


def _path(service: ServiceId) -> str:
    return f"/v1/services/{_segment(service.namespace)}/{_segment(service.name)}"


def _segment(text: str) -> str:
    """One segment of a path, whatever was typed."""
    return quote(text, safe="")
