"""What every client can do here, and what it tells of it."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Heard:
    """What became of one question. `status` 0: the client has none. `error`: how the client itself names a failure."""

    status: int
    text: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """One chat request to `base`/chat/completions.

    `patience_s`: the client's own timeout. `leave`: go away after the first word of a stream. `retries`: how often the
    client may ask again by itself, if it can. `size_bytes`: about how large the body is.
    """

    base: str
    model: str
    stream: bool = False
    patience_s: float = 30.0
    leave: bool = False
    retries: int = 0
    size_bytes: int = 0

    @property
    def url(self) -> str:
        """Where it is sent."""
        return f"{self.base}/chat/completions"

    @property
    def content(self) -> str:
        """What is asked."""
        return "hello? " + "x" * self.size_bytes

    def body(self) -> bytes:
        """As JSON."""
        messages = [{"role": "user", "content": self.content}]
        return json.dumps({"model": self.model, "messages": messages, "stream": self.stream}).encode()


class Client(Protocol):
    """One client in one way of use."""

    @property
    def name(self) -> str:
        """As the table shows it."""

    @property
    def retries(self) -> bool:
        """Whether it asks again by itself when told `Retry-After`."""

    def ask(self, question: Question) -> Heard:
        """Ask, and tell what came of it; raises nothing that the client raises."""


def said(body: bytes | str) -> str:
    """The words of a whole answer."""
    return str(json.loads(body)["choices"][0]["message"]["content"])


def words(lines: Iterable[bytes | str]) -> Iterator[str]:
    """The words of a stream, line by line; comments are passed over, an error event is told as it is."""
    for each in lines:
        line = each.decode() if isinstance(each, bytes) else each
        if not line.startswith("data: ") or "[DONE]" in line:
            continue
        event = json.loads(line.removeprefix("data: "))
        yield str(event["error"]["message"]) if "error" in event else str(event["choices"][0]["delta"]["content"])


def heard(status: int, question: Question, lines: Iterable[bytes | str], whole: bytes | str = b"") -> Heard:
    """From a status and either a stream's lines or a whole body."""
    if status != 200:
        return Heard(status, json.loads(whole)["error"]["message"], f"{status}")
    if not question.stream:
        return Heard(status, said(whole))
    text = ""
    for word in words(lines):
        text += word
        if question.leave:
            break
    return Heard(status, text)
