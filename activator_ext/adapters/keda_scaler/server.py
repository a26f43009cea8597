"""The gRPC server: where it listens, its limits, and an end that lets KEDA come back at once."""

import ipaddress
from collections.abc import Callable
from types import TracebackType
from typing import Self

import grpc
import grpc.aio

from activator_ext.adapters.keda_scaler.floors import Floors
from activator_ext.adapters.keda_scaler.service import MAX_STREAMS, ExternalScaler
from activator_ext.adapters.keda_scaler.tls import TlsFiles, credentials

MAX_MESSAGE_BYTES = 64 * 1024
"""A request is one trigger's metadata: KEDA's are some hundred bytes."""
GRACE_S = 2.0
"""What calls under way get at the end."""

_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.so_reuseport", 0),  # a second scaler on the address is an error, not a sharer
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_concurrent_streams", MAX_STREAMS),
    # A KEDA that vanished without a word is noticed after 40 s, and its streams end.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
)


class CannotListen(Exception):
    """The address is not taken; the message names it and the fix."""


class ScalerServer:
    """Serves `floors` to KEDA on `listen` (HOST:PORT; port 0: any). Without `tls`: loopback only, or with `plain`."""

    def __init__(
        self,
        floors: Floors,
        listen: str,
        *,
        tls: TlsFiles | None = None,
        plain: bool = False,
        report: Callable[[str], None],
    ) -> None:
        self._host, self._asked_port = _address(listen)
        if tls is None and not plain and not _is_loopback(self._host):
            raise CannotListen(
                f"{listen} can be reached from elsewhere: give --tls-cert, --tls-key and --client-ca, or --plain where "
                "something else (a mesh) sees to who asks"
            )
        self._tls = tls
        self._scaler = ExternalScaler(floors, report)
        self._server: grpc.aio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        await self.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.end()

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return self._scaler.streams.count

    async def begin(self) -> None:
        """Listen. Raises CannotListen, or BadFiles of `tls`."""
        server = grpc.aio.server(options=_OPTIONS, handlers=(self._scaler.handler(),))
        address = f"{self._host}:{self._asked_port}"
        try:
            if self._tls is None:
                self.port = server.add_insecure_port(address)
            else:
                self.port = server.add_secure_port(address, credentials(self._tls))
        except RuntimeError as error:
            raise CannotListen(f"cannot listen on {address}: name another with --listen ({error})") from error
        await server.start()
        self._server = server

    async def end(self) -> None:
        """Stop: streams end cleanly, so that KEDA asks again after 2 s and not after up to a minute."""
        if self._server is None:
            return
        server, self._server = self._server, None
        self._scaler.streams.end_all()
        await server.stop(GRACE_S)


def _address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise CannotListen(f"{listen!r} is no address: write HOST:PORT, such as 127.0.0.1:9090 or [::1]:9090")
    return host or "127.0.0.1", int(port)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
