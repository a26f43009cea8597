"""Drives `pilotlight up` as a user does: starts it, asks its API and CLI, stops it."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

import httpx
from pydantic import TypeAdapter

from activator_ext.app.views import ServiceStatus
from activator_ext.core.model import Warmth
from demo.files import DemoFiles
from demo.watch import Watch
from runtime.contract import StartRecord

SERVICE = "demo/chat"
PILOTLIGHT = Path(sys.executable).with_name("pilotlight")
# Two times the drain of `up`, which is bounded by 60 s for the portal and 10 s more for the host.
STOP_S = 150.0
POLL_S = 0.25

_STARTS = TypeAdapter(list[StartRecord])


class DemoError(Exception):
    """The demo cannot go on; the message says what happened and where to look."""


class Serving:
    """One `pilotlight up`: begun on entry, with a `watch` over its processes; stopped on exit unless it is kept."""

    def __init__(self, files: DemoFiles) -> None:
        self._files = files
        self.kept = False

    def __enter__(self) -> "Serving":
        addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
        command = [str(PILOTLIGHT), "up", *map(str, self._files.manifests), "--state", str(self._files.state)]
        command += ["--listen", addresses[0], "--api-listen", addresses[1], "--volume", f"models={self._files.volume}"]
        with self._files.log.open("wb") as log:
            # A session of its own: the terminal's Ctrl-C reaches the demo alone, which then stops `up`.
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        self.watch = Watch(self.process.pid)
        self.portal = httpx.Client(base_url=f"http://{addresses[0]}")
        self._api = httpx.Client(base_url=f"http://{addresses[1]}", timeout=10.0)
        try:
            self._wait_ready()
        except BaseException:
            self.stop()
            raise
        self.watch.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.kept and error is None:
            self.watch.end()
        else:
            self.stop()

    @property
    def url(self) -> str:
        """Where the portal answers."""
        return str(self.portal.base_url).rstrip("/")

    def status(self) -> ServiceStatus:
        """The service now."""
        return ServiceStatus.model_validate(self._get(f"/v1/services/{SERVICE}"))

    def last_start(self) -> StartRecord:
        """Its newest start. Raises DemoError if there is none."""
        starts = _STARTS.validate_python(self._get(f"/v1/services/{SERVICE}/starts"))
        if not starts:
            raise DemoError(f"{SERVICE} has no start yet")
        return starts[0]

    def cli(self, *arguments: str) -> str:
        """What `pilotlight …` prints. Raises DemoError if it fails."""
        command = [str(PILOTLIGHT), *arguments, "--state", str(self._files.state)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode != 0:
            raise DemoError(f"`pilotlight {' '.join(arguments)}` failed: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def wait(
        self,
        what: str,
        reached: Callable[[ServiceStatus], bool],
        *,
        timeout_s: float,
        on_look: Callable[[ServiceStatus], None] = lambda status: None,
    ) -> ServiceStatus:
        """Look at the service until `reached`; raises DemoError if it fails, after `timeout_s`, or if `up` ended."""
        deadline = time.monotonic() + timeout_s
        while True:
            status = self.status()
            if reached(status):
                return status
            on_look(status)
            if status.warmth is Warmth.FAILED and status.last_failure is not None:
                raise DemoError(f"{SERVICE} failed: {status.last_failure.message}")
            if time.monotonic() > deadline:
                raise DemoError(f"{what} did not happen within {timeout_s:.0f} s; see {self._files.log}")
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Ctrl-C to `up`, then wait; what does not go by itself is ended at once."""
        try:
            if self.process.poll() is None:
                self.watch.look()
                self.process.send_signal(signal.SIGINT)
                self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self.watch.end()
            self.left_over = self.watch.left_over()
            self.watch.kill_left_over()
            self.process.wait()
            self.portal.close()
            self._api.close()

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + 60.0
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise DemoError(f"`pilotlight up` ended with {self.process.returncode}:\n{_tail(self._files.log)}")
            try:
                if self._api.get("/readyz").status_code == 200:
                    self._api.headers["Authorization"] = f"Bearer {(self._files.state / 'token').read_text().strip()}"
                    return
            except httpx.TransportError:
                pass
            time.sleep(POLL_S)
        raise DemoError(f"`pilotlight up` was not ready within 60 s:\n{_tail(self._files.log)}")

    def _get(self, path: str) -> object:
        try:
            response = self._api.get(path)
        except httpx.TransportError as error:
            raise DemoError(
                f"the API does not answer ({error}); the end of {self._files.log}:\n{self._log()}"
            ) from error
        if response.status_code != 200:
            raise DemoError(f"GET {path}: HTTP {response.status_code} {response.text[:300]}")
        return json.loads(response.text)

    def _log(self) -> str:
        return _tail(self._files.log)


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(opened.getsockname()[1]) for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports


def now() -> datetime:
    """The wall clock, aware, UTC."""
    return datetime.now(UTC)


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
