"""Our two HTTP servers inside `up`: the API on loopback and the unix socket for host and portal."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from activator_ext.app.api.connection import connection_options


class AddressTaken(Exception):
    """The address cannot be listened on; the message names it and the option that changes it."""


class Server(uvicorn.Server):
    """A uvicorn server on a socket that is already bound; signals stay with `up`, which stops things in order."""

    def __init__(self, app: FastAPI, bound: socket.socket) -> None:
        # Of the unix socket only our own processes know; the other end of a TCP connection may be anybody here.
        options = {} if bound.family == socket.AF_UNIX else connection_options()
        super().__init__(
            uvicorn.Config(
                app, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=2, **options
            )
        )
        self._bound = bound
        self._task: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signal handlers of the process alone."""
        yield

    async def begin(self) -> None:
        """Serve in the background."""
        self._task = asyncio.create_task(self.serve(sockets=[self._bound]))
        while not self.started and not self._task.done():  # noqa: ASYNC110 — uvicorn offers a flag, no event
            await asyncio.sleep(0.01)

    async def end(self) -> None:
        """Stop serving; open answers get two seconds."""
        self.should_exit = True
        if self._task is not None:
            await self._task
        self._bound.close()


_LOOPBACK = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "[::1]": "::1", "": "127.0.0.1"}


def loopback(address: str, option: str) -> tuple[str, int]:
    """`HOST:PORT` as host and port; a bare port means 127.0.0.1. Raises AddressTaken unless it is loopback."""
    host, _, port = address.rpartition(":")
    if host not in _LOOPBACK or not port.isdecimal() or int(port) > 65535:
        raise AddressTaken(
            f"cannot listen on {address}: write {option} HOST:PORT with HOST one of localhost, 127.0.0.1, [::1] and a "
            "port up to 65535. Local mode listens on this machine only; let a reverse proxy face the network"
        )
    return _LOOPBACK[host], int(port)


def bind_tcp(address: str, option: str) -> socket.socket:
    """Listen on a loopback `HOST:PORT`; port 0 takes any free one. Raises AddressTaken, naming `option`."""
    host, port = loopback(address, option)
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise AddressTaken(f"cannot listen on {address}: {error}. Choose another with {option} HOST:PORT") from error
    bound.set_inheritable(False)
    return bound


def bind_unix(path: Path) -> socket.socket:
    """Listen on a unix socket of mode 0600; a dead one in its place is removed (the state directory's lock is ours).

    Raises AddressTaken.
    """
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        path.unlink(missing_ok=True)
        bound.bind(str(path))
    except OSError as error:
        bound.close()
        raise AddressTaken(f"cannot listen on {path}: {error}. Remove it, or choose another --state") from error
    finally:
        os.umask(mask)
    return bound


def address_of(bound: socket.socket) -> str:
    """`http://host:port` of a bound TCP socket."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
