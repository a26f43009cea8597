"""Real servers on loopback, as processes: moto for S3, Debian's docker-registry for OCI."""

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

MOTO = """
import sys, threading
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print("port", server.get_host_and_port()[1], file=sys.stderr, flush=True)
threading.Event().wait()
"""

REGISTRY = """
version: 0.1
log: {level: info, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: "%s"}, delete: {enabled: true}}
http: {addr: "127.0.0.1:0", secret: x}
"""


class Server:
    """A process that listens on `port`, until it is killed."""

    def __init__(self, running: subprocess.Popen[bytes], port: int) -> None:
        self.running = running
        self.port = port

    def kill(self) -> None:
        """Without a word, as when its machine loses power."""
        self.running.kill()
        self.running.wait()


@contextmanager
def _process(argv: list[str], ready: bytes, env: dict[str, str]) -> Iterator[Server]:
    """The process; its port is what a line of its stderr tells by the pattern `ready`."""
    # docker-registry takes REGISTRY_… as its configuration, REGISTRY_AUTH_FILE of the clients too.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("REGISTRY_")}
    running = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**inherited, **env})
    assert running.stderr is not None
    said, drain = [], threading.Thread(target=running.stderr.read, daemon=True)
    try:
        for line in running.stderr:
            said.append(line)
            if found := re.search(ready, line):
                break
        else:
            raise RuntimeError(f"{argv[0]} ended: {b''.join(said).decode()}")
        # What it says later must not fill a pipe that nobody reads.
        drain.start()
        yield Server(running, int(found.group(1)))
    finally:
        running.kill()
        running.wait()
        if drain.is_alive():
            drain.join()
        running.stderr.close()


@contextmanager
def moto(**env: str) -> Iterator[Server]:
    """S3 by moto's server."""
    if find_spec("moto") is None or find_spec("flask") is None:
        pytest.skip("moto's server is not installed: pip install 'moto[server]'")
    with _process([sys.executable, "-c", MOTO], rb"^port (\d+)", env) as server:
        yield server


@contextmanager
def docker_registry(folder: Path, auth: str = "") -> Iterator[Server]:
    """An OCI registry by Debian's docker-registry, its blobs below `folder`. `auth`: that part of its configuration."""
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("docker-registry is not installed: apt-get install docker-registry")
    config = folder / "registry.yml"
    config.write_text(REGISTRY % (folder / "blobs") + auth)
    with _process([program, "serve", str(config)], rb"listening on 127\.0\.0\.1:(\d+)", {}) as server:
        yield server
