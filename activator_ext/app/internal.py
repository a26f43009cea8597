"""What portal and host say to the controller, on a unix socket of mode 0600."""

from typing import Protocol

from fastapi import FastAPI, Response
from fastapi.responses import StreamingResponse

from activator_ext.app.routes import RouteFeed
from runtime.contract import HostEvents, PortalReport


class Reports(Protocol):
    """Who takes the reports in."""

    def portal_reported(self, report: PortalReport) -> None:
        """The portal's queue changed, or it is alive."""

    def host_changed(self, events: HostEvents) -> None:
        """Something changed at the host."""


def build_internal(feed: RouteFeed, reports: Reports) -> FastAPI:
    """The routes of `runtime.contract` that the controller answers."""
    app = FastAPI(title="pilotlight, between its processes", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/v1/routes")
    async def routes() -> StreamingResponse:
        return StreamingResponse(feed.subscribe(), media_type="text/event-stream")

    @app.post("/v1/internal/portal", status_code=204)
    async def portal(report: PortalReport) -> Response:
        reports.portal_reported(report)
        return Response(status_code=204)

    @app.post("/v1/internal/events", status_code=204)
    async def events(body: HostEvents) -> Response:
        reports.host_changed(body)
        return Response(status_code=204)

    return app
