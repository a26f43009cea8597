"""What an engine says to the clients: a chat answer, whole or as a stream, and the ways in which it goes wrong."""

import json
import threading

from tests.http.engine import Seat
from tests.http.house import chunked
from tests.http.wire import SOON_S

WORDS = ("hel", "lo")
_COMMON = {"id": "c", "created": 1, "model": "chat"}


def _head(content_type: str, *lines: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Type: {content_type}", *lines, "", ""]).encode()


def _event(word: str) -> bytes:
    choices = [{"index": 0, "delta": {"content": word}}]
    return f"data: {json.dumps({**_COMMON, 'object': 'chat.completion.chunk', 'choices': choices})}\n\n".encode()


def _whole() -> bytes:
    message = {"role": "assistant", "content": "".join(WORDS)}
    choices = [{"index": 0, "finish_reason": "stop", "message": message}]
    return json.dumps({**_COMMON, "object": "chat.completion", "choices": choices}).encode()


def _json(body: bytes, status: str = "200 OK") -> bytes:
    return _head("application/json", f"Content-Length: {len(body)}", status=status) + body


def _begin() -> bytes:
    return _head("text/event-stream", "Transfer-Encoding: chunked") + chunked(_event(WORDS[0]))[:-5]


def chat(seat: Seat) -> None:
    """Answers as vLLM does."""
    while True:
        if json.loads(seat.request().body).get("stream") is True:
            seat.send(_begin(), chunked(_event(WORDS[1]), b"data: [DONE]\n\n"))
        else:
            seat.send(_json(_whole()))


def errs(seat: Seat) -> None:
    """Answers 500, as vLLM does when a request cannot be computed."""
    while True:
        seat.request()
        error = {"message": "the engine is unwell", "type": "InternalServerError", "code": 500}
        seat.send(_json(json.dumps({"error": error}).encode(), "500 Internal Server Error"))


def breaks_off(seat: Seat) -> None:
    """Dies after the first word of a stream."""
    seat.request()
    seat.send(_begin())


class Watched:
    """Says one word and waits; `left` is set when nobody listens any more."""

    def __init__(self) -> None:
        self.left = threading.Event()

    def __call__(self, seat: Seat) -> None:
        """The script."""
        seat.request()
        seat.send(_begin())
        seat.gone()
        self.left.set()

    def saw_it_leave(self) -> bool:
        """Whether it did, soon."""
        return self.left.wait(SOON_S)
