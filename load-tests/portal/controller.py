"""A controller for the portal under test: tells it the four services, takes its reports, on a unix socket."""

import contextlib
import sys
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer

from portal.bodies import MODELS
from runtime.contract import Endpoint, Route, RouteTable, Warmth


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, path: Path, snapshot: bytes) -> None:
        super().__init__(str(path), _Handler)
        self.snapshot = snapshot
        self.ending = threading.Event()

    def handle_error(self, request: object, client_address: object) -> None:
        """A portal that ends in the middle of a report is no error here; all else is."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # typed for each kind of socket


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        """`/v1/routes`: the whole table, then silence until the bench ends."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b"event: snapshot\ndata: " + self.server.snapshot + b"\n\n")
        self.server.ending.wait()

    def do_POST(self) -> None:
        """`/v1/internal/portal`: a report, read and forgotten."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()

    def address_string(self) -> str:
        """Peers on a unix socket have no address, and the base class expects one."""
        return "portal"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 — the base class's name for it
        """No line for each report."""


@contextlib.contextmanager
def controller(socket: Path, engine_ports: Sequence[int]) -> Iterator[None]:
    """Serve the table that routes each model to its engine, while the block runs."""
    table = RouteTable(version=1, routes=tuple(_route(m, p) for m, p in zip(MODELS, engine_ports, strict=True)))
    server = _Server(socket, table.model_dump_json().encode())
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.ending.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _route(model: str, port: int) -> Route:
    service = f"bench/{model}"
    return Route(
        service=service,
        names=(service, model),
        warmth=Warmth.WARM,
        endpoints=(Endpoint(replica=f"{service}/0", url=f"http://127.0.0.1:{port}"),),
        created_at=datetime.now(UTC),
    )
