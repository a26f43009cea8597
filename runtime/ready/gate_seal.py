"""Readies an engine for an image of it, and gives a restored one its new host: runs inside the engine.

Sealed, it has no credential and listens on no address; its work and what it remembered of prompts are dropped. It waits
at a unix socket in its working directory, which is its user's alone, for one message: a new credential, and with it the
socket to listen on from then on. So each restore of one image has a credential and a port of its own, and no credential
is in any image.
"""

import asyncio
import json
import os
import socket
import struct
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from runtime.ready.gate_door import Door

SEAL_SOCKET: Final = "seal.sock"
"""Where a sealed engine waits, in its working directory."""
MOST_BYTES: Final = 4096
ANSWER_S: Final = 5.0
"""How long a host may take to say what it came to say."""
_CREDENTIALS: Final = struct.Struct("3i")

WORKERS_SEAL: Final = "pilotlight_seal"
WORKERS_WAKE: Final = "pilotlight_wake"
"""Methods that the plugin adds to vLLM's workers (runtime/engine/snapshot/worker.py)."""


class Sealer:
    """Seals the engine of this process, once. `clock`: the present instant."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._waiting: asyncio.Task[None] | None = None

    async def __call__(self, scope: Any, door: Door) -> None:
        """Drop what requests have left, stop listening, and wait for a new host in the background."""
        state = scope["app"].state
        await state.engine_client.reset_prefix_cache()
        await state.engine_client.collective_rpc(WORKERS_SEAL)
        for server in state.server.servers:
            server.close()
        state.server.servers = []
        listener = _listen()
        self._waiting = asyncio.create_task(self._renewed(state, door, listener), name="sealed")

    async def _renewed(self, state: Any, door: Door, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listener:
            while True:
                connection, _ = await loop.sock_accept(listener)
                with connection:
                    try:
                        credential, port = await asyncio.to_thread(_order, connection)
                        await state.engine_client.collective_rpc(WORKERS_WAKE)
                        door.renew(credential, self._clock())
                        await _serve(state.server, port)
                    except (OSError, ValueError, KeyError) as error:
                        _tell(connection, f"{type(error).__name__}: {error}")
                        continue
                    os.unlink(SEAL_SOCKET)
                    _tell(connection, "")
                    return


def _listen() -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(SEAL_SOCKET)
    finally:
        os.umask(before)
    listener.listen(1)
    listener.setblocking(False)
    return listener


def _order(connection: socket.socket) -> tuple[str, socket.socket]:
    """The new credential and the socket to listen on. Raises OSError, ValueError, KeyError."""
    connection.settimeout(ANSWER_S)
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    if _CREDENTIALS.unpack(told)[1] != os.getuid():
        raise PermissionError("only this engine's user may renew it")
    data, fds, _, _ = socket.recv_fds(connection, MOST_BYTES, 1)
    if len(fds) != 1:
        raise ValueError("a renewal carries one socket")
    return str(json.loads(data)["credential"]), socket.socket(fileno=fds[0])


async def _serve(server: Any, listener: socket.socket) -> None:
    """Have uvicorn's server answer on `listener`, as its own `startup` would."""
    config, loop = server.config, asyncio.get_running_loop()

    def protocol() -> asyncio.Protocol:
        made: asyncio.Protocol = config.http_protocol_class(
            config=config, server_state=server.server_state, app_state=server.lifespan.state
        )
        return made

    server.servers = [await loop.create_server(protocol, sock=listener, backlog=config.backlog)]


def _tell(connection: socket.socket, error: str) -> None:
    connection.settimeout(ANSWER_S)
    connection.sendall(json.dumps({"error": error}).encode())
