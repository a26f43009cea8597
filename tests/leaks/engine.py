"""A fake engine that begins in a tenth of a second: for thousands of starts. Standard library only, answers in chunks.

It stands in for `tests/fakes/engine.py` where only its number of starts matters; what it says is always the same.
"""

import json
import os
import signal
import socketserver
import sys
import threading
import time
from typing import Any

from runtime.engine.leash import leash_to_starter

TOKENS = [7, 11, 13, 17, 19, 23, 29, 31]


def _values(flag: str) -> list[str]:
    begin = sys.argv.index(flag) + 1
    ends = [i for i, word in enumerate(sys.argv) if i >= begin and word.startswith("--")]
    return sys.argv[begin : min(ends, default=len(sys.argv))]


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        while (line := self.rfile.readline().strip()) != b"":
            length = 0
            while (field := self.rfile.readline().strip()) != b"":
                if field.lower().startswith(b"content-length:"):
                    length = int(field.split(b":")[1])
            self._answer(line.split()[1].decode(), json.loads(self.rfile.read(length) or b"{}"))

    def _answer(self, path: str, asked: dict[str, Any]) -> None:
        server: Any = self.server
        if path == "/v1/models":
            self._whole({"data": [{"id": name} for name in server.names]})
        elif path == "/metrics":
            self._send(f'vllm:num_requests_running{{engine="0"}} {server.running}\n'.encode(), b"text/plain")
        elif "prompt" not in asked:
            self._whole({})
        else:
            server.running += 1
            try:
                self._stream() if asked.get("stream") else self._whole(
                    {"choices": [{"token_ids": TOKENS, "text": "t"}]}
                )
            finally:
                server.running -= 1

    def _whole(self, body: object) -> None:
        self._send(json.dumps(body).encode(), b"application/json")

    def _send(self, body: bytes, kind: bytes) -> None:
        self.wfile.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (kind, len(body), body)
        )

    def _stream(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for event in [b'data: {"choices": [{"text": "t"}]}\n\n'] * 20 + [b"data: [DONE]\n\n"]:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
            time.sleep(0.005)
        self.wfile.write(b"0\r\n\r\n")


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128
    running = 0

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients leave; that is what they are here for."""


def main() -> None:
    """Serve until SIGTERM; then let what runs finish."""
    leash_to_starter()
    server = _Server(("127.0.0.1", int(_values("--port")[0])), _Handler)
    server.names = _values("--served-model-name")  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.write(1, b"INFO:     Application startup complete.\n")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.sigwait({signal.SIGTERM})
    while server.running:
        time.sleep(0.01)
    os._exit(0)


if __name__ == "__main__":
    main()
