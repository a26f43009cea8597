"""One level, measured: an empty host, its first start, its answers, and its next start. Everything is real."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psutil

from levels.measured import LEVELS, Measured
from runtime.contract import EngineSpec, Lease, ServiceOrder, Warmth
from start.asked import first_token, wait_for
from start.measured import BenchFailed
from start.plan import ARGS
from start.processes import environment, python, running

SERVICE = "bench/level"
BATCHES = (1, 8)
"""Answers at a time; the most is what the arguments of the bench allow."""
TOKENS, TIMES = 48, 8
"""Of each answer, and how often each batch is asked."""


class Engine:
    """A host with an order for one service."""

    def __init__(self, socket: Path, log: Path, process: Any, args: tuple[str, ...], model: Path) -> None:
        self._alive, self._log, self._process = (lambda: process.poll() is None), log, psutil.Process(process.pid)
        self._spec = EngineSpec(
            service=SERVICE, served_names=(SERVICE,), model=str(model), args=(*ARGS, *args), drain_timeout_s=10.0
        )
        self._http = httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), base_url="http://host", timeout=10.0)
        wait_for("the host", socket.exists, self._alive, str(log))

    def start(self) -> tuple[str, dict[str, Any]]:
        """Order an engine and wait until it is admitted: where it answers, and the record of its start."""
        self._order(1)
        wait_for("the engine", lambda: self._url() is not None, self._alive, str(self._log))
        record: dict[str, Any] = self._view()["starts"][-1]
        return str(self._url()), record

    def stop(self) -> None:
        """Order none and wait until none is left."""
        self._order(0)
        gone = "the engine's end"
        wait_for(gone, lambda: not self._view()["services"][0]["replicas"], self._alive, str(self._log))

    def used_s(self) -> float:
        """Processor seconds of the host and all below it, those that have ended too."""
        used = 0.0
        for process in (self._process, *self._process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                used += sum(process.cpu_times()[:4])
        return used

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    def _order(self, replicas: int) -> None:
        order = ServiceOrder(spec=self._spec, replicas=replicas, asked_at=datetime.now(UTC), why="bench-levels")
        self._http.put("/v1/host/lease", content=Lease(seconds=3600).model_dump_json()).raise_for_status()
        self._http.put(f"/v1/services/{SERVICE}", content=order.model_dump_json()).raise_for_status()

    def _view(self) -> dict[str, Any]:
        view: dict[str, Any] = self._http.get("/v1/host").json()
        return view

    def _url(self) -> str | None:
        (service,) = self._view()["services"]
        if service["last_failure"]:
            raise BenchFailed(service["last_failure"]["message"])
        ready = (replica for replica in service["replicas"] if replica["warmth"] == Warmth.WARM)
        return next((replica["url"] for replica in ready), None)


def measure(level: str, model: Path, name: str, number: int, home: Path) -> Measured:
    """The level's first start, answers and next start. Raises BenchFailed."""
    with _host(home, LEVELS[level], model) as (engine, begun):
        url, first = engine.start()
        first_s, first_cpu_s = first_token(url, SERVICE) - begun, engine.used_s()
        rates = {batch: rate(url, batch) for batch in BATCHES}
        engine.stop()
        asked, used_s = time.monotonic(), engine.used_s()
        url, again = engine.start()
        again_s, again_cpu_s = first_token(url, SERVICE) - asked, engine.used_s() - used_s
    return Measured(
        level=level,
        model=name,
        round=number,
        first_s=first_s,
        again_s=again_s,
        first_cpu_s=first_cpu_s,
        again_cpu_s=again_cpu_s,
        compile_s=(_compile_s(first), _compile_s(again)),
        kinds=(first["kind"], again["kind"]),
        rates=rates,
    )


def rate(url: str, batch: int) -> float:
    """Tokens a second of so many answers at a time to prompts of 16 tokens.

    The best of several: what else the machine does only ever slows them.
    """
    return batch * TOKENS / min(_answered_s(url, batch) for _ in range(TIMES))


def _answered_s(url: str, batch: int) -> float:
    body = {
        "model": SERVICE, "prompt": [[1 + (n + i) % 16 for i in range(16)] for n in range(batch)],
        "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True,
    }  # fmt: skip
    begun = time.monotonic()
    answer = httpx.post(f"{url}/v1/completions", json=body, timeout=300.0, trust_env=False)
    took = time.monotonic() - begun
    if answer.status_code != 200:
        raise BenchFailed(f"an answer got {answer.status_code}: {answer.text[:300]}")
    return took


def _compile_s(record: dict[str, Any]) -> float:
    """How long the stage took; 0 where there was none."""
    return sum(float(stage["elapsed_ms"]) / 1000 for stage in record["stages"] if stage["stage"] == "compile")


@contextmanager
def _host(home: Path, args: tuple[str, ...], model: Path) -> Iterator[tuple[Engine, float]]:
    """An engine's host in an empty directory, and the instant of its spawn."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    socket, log = home / "s", home / "host.log"
    argv = [python(), "-m", "runtime.host", "--socket", str(socket), "--root", str(home / "root")]
    begun = time.monotonic()
    with running(argv, env=environment(), log=log, cwd=home) as child:
        engine = Engine(socket, log, child, args, model)
        try:
            yield engine, begun
        finally:
            engine.close()
