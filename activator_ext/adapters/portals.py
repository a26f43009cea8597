"""Speaks to the local portal over its admin socket."""

import httpx
from pydantic import BaseModel, ConfigDict


class PortalHealth(BaseModel):
    """What the portal says of itself. `listen` is `host:port` as bound."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    portal: str
    pid: int
    listen: str
    version: str


class PortalClient:
    """The portal's admin API; every call returns None or False where no portal answers."""

    def __init__(self, socket: str, *, timeout_s: float = 10.0) -> None:
        self._http = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=socket), base_url="http://portal", timeout=timeout_s
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def health(self) -> PortalHealth | None:
        """What the portal says of itself."""
        try:
            answer = await self._http.get("/healthz")
        except httpx.HTTPError:
            return None
        return PortalHealth.model_validate_json(answer.content) if answer.is_success else None

    async def metrics(self) -> str | None:
        """Its Prometheus text."""
        try:
            answer = await self._http.get("/metrics")
        except httpx.HTTPError:
            return None
        return answer.text if answer.is_success else None

    async def stop(self) -> bool:
        """Ask it to finish its running answers and end."""
        try:
            return (await self._http.post("/stop")).is_success
        except httpx.HTTPError:
            return False
