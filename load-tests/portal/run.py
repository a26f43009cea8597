"""One run from the first check to the last round; everything it starts has ended when it returns."""

import contextlib
import os
import platform
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from portal import rounds, routes, subjects
from portal.build import build
from portal.findings import Findings
from portal.machine import BenchFailed, Cores, check_programs, cores, raise_descriptor_limit
from portal.measures import Bench, Latency, Streams, Throughput
from portal.plan import CHUNKS_PER_S, Plan
from portal.subjects import Subject

_WARM_UP_S = 1.0
# A stream costs a proxy two descriptors; the rest is for listeners, logs and idle connections to engines.
_DESCRIPTORS = 8192

Tell = Callable[[str], None]


def run(plan: Plan, tell: Tell) -> Findings:
    """Measure everything that `plan` asks for. Raises BenchFailed."""
    check_programs()
    cpus = cores()
    raise_descriptor_limit(_DESCRIPTORS)
    # We and all we start, but the proxies, share the load's CPU.
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpus.load})
    try:
        with tempfile.TemporaryDirectory(prefix="bench-portal-") as name:
            return _run(plan, tell, Path(name), cpus)
    finally:
        os.sched_setaffinity(0, before)


def _run(plan: Plan, tell: Tell, folder: Path, cpus: Cores) -> Findings:
    tell("compiling the null backend and the clients")
    bench = Bench(build(folder), cpus, folder)
    bench.write_requests()
    with _all_subjects(bench) as running:
        tell(f"serving: {', '.join(running)}; proxies on CPU {cpus.proxy}, wrk and the null backend on CPU {cpus.load}")
        routes.check_direct(running["direct"])
        decoys = {name: routes.check(each) for name, each in running.items() if not each.is_direct}
        tell(f"routes are right; misleading bodies routed right: {', '.join(f'{n} {d}' for n, d in decoys.items())}")
        throughput = {count: _throughput(bench, plan, running, count, tell) for count in plan.connections}
        latency = _latency(bench, plan, running, tell)
        streams, broken = _streams(bench, plan, running, tell)
        for each in running.values():
            if not each.is_direct:
                each.check_metrics(at_least=sum(_requests(throughput, each.name)))
    return Findings(throughput, latency, streams, decoys, _versions(), plan, broken)


@contextlib.contextmanager
def _all_subjects(bench: Bench) -> Iterator[dict[str, Subject]]:
    with contextlib.ExitStack() as stack:
        direct = stack.enter_context(subjects.direct(bench.programs.backend, bench.folder, bench.cores))
        running = {direct.name: direct}
        for name, begin in subjects.PROXIES.items():
            running[name] = stack.enter_context(begin(bench.folder, bench.cores, direct.ports))
        yield running


def _throughput(
    bench: Bench, plan: Plan, running: Mapping[str, Subject], connections: int, tell: Tell
) -> list[dict[str, Throughput]]:
    def done(number: int, samples: Mapping[str, Throughput]) -> None:
        told = ", ".join(f"{name} {sample.rps:,.0f}/s" for name, sample in samples.items())
        tell(f"{connections} connections, round {number} of {plan.rounds}: {told}")

    for each in running.values():
        bench.throughput(each, connections, _WARM_UP_S)
    return rounds.play(
        list(running), plan.rounds, lambda name: bench.throughput(running[name], connections, plan.round_s), done
    )


def _latency(bench: Bench, plan: Plan, running: Mapping[str, Subject], tell: Tell) -> list[dict[str, Latency]]:
    def done(number: int, samples: Mapping[str, Latency]) -> None:
        told = ", ".join(f"{name} {sample.p50_ms:.3f} ms" for name, sample in samples.items())
        tell(f"one connection, round {number} of {plan.latency_rounds}: {told}")

    return rounds.play(
        list(running), plan.latency_rounds, lambda name: bench.latency(running[name], plan.latency_requests), done
    )


def _streams(
    bench: Bench, plan: Plan, running: Mapping[str, Subject], tell: Tell
) -> tuple[list[dict[str, Streams]], str]:
    """The rounds, and why they ended early: a broken stream must be told, but not cost the minutes before it."""
    heard: list[dict[str, Streams]] = []

    def done(number: int, samples: Mapping[str, Streams]) -> None:
        heard.append(dict(samples))
        told = ", ".join(f"{name} worst {sample.at(1.0):.1f} ms" for name, sample in samples.items())
        tell(f"{plan.streams} streams, round {number} of {plan.stream_rounds}: {told}")

    def measure(name: str) -> Streams:
        return bench.streams(running[name], plan.streams, CHUNKS_PER_S, plan.stream_s)

    try:
        return rounds.play(list(running), plan.stream_rounds, measure, done), ""
    except BenchFailed as failed:
        tell(f"the streams broke: {failed}")
        return heard, str(failed)


def _requests(throughput: Mapping[int, list[dict[str, Throughput]]], name: str) -> Iterator[int]:
    for played in throughput.values():
        yield from (samples[name].requests for samples in played)


def _versions() -> dict[str, str]:
    """Of what was compared, and where."""
    asked = {"haproxy": ["haproxy", "-v"], "caddy": ["caddy", "version"], "wrk": ["wrk", "-v"]}
    versions = {name: _version(command) for name, command in asked.items()}
    return {**versions, "python": platform.python_version(), "kernel": platform.release(), "cpu": _cpu()}


def _version(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    found = re.search(r"\d+\.\d+\.\d\S*", done.stdout + done.stderr)
    return found[0] if found else "of unknown version"


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
