"""A portal process with a controller that tests script, and a place in it for each test: one service, one engine."""

import contextlib
import itertools
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from runtime.contract import Route
from tests.http.controller import Controller, route
from tests.http.engine import Engine, Script, hello
from tests.http.wire import SOON_S, Address, Line, dial

T = TypeVar("T")

# A service's series stay in the portal's metrics: names are used again, so that each reading of them stays cheap.
_free_names: list[str] = []
_numbers = itertools.count()


def until(condition: Callable[[], T]) -> T:
    """The first true value of `condition`; another process makes it true."""
    give_up = time.monotonic() + SOON_S
    while not (value := condition()):
        assert time.monotonic() < give_up, "it did not come about"
        time.sleep(0.005)
    return value


def request(
    method: str = "POST",
    target: str = "/v1/chat/completions",
    *headers: str,
    body: bytes | None = b"",
    version: str = "HTTP/1.1",
) -> bytes:
    """A request's exact bytes. `body` None: without Content-Length."""
    lines = [f"{method} {target} {version}", *headers]
    if not any(line.lower().startswith("host:") for line in headers):
        lines.insert(1, "Host: portal")
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


def chunked(*pieces: bytes) -> bytes:
    """A whole chunked body, each piece one chunk."""
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (*pieces, b""))


@dataclass
class House:
    """One portal process. `address` is its public listener, `log` its stderr."""

    process: "subprocess.Popen[bytes]"
    admin: str
    log: Path
    controller: Controller
    address: tuple[str, int] = ("", 0)

    def ask_admin(self, path: str) -> bytes:
        """The body of an answer of the portal's own API."""
        with dial(self.admin) as line:
            line.send(f"GET {path} HTTP/1.1\r\nHost: portal\r\nConnection: close\r\n\r\n".encode())
            answer = line.answer()
        assert answer.status == 200
        return answer.body

    def count(self, metric: str, service: str, label: str = "") -> int:
        """A gauge or counter of one service, summed over its other labels, or only those with `label`."""
        text = self.ask_admin("/metrics").decode()
        lines = re.findall(rf'^{metric}({{[^}}]*service="{service}"[^}}]*}}) (\S+)$', text, re.MULTILINE)
        return round(sum(float(value) for labels, value in lines if label in labels))

    def rss_bytes(self, kind: str = "VmHWM") -> int:
        """The portal's peak of resident memory since `forget_peak` (`VmRSS`: what it is now)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.findall(rf"^{kind}:\s+(\d+) kB", status, re.MULTILINE)[0])

    def forget_peak(self) -> None:
        """Count the peak of resident memory from here (Documentation/filesystems/proc.rst, clear_refs 5)."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def push(self, *changed: Route, removed: tuple[str, ...] = ()) -> None:
        """Return once the portal knows these routes."""
        version = self.controller.push(*changed, removed=removed)
        until(lambda: self.health()["table_version"] >= version)

    def health(self) -> dict[str, Any]:
        """What `/healthz` says; an answer also proves that the portal's loop turned once more."""
        return dict(json.loads(self.ask_admin("/healthz")))

    def well(self) -> None:
        """The portal lives, and nothing in it failed in a way that nobody foresaw."""
        assert self.process.poll() is None, f"the portal ended with {self.process.returncode}"
        said = self.log.read_text(errors="replace")
        assert "Traceback" not in said, said[-4000:]
        assert " ERROR " not in said, said[-4000:]


@contextlib.contextmanager
def house(folder: Path, *options: str) -> Iterator[House]:
    """A portal that serves and knows an empty table."""
    log, admin = folder / "portal.log", str(folder / "p.sock")
    controller = Controller(folder / "c.sock")
    argv = ["--listen", "127.0.0.1:0", "--controller", str(folder / "c.sock"), "--admin", admin, "--drain-s", "0"]
    with log.open("wb") as stderr:
        process = subprocess.Popen([sys.executable, "-m", "activator_ext.portal", *argv, *options], stderr=stderr)
    try:
        at = House(process, admin, log, controller)
        until(lambda: _listens(admin) or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        until(lambda: at.health()["controller_connected"])
        host, _, port = str(at.health()["listen"]).rpartition(":")
        at.address = (host, int(port))
        yield at
        at.well()
    finally:
        process.kill()
        process.wait()
        controller.close()


def _listens(path: str) -> bool:
    """Whether somebody does: between bind and listen the socket is there and refuses."""
    try:
        with dial(path):
            return True
    except (FileNotFoundError, ConnectionRefusedError):
        return False


@dataclass
class Place:
    """One service with its engine. `path` routes to it without a body's help, `name` is its model."""

    house: House
    engine: Engine
    service: str
    lines: list[Line] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What `model` says to mean this service."""
        return self.service.partition("/")[2]

    @property
    def path(self) -> str:
        """A path that means this service, whatever the body says."""
        return f"/{self.service}/v1/completions"

    @property
    def address(self) -> Address:
        """The portal's public listener."""
        return self.house.address

    def line(self) -> Line:
        """A new connection, closed when the test ends."""
        line = Line(self.address)
        self.lines.append(line)
        return line

    def post(self, *headers: str, body: bytes = b"{}", version: str = "HTTP/1.1") -> bytes:
        """A request routed by its path."""
        return request("POST", self.path, *headers, body=body, version=version)

    def chat(self, *headers: str, version: str = "HTTP/1.1", **fields: object) -> bytes:
        """A request routed by the model in its body."""
        body = json.dumps({"model": self.name, **fields}).encode()
        return request(
            "POST", "/v1/chat/completions", "Content-Type: application/json", *headers, body=body, version=version
        )

    def warm(self) -> None:
        """From now on the engine may be asked. It stands there twice: after a failure the retry need not wait."""
        self.house.push(route(self.service, self.engine.url, self.engine.url))

    def waiting(self, count: int) -> None:
        """Return once so many requests wait."""
        until(lambda: self.house.count("pilotlight_portal_waiting", self.service) == count)

    def running(self, count: int) -> None:
        """Return once so many requests run."""
        until(lambda: self.house.count("pilotlight_portal_running", self.service) == count)

    def serves(self, body: bytes = b'{"after": "all"}') -> None:
        """A request on a new connection is answered by the engine, which sees exactly that request."""
        before, self.engine.script = len(self.engine.seen), hello
        with dial(self.address) as line:
            line.send(self.post(body=body))
            answer = line.answer()
        assert (answer.status, answer.body) == (200, b'{"said": "hello"}'), answer
        seen = self.engine.wait(before + 1)[before:]
        assert [(each.target, each.body) for each in seen] == [("/v1/completions", body)], seen


@contextlib.contextmanager
def place(
    at: House, script: Script = hello, *, warm: bool = True, service: str | None = None, **fields: Any
) -> Iterator[Place]:
    """A place that must be left as it was found: nothing waits or runs, and no script failed."""
    named = service or (_free_names.pop() if _free_names else f"http/c{next(_numbers)}")
    engine = Engine(script)
    here = Place(at, engine, named)
    try:
        at.push(route(named, *([engine.url] * 2 if warm else []), **fields))
        yield here
        for line in here.lines:
            line.close()
        here.waiting(0)
        here.running(0)
    finally:
        for line in here.lines:
            line.close()
        engine.close()
        at.push(removed=(named,))
    if service is None:
        _free_names.append(named)
    at.well()
    assert engine.faults == []
