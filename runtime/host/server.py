"""The host's admin API on a unix socket: the socket file's mode 0600 is the credential."""

from collections.abc import Callable
from typing import TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError

from runtime.contract import HostView, Lease, ServiceOrder, Stop
from runtime.host.supervisor import Supervisor

_M = TypeVar("_M", bound=BaseModel)


class AdminApi:
    """The routes of `runtime.contract`. `renew` takes a new lease, `stop` begins the end of the host."""

    def __init__(
        self, supervisor: Supervisor, *, renew: Callable[[Lease], None], stop: Callable[[float], None]
    ) -> None:
        self._supervisor = supervisor
        self._renew = renew
        self._stop = stop

    def app(self) -> web.Application:
        """The application, to be bound to a socket."""
        app = web.Application(client_max_size=4 * 2**20)
        service = "/v1/services/{namespace}/{name}"
        app.router.add_get("/v1/host", self._get_host)
        app.router.add_put("/v1/host/lease", self._put_lease)
        app.router.add_post("/v1/host/stop", self._post_stop)
        app.router.add_put(service, self._put_service)
        app.router.add_delete(service, self._delete_service)
        app.router.add_post(f"{service}/wake", self._post_wake)
        return app

    async def _get_host(self, _: web.Request) -> web.Response:
        return _json(self._supervisor.view())

    async def _put_lease(self, request: web.Request) -> web.Response:
        self._renew(await _body(request, Lease))
        return _json(self._supervisor.view())

    async def _put_service(self, request: web.Request) -> web.Response:
        order = await _body(request, ServiceOrder)
        if order.spec.service != _service(request):
            message = f"the path names {_service(request)}, the order {order.spec.service}"
            raise web.HTTPBadRequest(text=message)
        if self._supervisor.stopping:
            raise web.HTTPConflict(text="this host is stopping and takes no orders")
        self._supervisor.order(order)
        return web.Response(status=204)

    async def _delete_service(self, request: web.Request) -> web.Response:
        self._supervisor.forget(_service(request))
        return web.Response(status=204)

    async def _post_wake(self, request: web.Request) -> web.Response:
        if not self._supervisor.wake(_service(request)):
            message = f"{_service(request)} has no order at this host; the controller gives it one"
            raise web.HTTPNotFound(text=message)
        return _json(self._supervisor.view())

    async def _post_stop(self, request: web.Request) -> web.Response:
        self._stop((await _body(request, Stop)).drain_s)
        return _json(self._supervisor.view(), status=202)


def _service(request: web.Request) -> str:
    return f"{request.match_info['namespace']}/{request.match_info['name']}"


def _json(view: HostView, *, status: int = 200) -> web.Response:
    return web.Response(text=view.model_dump_json(), content_type="application/json", status=status)


async def _body(request: web.Request, model: type[_M]) -> _M:
    try:
        return model.model_validate_json(await request.read())
    except ValidationError as error:
        raise web.HTTPBadRequest(text=f"the body is no {model.__name__}: {error}") from error
