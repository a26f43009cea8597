"""Our host as a cluster's pod runs it: a process in an empty directory that is given an order over its socket."""

import contextlib
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import yaml

from activator_ext.core.overlap import Stretch, critical_path
from runtime.contract import EngineSpec, Lease, Mark, ServiceOrder, StartRecord, Warmth
from start.asked import first_token, greedy, wait_for
from start.measured import BenchFailed, Start
from start.plan import ARGS, Subject
from start.processes import drop_from_page_cache, environment, python, running


class Host:
    """A running host. `begun`: the monotonic instant of its spawn."""

    def __init__(self, socket: Path, log: Path, alive: Any, begun: float) -> None:
        self._log, self._alive, self.begun = log, alive, begun
        self._http = httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), base_url="http://host", timeout=10.0)
        wait_for("the host", socket.exists, alive, str(log))

    def order(self, service: str, model: Path) -> None:
        """Want one engine of `service`, from now on."""
        spec = EngineSpec(service=service, served_names=(service,), model=str(model), args=ARGS)
        order = ServiceOrder(spec=spec, replicas=1, asked_at=datetime.now(UTC), why="bench-start")
        self._http.put("/v1/host/lease", content=Lease(seconds=3600).model_dump_json()).raise_for_status()
        self._http.put(f"/v1/services/{service}", content=order.model_dump_json()).raise_for_status()

    def url(self, service: str) -> str:
        """Wait until an engine of it is admitted; where it answers."""
        wait_for(service, lambda: self._ready(service) is not None, self._alive, str(self._log))
        return str(self._ready(service))

    def record(self, service: str) -> dict[str, Any]:
        """The record of its start."""
        return next(start for start in self._view()["starts"] if start["service"] == service)

    def published(self, service: str) -> bool:
        """Whether what it compiled is in the store; raises BenchFailed where it will not be."""
        cache = self.record(service)["cache"]
        if "not published" in cache["note"]:
            raise BenchFailed(f"no bundle was made: {cache['note']}")
        return cache["published"] is not None

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    def _view(self) -> dict[str, Any]:
        view: dict[str, Any] = self._http.get("/v1/host").json()
        return view

    def _ready(self, service: str) -> str | None:
        for view in self._view()["services"]:
            if view["service"] != service:
                continue
            if view["last_failure"]:
                raise BenchFailed(f"{service}: {view['last_failure']['message']}")
            for replica in view["replicas"]:
                if replica["warmth"] == Warmth.WARM and replica["url"]:
                    return str(replica["url"])
        return None


class Ours:
    """One model's starts on our hosts. `prepare` makes the bundle, once."""

    def __init__(self, root: Path, model: Path, name: str, *, dropped: bool) -> None:
        self._root, self._model, self._name, self._dropped = root, model, name, dropped
        self._store = root / "store"

    def prepare(self) -> None:
        """A start that compiles, on a host of its own, whose bundle goes to the store; its key becomes trusted."""
        self._store.mkdir(parents=True, exist_ok=True)
        with self._host("builder", "--publish-to", str(self._store)) as host:
            host.order("bench/builder", self._model)
            host.url("bench/builder")
            wait_for("the bundle", lambda: host.published("bench/builder"), lambda: True, "the host's log")
        public = (self._root / "builder" / "root" / ".shelf" / "signing-key.pem.pub").read_text()
        policy = {"keys": [{"name": "builder", "public_key": public}]}
        (self._root / "trust.yaml").write_text(yaml.safe_dump(policy))

    def pair(self, number: int) -> Iterator[Start]:
        """`bundle`, then `fork` on the host that it began."""
        if self._dropped:
            drop_from_page_cache(self._model)
        with self._host(
            f"bundle-{number}", "--store", str(self._store), "--trust", str(self._root / "trust.yaml")
        ) as host:
            yield self._measure(host, "bundle", "bench/first", number, host.begun)
            if self._dropped:
                drop_from_page_cache(self._model)
            yield self._measure(host, "fork", "bench/further", number, time.monotonic())

    def _measure(self, host: Host, subject: Subject, service: str, number: int, begun: float) -> Start:
        host.order(service, self._model)
        url = host.url(service)
        took = first_token(url, service) - begun
        record, tokens = host.record(service), greedy(url, service)
        return Start(
            subject,
            self._name,
            number,
            took,
            tokens,
            {stage["stage"]: stage["elapsed_ms"] / 1000 for stage in record["stages"]},
            attributed=record["attributed"],
            verdict=record["cache"]["verdict"],
            compile_s=record["cache"]["compile_s"],
            kind=record["kind"],
            beside=_beside(StartRecord.model_validate(record)),
        )

    @contextlib.contextmanager
    def _host(self, name: str, *options: str) -> Iterator[Host]:
        home = self._root / name
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        socket, log = home / "s", self._root / "logs" / f"{name}.log"
        argv = [python(), "-m", "runtime.host", "--socket", str(socket), "--root", str(home / "root"), *options]
        begun = time.monotonic()
        with running(argv, env=environment(), log=log, cwd=home) as child:
            host = Host(socket, log, lambda: child.poll() is None, begun)
            try:
                yield host
            finally:
                host.close()


def _beside(record: StartRecord) -> tuple[str, ...]:
    """The stages that are on no part of the path to readiness."""
    begun = record.marks[Mark.T0]
    begins = [(stage.begun_at - begun).total_seconds() for stage in record.stages]
    stretches = [Stretch(at, at + stage.elapsed_ms / 1000) for at, stage in zip(begins, record.stages, strict=True)]
    path = critical_path(stretches, (record.marks[Mark.T9] - begun).total_seconds())
    on_path = {link.index for link in path}
    return tuple(stage.stage.value for index, stage in enumerate(record.stages) if index not in on_path)
