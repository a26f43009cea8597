"""What is compared: no proxy at all, the portal, HAProxy, Caddy; each with metrics and limits on, on one core."""

import contextlib
import http.client
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from portal import children
from portal.bodies import MODELS
from portal.build import HERE
from portal.controller import controller
from portal.machine import BenchFailed, Cores

_READY_S = 30.0


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))


@dataclass(frozen=True, slots=True)
class Subject:
    """One way from client to engine. `ports`: where each of the models is asked for, in the order of MODELS."""

    name: str
    ports: tuple[int, ...]
    pid: int | None = None
    metrics_at: int | Path | None = None
    requests_metric: str = ""

    @property
    def is_direct(self) -> bool:
        """Whether no proxy is between."""
        return self.pid is None

    def cpu_s(self) -> float:
        """CPU seconds that the proxy used so far, 0 without one."""
        return children.cpu_s(self.pid) if self.pid else 0.0

    def processes(self) -> list[psutil.Process]:
        """The proxy's process tree, empty without one."""
        return children.tree(self.pid) if self.pid else []

    def check_metrics(self, *, at_least: int) -> None:
        """Raise BenchFailed unless its own metrics say that it had so many requests: they must be on to be paid for."""
        lines = [line for line in _get_metrics(self.metrics_at).splitlines() if line.startswith(self.requests_metric)]
        counted = sum(float(line.rpartition(" ")[2]) for line in lines)
        if counted < at_least:
            raise BenchFailed(
                f"{self.name} had {at_least} requests; its metric {self.requests_metric} says {counted:.0f}"
            )


@dataclass(frozen=True, slots=True)
class _Place:
    folder: Path
    cores: Cores
    engine_ports: tuple[int, ...]
    listen: int
    metrics: int

    @classmethod
    def make(cls, folder: Path, cores: Cores, engine_ports: Sequence[int]) -> "_Place":
        """With two ports that nobody listens on."""
        return cls(folder, cores, tuple(engine_ports), _free_port(), _free_port())

    def environment(self) -> dict[str, str]:
        """What the committed configurations of the peers refer to."""
        engines = {f"BENCH_ENGINE_{n}": str(port) for n, port in enumerate(self.engine_ports)}
        return {**os.environ, **engines, "BENCH_LISTEN": str(self.listen), "BENCH_METRICS": str(self.metrics)}


@contextlib.contextmanager
def direct(backend: Path, folder: Path, cpus: Cores) -> Iterator[Subject]:
    """The null backend, asked without a proxy."""
    with children.running([str(backend), *MODELS], cpu=cpus.load, log=folder / "backend.log") as child:
        assert child.stdout is not None  # noqa: S101 — asked for in `running`
        word, *ports = child.stdout.readline().decode().split() or [""]
        if word != "ports":
            raise BenchFailed(f"the null backend did not begin: {_tail(folder / 'backend.log')}")
        yield Subject("direct", tuple(map(int, ports)))


@contextlib.contextmanager
def portal(folder: Path, cpus: Cores, engine_ports: Sequence[int]) -> Iterator[Subject]:
    """Our own, as `pilotlight up` begins it, with a controller of the bench."""
    place = _Place.make(folder, cpus, engine_ports)
    admin, feed = folder / "portal.sock", folder / "controller.sock"
    command = [sys.executable, "-m", "activator_ext.portal", "--listen", f"127.0.0.1:{place.listen}"]
    command += ["--controller", str(feed), "--admin", str(admin), "--drain-s", "1"]
    with (
        controller(feed, engine_ports),
        _proxy("portal", place, command, dict(os.environ), admin, "pilotlight_portal_requests_total") as subject,
    ):
        yield subject


@contextlib.contextmanager
def haproxy(folder: Path, cpus: Cores, engine_ports: Sequence[int]) -> Iterator[Subject]:
    """HAProxy by the committed haproxy.cfg; one process (`-db`), one thread."""
    place = _Place.make(folder, cpus, engine_ports)
    command = ["haproxy", "-db", "-f", str(HERE / "haproxy.cfg")]
    metric = 'haproxy_frontend_http_requests_total{proxy="chat"}'
    with _proxy("haproxy", place, command, place.environment(), place.metrics, metric) as subject:
        yield subject


@contextlib.contextmanager
def caddy(folder: Path, cpus: Cores, engine_ports: Sequence[int]) -> Iterator[Subject]:
    """Caddy by the committed Caddyfile; one core of Go, as it has one CPU."""
    place = _Place.make(folder, cpus, engine_ports)
    command = ["caddy", "run", "--adapter", "caddyfile", "--config", str(HERE / "Caddyfile")]
    own = {"GOMAXPROCS": "1", "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    metric = 'caddy_http_requests_total{handler="subroute"'
    with _proxy("caddy", place, command, {**place.environment(), **own}, place.metrics, metric) as subject:
        yield subject


PROXIES = {"portal": portal, "haproxy": haproxy, "caddy": caddy}
"""In the order of measuring and of the table; `direct` goes before them."""


@contextlib.contextmanager
def _proxy(
    name: str, place: _Place, command: list[str], env: Mapping[str, str], metrics_at: int | Path, metric: str
) -> Iterator[Subject]:
    log = place.folder / f"{name}.log"
    with children.running(command, cpu=place.cores.proxy, log=log, env=env) as child:
        until = time.monotonic() + _READY_S
        while not (_listens(place.listen) and _answers(metrics_at)):
            if child.poll() is not None or time.monotonic() > until:
                raise BenchFailed(f"{name} did not begin to serve: {_tail(log)}")
            time.sleep(0.05)
        yield Subject(name, (place.listen,) * len(MODELS), child.pid, metrics_at, metric)


def _get_metrics(at: int | Path | None) -> str:
    connection = (
        _UnixConnection(at) if isinstance(at, Path) else http.client.HTTPConnection("127.0.0.1", at, timeout=10)
    )
    with contextlib.closing(connection):
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        if answer.status != 200:
            raise BenchFailed(f"/metrics at {at} answered {answer.status}")
        return answer.read().decode()


def _answers(at: int | Path) -> bool:
    try:
        return bool(_get_metrics(at))
    except OSError:
        return False


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _tail(log: Path) -> str:
    said = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return " / ".join(said[-3:]) or "it said nothing"
