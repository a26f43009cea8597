"""The portal's own small API, on a unix socket that only its user may open: health, metrics, stop."""

import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import web

Answer = Callable[[], dict[str, object]]


class AddressTaken(Exception):
    """Somebody listens there already; the message says where and what to do."""


def admin_app(health: Answer, metrics: Callable[[], bytes], stop: Callable[[], None]) -> web.Application:
    """`GET /healthz` · `GET /metrics` · `POST /stop` (drain, then exit)."""

    async def on_health(_request: web.Request) -> web.Response:
        return web.json_response(health())

    async def on_metrics(_request: web.Request) -> web.Response:
        return web.Response(body=metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def on_stop(_request: web.Request) -> web.Response:
        stop()
        return web.json_response({"stopping": True}, status=202)

    handlers: list[tuple[str, str, Callable[[web.Request], Awaitable[web.Response]]]] = [
        ("GET", "/healthz", on_health),
        ("GET", "/metrics", on_metrics),
        ("POST", "/stop", on_stop),
    ]
    app = web.Application()
    for method, path, handler in handlers:
        app.router.add_route(method, path, handler)
    return app


def bind_unix(path: Path) -> socket.socket:
    """A socket at `path` with mode 0600; a dead one is replaced. Raises AddressTaken if somebody answers on it."""
    if path.is_socket():
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(str(path)) == 0:
                raise AddressTaken(f"a portal answers on {path} already: stop it or choose another --admin")
        path.unlink()
    listener = socket.socket(socket.AF_UNIX)
    # The mode must be right from the first moment on, so it comes from the umask and not from a later chmod.
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        raise AddressTaken(f"cannot listen on {path} ({error.strerror or error}): choose another --admin") from error
    finally:
        os.umask(before)
    listener.setblocking(False)
    return listener


def bind_loopback(host: str, port: int) -> socket.socket:
    """A TCP listener; raises AddressTaken if the port is not free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        message = f"cannot listen on {host}:{port} ({error.strerror or error}): choose another --listen"
        raise AddressTaken(message) from error
