"""The paths of the API: each hands its question to the facade and its answer back, and decides nothing."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Header, Path, Query, Response
from fastapi.responses import HTMLResponse, PlainTextResponse
from fastapi.security import HTTPBearer
from pydantic import AwareDatetime

from activator_ext.app.api.docs_page import CONTENT_SECURITY_POLICY, docs_page
from activator_ext.app.api.errors import ErrorView, NotFound, add_error_handlers
from activator_ext.app.api.guard import LOOPBACK_HOSTS, Guard
from activator_ext.app.api.limits import Limits
from activator_ext.app.views import (
    ControllerFacade,
    EventView,
    HoldRequest,
    HoldView,
    PlanView,
    PreviewView,
    ServiceStatus,
)
from activator_ext.core.model import ServiceId
from runtime.contract import StartRecord

_DESCRIPTION = """\
When models are warm, why, and how long their starts take. Durations are seconds, instants RFC 3339 in UTC.
Every path but /healthz, /readyz, /docs and /openapi.json wants `Authorization: Bearer TOKEN`, TOKEN being the content
of the file `token` in the state directory. Refusals are `{"error": {"code", "message"}}`."""

_REFUSALS: dict[int | str, dict[str, Any]] = {
    401: {"model": ErrorView, "description": "No or another token."},
    403: {"model": ErrorView, "description": "A Host header that does not name this API."},
    408: {"model": ErrorView, "description": "The body did not come whole in time."},
    413: {"model": ErrorView, "description": "The body is too large."},
    414: {"model": ErrorView, "description": "Path and query are too long."},
    422: {"model": ErrorView, "description": "A field that cannot be read; the message names it."},
    503: {"model": ErrorView, "description": "The history cannot be used now; ask again."},
}
_UNKNOWN: dict[int | str, dict[str, Any]] = {404: {"model": ErrorView, "description": "There is none of that name."}}
_INVALID: dict[int | str, dict[str, Any]] = {400: {"model": ErrorView, "description": "It cannot be carried out."}}

_Namespace = Annotated[str, Path(alias="ns", description="Namespace of the service.")]
_Name = Annotated[str, Path(description="Name of the service.")]
_Limit = Annotated[int, Query(ge=1, le=500, description="At most so many, the newest.")]


def build_api(
    facade: ControllerFacade, token: str, version: str, *, hosts: tuple[str, ...] = LOOPBACK_HOSTS
) -> FastAPI:
    """The API over a controller.

    `token` guards every path that tells of services; an empty one raises ValueError, for it would open them to all.
    `hosts` are the names (without port) that a Host header may carry.
    """
    if not token:
        raise ValueError("an empty token would open the API to everybody: make one first")
    app = FastAPI(title="Pilotlight", version=version, description=_DESCRIPTION, docs_url=None, redoc_url=None)
    # The last one added is asked first: who may not speak is not listened to for long.
    app.add_middleware(Limits)
    app.add_middleware(Guard, token=token, hosts=hosts)
    add_error_handlers(app)
    _add_health(app, facade)
    _add_docs(app)
    for router in (_services(facade), _holds(facade), _record(facade)):
        app.include_router(router, dependencies=[Depends(_bearer)], responses=_REFUSALS)
    return app


# Guard has checked the token before any route is reached; this one only tells it to the OpenAPI page.
_bearer = HTTPBearer(auto_error=False, description="The content of the file `token` in the state directory.")


def _services(facade: ControllerFacade) -> APIRouter:
    router = APIRouter(prefix="/v1/services", tags=["services"])

    @router.get("", summary="Every service, by name")
    async def services() -> list[ServiceStatus]:
        return facade.services()

    @router.get(
        "/{ns}/{name}", summary="One service: how warm, what is wanted, why, what comes next", responses=_UNKNOWN
    )
    async def service(namespace: _Namespace, name: _Name) -> ServiceStatus:
        return facade.service(ServiceId(namespace, name))

    @router.get(
        "/{ns}/{name}/starts", summary="Its newest starts first, the one under way included", responses=_UNKNOWN
    )
    async def starts(namespace: _Namespace, name: _Name, limit: _Limit = 20) -> list[StartRecord]:
        return facade.starts(ServiceId(namespace, name), limit)

    @router.get("/{ns}/{name}/preview", summary="When it will be warm, by plan", responses=_UNKNOWN | _INVALID)
    def preview(  # in a thread: a year of a schedule for each minute takes seconds
        namespace: _Namespace,
        name: _Name,
        days: Annotated[float, Query(gt=0, le=366, description="How many days to look ahead.")] = 14,
        start: Annotated[
            AwareDatetime | None, Query(alias="from", description="Where to begin; now if absent.")
        ] = None,
    ) -> PreviewView:
        return facade.preview(ServiceId(namespace, name), start, days)

    return router


def _holds(facade: ControllerFacade) -> APIRouter:
    router = APIRouter(prefix="/v1/holds", tags=["holds"])

    @router.get("", summary="Every hold that has not expired, and those that expired in the last day")
    async def holds() -> list[HoldView]:
        return facade.holds()

    @router.post("", status_code=201, summary="Ask for a floor until a time", responses=_UNKNOWN | _INVALID)
    async def add_hold(
        request: HoldRequest,
        idempotency_key: Annotated[
            str | None,
            Header(min_length=1, max_length=255, description="Sent again, it gives the same hold, not a second one."),
        ] = None,
    ) -> HoldView:
        return await facade.add_hold(request, idempotency_key)

    @router.delete("/{hold_id}", status_code=204, summary="End a hold now", responses=_UNKNOWN)
    async def release_hold(hold_id: str) -> None:
        if not await facade.release_hold(hold_id):
            raise NotFound(f"no hold {hold_id} to release: it has ended or never was; GET /v1/holds lists them")

    return router


def _record(facade: ControllerFacade) -> APIRouter:
    router = APIRouter(tags=["what was decided and what happened"])

    @router.get("/v1/plan", summary="The last decision, whole")
    async def plan() -> PlanView:
        return facade.plan()

    @router.get("/v1/starts/{start_id}", summary="One start with its marks and stages", responses=_UNKNOWN)
    async def start(start_id: str) -> StartRecord:
        found = facade.start(start_id)
        if found is None:
            raise NotFound(
                f"no start {start_id}: the newest are kept; GET /v1/services/{{ns}}/{{name}}/starts lists them"
            )
        return found

    @router.get("/v1/events", summary="Events after a seq, oldest first")
    async def events(
        after: Annotated[
            int, Query(ge=-(2**53), le=2**53, description="Events with a greater seq; −50 means the newest 50.")
        ] = 0,
        limit: Annotated[int, Query(ge=1, le=1000, description="At most so many.")] = 100,
    ) -> list[EventView]:
        return facade.events(after, limit)

    @router.get("/metrics", response_class=PlainTextResponse, summary="Controller and portal, for Prometheus")
    async def metrics() -> Response:
        return Response(await facade.metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router


def _add_health(app: FastAPI, facade: ControllerFacade) -> None:
    @app.get("/healthz", response_class=PlainTextResponse, tags=["health"], summary="The process answers")
    async def healthz() -> str:
        return "ok\n"

    @app.get(
        "/readyz",
        response_class=PlainTextResponse,
        tags=["health"],
        summary="It has decided, and host and portal are reachable",
        responses={503: {"description": "Not ready; the text says what is missing.", "content": {"text/plain": {}}}},
    )
    async def readyz() -> PlainTextResponse:
        missing = facade.ready()
        if missing is None:
            return PlainTextResponse("ready\n")
        return PlainTextResponse(f"not ready: {missing}\n", status_code=503)


def _add_docs(app: FastAPI) -> None:
    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        page = docs_page(app.openapi())
        return HTMLResponse(page, headers={"Content-Security-Policy": CONTENT_SECURITY_POLICY})
