"""Speaks to one host over its unix socket."""

from types import TracebackType
from typing import Protocol, Self

import httpx
from pydantic import BaseModel

from runtime.contract import HostView, Lease, ServiceOrder, Stop


class HostUnreachable(Exception):
    """No host answers on the socket, or it refused; the message says which and why."""


class Host(Protocol):
    """What the controller asks of a host. Every call raises HostUnreachable where it does not answer."""

    @property
    def socket(self) -> str:
        """Where the portal can reach the host by itself."""

    async def view(self) -> HostView:
        """The whole truth of the host."""

    async def renew(self, lease: Lease) -> HostView:
        """Tell the host that its controller lives."""

    async def order(self, order: ServiceOrder) -> None:
        """Set the desired state of one service."""

    async def forget(self, service: str) -> None:
        """Drain one service and drop its order."""


class HostClient:
    """The host's admin API (`runtime.contract`), one call one answer, each bounded by `timeout_s`."""

    def __init__(self, socket: str, *, timeout_s: float = 20.0) -> None:
        self.socket = socket
        self._http = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=socket), base_url="http://host", timeout=timeout_s
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def view(self) -> HostView:
        """The whole truth of the host; raises HostUnreachable."""
        return HostView.model_validate_json(await self._call("GET", "/v1/host"))

    async def renew(self, lease: Lease) -> HostView:
        """Tell the host that its controller lives; raises HostUnreachable."""
        return HostView.model_validate_json(await self._call("PUT", "/v1/host/lease", lease))

    async def order(self, order: ServiceOrder) -> None:
        """Set the desired state of one service; raises HostUnreachable."""
        await self._call("PUT", f"/v1/services/{order.spec.service}", order)

    async def forget(self, service: str) -> None:
        """Drain one service and drop its order; raises HostUnreachable."""
        await self._call("DELETE", f"/v1/services/{service}")

    async def stop(self, drain_s: float) -> HostView:
        """Ask the host to drain everything and end; raises HostUnreachable."""
        return HostView.model_validate_json(await self._call("POST", "/v1/host/stop", Stop(drain_s=drain_s)))

    async def _call(self, method: str, path: str, body: BaseModel | None = None) -> bytes:
        content = None if body is None else body.model_dump_json()
        try:
            answer = await self._http.request(method, path, content=content)
        except httpx.HTTPError as error:
            raise HostUnreachable(f"no host answers on {self.socket}: {error or type(error).__name__}") from error
        if answer.is_error:
            raise HostUnreachable(f"the host refused {method} {path}: {answer.status_code} {answer.text}")
        return answer.content
