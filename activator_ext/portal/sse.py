"""Server-sent events as bytes: read those of the controller, write those to a waiting client."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """One event; `name` is `message` where the sender gave none."""

    name: str
    data: str


class Parser:
    """Turns chunks, cut anywhere, into events. Comments, ids and retry hints are passed over."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that `chunk` completes."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for raw in lines:
            line = raw.rstrip(b"\r").decode()
            if line:
                self._field(line)
                continue
            if self._data:
                yield Event(self._name or "message", "\n".join(self._data))
            self._name, self._data = "", []

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._name = value
        elif name == "data":
            self._data.append(value)


def comment(text: str) -> bytes:
    """A comment, which every client passes over; the empty line makes strict readers take it at once."""
    return f": {text}\n\n".encode()


def data(body: bytes) -> bytes:
    """`body` as one data event, whatever line ends it has."""
    return b"".join(b"data: " + line + b"\n" for line in body.splitlines() or [b""]) + b"\n"
