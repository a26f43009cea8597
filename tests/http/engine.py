"""A scripted engine on loopback: it answers exact bytes, and judges strictly what the portal sends it."""

import contextlib
import re
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.http.wire import SOON_S, fields, push

_REQUEST_LINE = re.compile(rb"(GET|POST) (/[\x21-\x7e]*) HTTP/1\.1")

HELLO = b'{"said": "hello"}'
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(HELLO), HELLO)


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as the engine read it; `connection` counts from 0."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    connection: int

    def all(self, name: str) -> list[str]:
        """Every value of a header, in order."""
        return [value for known, value in self.headers if known.lower() == name.lower()]


class Ended(Exception):
    """The portal closed the connection."""


@dataclass
class Seat:
    """One connection of the portal to the engine, for a script to use. `raw` is every byte that came."""

    number: int
    engine: "Engine"
    _socket: socket.socket
    raw: bytearray = field(default_factory=bytearray)
    _rest: bytes = b""

    def request(self) -> Seen:
        """The next request, whole; raises Ended."""
        method, target, headers = self.head()
        return self.rest(method, target, headers)

    def head(self) -> tuple[str, str, tuple[tuple[str, str], ...]]:
        """The next request's head; its body is still to be read."""
        first, *lines = self._until(b"\r\n\r\n").split(b"\r\n")
        request_line = _REQUEST_LINE.fullmatch(first)
        assert request_line, f"request line {first!r}"
        headers = fields(lines)
        assert sum(name.lower() == "host" for name, _ in headers) == 1, headers
        return request_line[1].decode(), request_line[2].decode(), headers

    def rest(self, method: str, target: str, headers: tuple[tuple[str, str], ...]) -> Seen:
        """Its body; the request then counts as seen."""
        sizes = [value for name, value in headers if name.lower() == "content-length"]
        codings = [value for name, value in headers if name.lower() == "transfer-encoding"]
        assert len(sizes) + len(codings) <= 1, headers
        assert codings in ([], ["chunked"]), headers
        body = self._chunks() if codings else self._take(int(sizes[0])) if sizes else b""
        seen = Seen(method, target, headers, body, self.number)
        with self.engine.news:
            self.engine.seen.append(seen)
            self.engine.news.notify_all()
        return seen

    def send(self, *pieces: bytes) -> None:
        """Exactly these bytes; a portal that has left is no error."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for piece in pieces:
                self._socket.sendall(piece)

    def push(self, size_bytes: int, *, quiet_s: float) -> int:
        """See `wire.push`."""
        return push(self._socket, size_bytes, quiet_s=quiet_s)

    def gone(self) -> None:
        """Wait until the portal has closed the connection; it must not say anything more."""
        with contextlib.suppress(ConnectionResetError):
            piece = self._socket.recv(2**16)
            assert not piece, f"where it should have closed, the portal sent {piece[:200]!r}"

    def gone_after_reading(self) -> None:
        """Read whatever still comes, until the portal has closed the connection."""
        with contextlib.suppress(ConnectionResetError):
            while self._socket.recv(2**18):
                pass

    def reset(self) -> None:
        """Die: the portal gets a reset."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def close(self) -> None:
        """Close in order."""
        self._socket.close()

    def unblock(self) -> None:
        """Let whoever reads or writes here end at once."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _more(self) -> None:
        try:
            piece = self._socket.recv(2**18)
        except ConnectionResetError:
            piece = b""
        if not piece:
            raise Ended
        self.raw += piece
        self._rest += piece

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._rest:
            self._more()
        before, _, self._rest = self._rest.partition(mark)
        return before

    def _take(self, size: int) -> bytes:
        parts = [self._rest[:size]]
        self._rest = self._rest[size:]
        missing = size - len(parts[0])
        while missing:
            self._more()
            parts.append(self._rest[:missing])
            self._rest = self._rest[missing:]
            missing -= len(parts[-1])
        return b"".join(parts)

    def _chunks(self) -> bytes:
        body = bytearray()
        while size := int(self._until(b"\r\n"), 16):
            body += self._take(size)
            assert self._take(2) == b"\r\n"
        assert self._take(2) == b"\r\n", "trailers"
        return bytes(body)


Script = Callable[[Seat], None]


def says(*pieces: bytes, close: bool = False) -> Script:
    """Answers each request with these bytes; `close`: only one on each connection."""

    def script(seat: Seat) -> None:
        while True:
            seat.request()
            seat.send(*pieces)
            if close:
                return

    return script


hello = says(OK)


class Engine:
    """Listens at `url`; runs `script` for each connection in a thread of its own, and closes the connection after it.

    `faults` holds whatever a script raised: a test that ends with one has failed.
    """

    def __init__(self, script: Script = hello) -> None:
        self.script = script
        self.seen: list[Seen] = []
        self.seats: list[Seat] = []
        self.faults: list[BaseException] = []
        self.news = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def raw(self) -> bytes:
        """Every byte that came, whatever its connection."""
        return b"".join(bytes(seat.raw) for seat in self.seats)

    def wait(self, count: int) -> list[Seen]:
        """Return once so many requests were seen."""
        with self.news:
            assert self.news.wait_for(lambda: len(self.seen) >= count, SOON_S), f"{len(self.seen)} of {count} came"
            return list(self.seen)

    def close(self) -> None:
        """End all threads."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join(SOON_S)
        self._listener.close()
        for seat in self.seats:
            seat.unblock()
        for thread in self._threads:
            thread.join(SOON_S)
            assert not thread.is_alive(), "a script hangs"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.settimeout(SOON_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            seat = Seat(len(self.seats), self, connection)
            self.seats.append(seat)
            thread = threading.Thread(target=self._serve, args=(seat,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, seat: Seat) -> None:
        try:
            self.script(seat)
        except Ended:
            return
        except BaseException as fault:  # it must reach the test, which looks at `faults`
            self.faults.append(fault)
        finally:
            seat.close()
