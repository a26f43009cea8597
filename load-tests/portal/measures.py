"""The three measures, each once: what one subject does in one slot of time."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from portal import bodies, children
from portal.build import HERE, Programs
from portal.machine import BenchFailed, Cores, busy_s
from portal.subjects import Subject

# How much longer than planned a program may take; the stream client waits 40 s for its streams to begin.
_GRACE_S = 60.0


@dataclass(frozen=True, slots=True)
class Throughput:
    """As many requests as fit. Without a proxy the shares are 0.

    `cpu_us` is the proxy's CPU time, user and system, for each request; `core` the share of its core that it used, and
    `others` the share that something else used at the same time.
    """

    requests: int
    rps: float
    cpu_us: float
    core: float
    others: float
    p50_ms: float
    p99_ms: float

    @property
    def per_core(self) -> float:
        """Requests per second of the proxy's core, less the time that others had it: `rps` where nobody else did.

        `rps` alone would compare how well each stands its ground in the scheduler: a proxy of many threads gets more of
        a busy core than one of a single thread.
        """
        return self.rps / max(0.05, 1 - self.others)


@dataclass(frozen=True, slots=True)
class Latency:
    """One request after the other on one connection."""

    p50_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True)
class Streams:
    """Many open streams. `delays_ms`: from due to arrived, sorted; `missing` chunks did not come at all."""

    delays_ms: np.ndarray[Any, np.dtype[np.float32]]
    missing: int
    core: float
    memory_before_bytes: int
    memory_bytes: int

    def at(self, share: float) -> float:
        """The delay in ms that this share of the chunks did not exceed (nearest rank)."""
        rank = max(1, int(np.ceil(share * len(self.delays_ms))))
        return float(self.delays_ms[rank - 1])

    def later_than(self, limit_ms: float) -> int:
        """How many chunks came later than that, or never."""
        return int(len(self.delays_ms) - np.searchsorted(self.delays_ms, limit_ms, side="right")) + self.missing


@dataclass(frozen=True, slots=True)
class Bench:
    """What the measures share: programs, cores, and files with the requests in `folder`."""

    programs: Programs
    cores: Cores
    folder: Path

    def throughput(self, subject: Subject, connections: int, seconds: float) -> Throughput:
        """Wrk with one thread. Raises BenchFailed for any answer but 200 from the right engine."""
        url = f"http://127.0.0.1:{subject.ports[0]}/v1/chat/completions"
        command = ["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "10s", "--latency"]
        command += ["-s", str(HERE / "programs" / "post.lua"), url, "--", *self._requests(subject)]
        busy, cpu, begun = busy_s(self.cores.proxy), subject.cpu_s(), time.monotonic()
        said = children.run_json(subject.name, command, cpu=self.cores.load, timeout_s=seconds + _GRACE_S)
        wall = time.monotonic() - begun
        cpu, busy = subject.cpu_s() - cpu, busy_s(self.cores.proxy) - busy
        wrong = {what: said[what] for what in ("not_2xx", "broken", "timeouts") if said[what]}
        if wrong or not said["requests"]:
            raise BenchFailed(
                f"{subject.name}, {connections} connections: of {said['requests']} requests {wrong or 'none'}"
            )
        return Throughput(
            requests=said["requests"],
            rps=said["requests"] / (said["duration_us"] / 1e6),
            cpu_us=cpu / said["requests"] * 1e6,
            core=cpu / wall,
            others=max(0.0, busy - cpu) / wall,
            p50_ms=said["p50_us"] / 1000,
            p99_ms=said["p99_us"] / 1000,
        )

    def latency(self, subject: Subject, requests: int) -> Latency:
        """One request after the other on one connection."""
        command = [str(self.programs.latency), str(subject.ports[0]), str(requests), *self._requests(subject)]
        said = children.run_json(subject.name, command, cpu=self.cores.load, timeout_s=requests * 0.01 + _GRACE_S)
        return Latency(said["p50_us"] / 1000, said["p99_us"] / 1000, said["max_us"] / 1000)

    def streams(self, subject: Subject, count: int, per_second: int, seconds: float) -> Streams:
        """`count` streams of `per_second` chunks each, measured for `seconds`. Raises BenchFailed if one breaks."""
        spread_s = count / 500  # slow enough that opening them is no storm of its own
        lasts = round((spread_s + seconds + _GRACE_S) * per_second)
        request, out = self.folder / "stream.http", self.folder / "delays"
        request.write_bytes(bodies.on_wire(bodies.stream(bodies.MODELS[0], lasts, 1_000_000 // per_second)))
        command = [str(self.programs.streams), str(request), str(out), str(count), str(spread_s), str(seconds)]
        processes, memory = subject.processes(), []
        sample: Callable[[], None] = lambda: memory.append(children.memory_bytes(processes))  # noqa: E731 — one use, one line
        sample()
        cpu, begun = subject.cpu_s(), time.monotonic()
        said = children.run_json(
            subject.name,
            [*command, str(subject.ports[0])],
            cpu=self.cores.load,
            timeout_s=spread_s + seconds + _GRACE_S,
            each_second=sample,
        )
        core = (subject.cpu_s() - cpu) / (time.monotonic() - begun)
        if said["lost"]:
            raise BenchFailed(f"{subject.name}: {said['lost']} chunks of streams were lost or out of order")
        delays = np.sort(np.fromfile(out, dtype=np.float32))
        if not len(delays):
            raise BenchFailed(f"{subject.name}: no chunk of {count} streams arrived in time to be measured")
        missing = max(0, round(count * per_second * seconds) - len(delays))
        return Streams(delays, missing, core, memory[0], max(memory))

    def write_requests(self) -> None:
        """The files that wrk and the latency client post."""
        for name, body in zip(_names(), bodies.mix(), strict=True):
            (self.folder / name).write_bytes(bodies.on_wire(body))

    def _requests(self, subject: Subject) -> list[str]:
        """All models through a proxy; without one, those of the one engine that is asked."""
        names: Sequence[str] = _names()
        if subject.is_direct:
            names = names[:: len(bodies.MODELS)]
        return [str(self.folder / name) for name in names]


def _names() -> list[str]:
    return [f"request-{n}.http" for n in range(len(bodies.mix()))]
