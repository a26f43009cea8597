"""A client's connection as raw bytes: sends exactly what it is given, and reads answers more strictly than any client.

Whatever an answer does against RFC 9112 raises BadAnswer; an answer that breaks off is returned with `whole` False.
"""

import contextlib
import json
import re
import select
import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

SOON_S = 10.0  # far more than anything here needs: a read that takes so long has failed

_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2}) ([\t\x20-\x7e\x80-\xff]*)")
_FIELD = re.compile(
    rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*"
    rb"([\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?|)[ \t]*"
)
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,16}")

Address = tuple[str, int] | str
Framing = Literal["none", "length", "chunked", "close"]


class BadAnswer(AssertionError):
    """The answer is not HTTP/1.1."""


class OnlyInterim(BadAnswer):
    """The other side closed after an interim answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One final answer. `interim`: the 1xx statuses before it. `whole` False: it broke off visibly."""

    status: int
    version: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    framing: Framing
    whole: bool = True
    interim: tuple[int, ...] = ()

    def all(self, name: str) -> list[str]:
        """Every value of a header, in order."""
        return [value for known, value in self.headers if known.lower() == name.lower()]

    def header(self, name: str) -> str | None:
        """A header that may stand there once."""
        values = self.all(name)
        assert len(values) <= 1, f"{name} stands there {len(values)} times"
        return values[0] if values else None

    @property
    def closes(self) -> bool:
        """Whether the answer says that its connection ends with it."""
        options = [option.strip().lower() for value in self.all("connection") for option in value.split(",")]
        return "close" in options or (self.version == "1.0" and "keep-alive" not in options)

    def error(self) -> dict[str, Any]:
        """What OpenAI clients read of a refusal: an object with message, type and code."""
        assert self.header("content-type") in ("application/json", "application/json; charset=utf-8"), self
        said = json.loads(self.body)["error"]
        assert said["message"], self
        assert said["type"], self
        assert said["code"], self
        return dict(said)


@dataclass
class Line:
    """One connection to `address` (TCP, or the path of a unix socket). Close it, or use `dial`."""

    address: Address
    _socket: socket.socket = field(init=False)
    _rest: bytes = b""
    _ended: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.address, str):
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.settimeout(SOON_S)
            try:
                self._socket.connect(self.address)
            except OSError:
                self._socket.close()
                raise
            return
        self._socket = socket.create_connection(self.address, timeout=SOON_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, *pieces: bytes) -> None:
        """Each piece as a segment of its own, as far as the kernel agrees; a peer that has closed is no error here."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for piece in pieces:
                self._socket.sendall(piece)

    def push(self, size_bytes: int, *, quiet_s: float) -> int:
        """See `push`."""
        return push(self._socket, size_bytes, quiet_s=quiet_s)

    def answer(self, method: str = "GET") -> Answer:
        """The next final answer; `method` HEAD has no body whatever its head says."""
        interim: list[int] = []
        while True:
            status, version, headers = self._head()
            if status >= 200:
                break
            interim.append(status)
            if not (self._rest or self._more()):
                raise OnlyInterim(f"it ended after {interim}")
        body, framing, whole = self._body(status, headers, method)
        return Answer(status, version, headers, body, framing, whole, tuple(interim))

    def interim(self) -> int:
        """The next 1xx answer."""
        status, _, _ = self._head()
        assert 100 <= status < 200, f"a final answer, {status}, where an interim one was due"
        return status

    def until(self, mark: bytes) -> bytes:
        """Everything up to and with `mark`, as it stands on the wire."""
        while mark not in self._rest:
            if not self._more():
                raise BadAnswer(f"it ended without {mark!r}: {self._rest[:500]!r}")
        before, _, self._rest = self._rest.partition(mark)
        return before + mark

    def drain(self) -> int:
        """Read until the end without keeping anything; the number of bytes."""
        size, self._rest = len(self._rest), b""
        while self._more():
            size, self._rest = size + len(self._rest), b""
        return size

    def ended(self) -> bytes:
        """Wait for the other side to close; what it said before that."""
        while self._more():
            pass
        rest, self._rest = self._rest, b""
        return rest

    def answers(self) -> list[Answer]:
        """Every answer until the other side closes."""
        found = []
        while answer := self.next():
            found.append(answer)
        return found

    def next(self) -> Answer | None:
        """The next final answer; None if the other side closes instead, also after a 100 for a body that never came."""
        try:
            return self.answer() if self._rest or self._more() else None
        except OnlyInterim:
            return None

    def readable(self, within_s: float) -> bool:
        """Whether the other side says something, or closes, within so many seconds."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(self._rest) or bool(poll.poll(1000 * within_s))

    def half_close(self) -> None:
        """Say that nothing more will be sent."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Leave as a killed process or a lost network does: with a reset."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def close(self) -> None:
        """Leave."""
        self._socket.close()

    def _more(self) -> bool:
        if self._ended:
            return False
        try:
            piece = self._socket.recv(2**18)
        except ConnectionResetError:
            piece = b""
        self._ended = not piece
        self._rest += piece
        return bool(piece)

    def _take(self, size: int) -> bytes:
        while len(self._rest) < size and self._more():
            pass
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    def _head(self) -> tuple[int, str, tuple[tuple[str, str], ...]]:
        first, *lines = self.until(b"\r\n\r\n")[:-4].split(b"\r\n")
        status_line = _STATUS_LINE.fullmatch(first)
        if not status_line:
            raise BadAnswer(f"status line {first!r}")
        return int(status_line[2]), f"1.{status_line[1].decode()}", fields(lines)

    def _body(self, status: int, headers: tuple[tuple[str, str], ...], method: str) -> tuple[bytes, Framing, bool]:
        sizes = [value for name, value in headers if name.lower() == "content-length"]
        codings = [value for name, value in headers if name.lower() == "transfer-encoding"]
        if len(sizes) > 1 or (sizes and codings) or codings not in ([], ["chunked"]):
            raise BadAnswer(f"its length is told twice or strangely: {headers}")
        if method == "HEAD" or status in (204, 304):
            if codings or (sizes and status == 204):
                raise BadAnswer(f"a length for an answer that has no body: {headers}")
            return b"", "none", True
        if codings:
            return self._chunks()
        if not sizes:
            return self.ended(), "close", True
        if not sizes[0].isdecimal():
            raise BadAnswer(f"Content-Length: {sizes[0]}")
        body = self._take(int(sizes[0]))
        return body, "length", len(body) == int(sizes[0])

    def _chunks(self) -> tuple[bytes, Framing, bool]:
        body = bytearray()
        while True:
            while b"\r\n" not in self._rest:
                if not self._more():
                    return bytes(body), "chunked", False
            size_line, _, self._rest = self._rest.partition(b"\r\n")
            if not _CHUNK_SIZE.fullmatch(size_line):
                raise BadAnswer(f"chunk size {size_line!r}")
            size = int(size_line, 16)
            piece = self._take(size + 2)
            body += piece[:size]
            if len(piece) < size + 2:
                return bytes(body), "chunked", False
            if piece[size:] != b"\r\n":
                raise BadAnswer(f"after a chunk (or for trailers, which nobody asked for): {piece[size:]!r}")
            if size == 0:
                return bytes(body), "chunked", True


def fields(lines: Iterable[bytes]) -> tuple[tuple[str, str], ...]:
    """Header lines as names and values; raises BadAnswer for one that a strict parser refuses."""
    found = []
    for line in lines:
        parts = _FIELD.fullmatch(line)
        if not parts:
            raise BadAnswer(f"header line {line!r}")
        found.append((parts[1].decode(), parts[2].decode("latin-1")))
    return tuple(found)


def push(to: socket.socket, size_bytes: int, *, quiet_s: float) -> int:
    """Send zeros until all are taken, or nothing is for `quiet_s` seconds, or the peer left; how many were taken."""
    block, taken = bytes(2**16), 0
    to.settimeout(quiet_s)
    try:
        while taken < size_bytes:
            taken += to.send(block[: size_bytes - taken])
    except (TimeoutError, BrokenPipeError, ConnectionResetError):
        return taken
    finally:
        to.settimeout(SOON_S)
    return taken


@contextlib.contextmanager
def dial(address: Address) -> Iterator[Line]:
    """A Line that is closed in the end."""
    line = Line(address)
    try:
        yield line
    finally:
        line.close()
