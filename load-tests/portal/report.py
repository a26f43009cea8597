"""What the bench found, as tables for people. Pure."""

from collections.abc import Iterable, Sequence
from operator import attrgetter

from portal.findings import PERIOD_MS, Findings
from portal.measures import Streams, Throughput
from portal.plan import CHUNKS_PER_S
from portal.rounds import Rounds, middle, values

_MIB = 2**20
# The project's own goals for the portal.
_VS_HAPROXY, _VS_CADDY, _ADDED_P50_MS, _ADDED_P99_MS = 0.6, 3.0, 0.15, 1.0
# With more than this of the proxy's core in other hands, requests per second say little.
_OTHERS = 0.05
# A proxy whose core is less busy than this was not the narrow part.
_BUSY = 0.85
_NO_PROXY = "–"


def tables(found: Findings) -> str:
    """Everything for people."""
    streams = [_streams(found)] if found.streams else []
    broken = [f"STREAMS BROKE: {found.broken}"] if found.broken else []
    parts = [_throughput(found), _latency(found), *streams, *broken, _about(found), _goals(found), *_doubts(found)]
    return "\n\n".join(parts) + "\n"


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A title over columns; the first is flush left, the others right."""
    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    laid = []
    for first, *others in lines:
        cells = [first.ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(others, widths[1:], strict=True))]
        laid.append("  ".join(["", *cells]).rstrip())
    return "\n".join([title, *laid])


def _throughput(found: Findings) -> str:
    head = ("", "requests/s", "lowest–highest", "per core", "CPU µs", "core used", "by others", "p50 ms", "p99 ms")
    rows = [
        (f"{connections} connections, {name}", *_throughput_row(rounds, name))
        for connections, rounds in found.throughput.items()
        for name in rounds[0]
    ]
    title = (
        f"4 KB chat requests, each proxy on one core; medians of {found.plan.rounds} rounds of {found.plan.round_s:g} s"
    )
    meaning = "requests/s of the time that others left it of its core; CPU µs: user and system time for each request"
    return f"{table(title, head, rows)}\n  per core: {meaning}"


def _throughput_row(rounds: Rounds[Throughput], name: str) -> list[str]:
    def shown(what: str, form: str) -> str:
        return format(middle(rounds, name, attrgetter(what)), form)

    rps = values(rounds, name, attrgetter("rps"))
    proxy = [shown("per_core", ",.0f"), shown("cpu_us", ".1f"), shown("core", ".0%"), shown("others", ".0%")]
    return [
        shown("rps", ",.0f"),
        f"{min(rps):,.0f}–{max(rps):,.0f}",
        *([_NO_PROXY] * len(proxy) if name == "direct" else proxy),
        shown("p50_ms", ".2f"),
        shown("p99_ms", ".2f"),
    ]


def _latency(found: Findings) -> str:
    rows = []
    for name in found.latency[0]:
        own = [f"{middle(found.latency, name, attrgetter(what)):.3f}" for what in ("p50_ms", "p99_ms")]
        added = [f"{found.added_ms(name, what):.3f}" for what in ("p50_ms", "p99_ms")]
        rows.append((name, *own, *([_NO_PROXY] * 2 if name == "direct" else added)))
    head = ("", "p50 ms", "p99 ms", "added p50 ms", "added p99 ms")
    return table(f"One request at a time, one connection; medians of {len(found.latency)} rounds", head, rows)


def _streams(found: Findings) -> str:
    head = (
        "",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "worst ms",
        "delayed",
        "of chunks",
        "core used",
        "MiB before",
        "MiB then",
    )
    rows = [(name, *_streams_row(found, name, [each[name] for each in found.streams])) for name in found.streams[0]]
    title = (
        f"{found.plan.streams:,} open streams, {CHUNKS_PER_S} chunks/s each, from due to arrived; "
        f"{len(found.streams)} rounds of {found.plan.stream_s:g} s"
    )
    meaning = f"more than {PERIOD_MS:g} ms (one period) after the worst of the same round without a proxy, or never"
    return f"{table(title, head, rows)}\n  delayed: {meaning}"


def _streams_row(found: Findings, name: str, samples: Sequence[Streams]) -> list[str]:
    core = middle(found.streams, name, attrgetter("core"))
    memory = [max(s.memory_before_bytes for s in samples), max(s.memory_bytes for s in samples)]
    direct = name == "direct"
    return [
        *(f"{_median_delay(found, name, share):.2f}" for share in (0.5, 0.99, 0.999)),
        f"{max(s.at(1.0) for s in samples):.1f}",
        _NO_PROXY if direct else f"{sum(found.delayed(name)):,}",
        f"{sum(len(s.delays_ms) + s.missing for s in samples):,}",
        *([_NO_PROXY] * 3 if direct else [f"{core:.0%}", *(f"{each / _MIB:.0f}" for each in memory)]),
    ]


def _median_delay(found: Findings, name: str, share: float) -> float:
    return middle(found.streams, name, lambda sample: sample.at(share))


def _about(found: Findings) -> str:
    told = ", ".join(f"{name} {right}" for name, right in found.decoys.items())
    routes = f'Each answer came from the right engine. Bodies with a second, meaningless "model" routed right: {told}'
    return routes + "\nOf: " + " · ".join(f"{name} {version}" for name, version in found.versions.items())


def _goals(found: Findings) -> str:
    rows = [
        _goal("requests/s and core ÷ HAProxy's", found.rps_vs("haproxy"), _VS_HAPROXY, "at least"),
        _goal("requests/s and core ÷ Caddy's", found.rps_vs("caddy"), _VS_CADDY, "at least"),
        ("requests/CPU second ÷ HAProxy's", f"{found.per_cpu_vs('haproxy'):.2f}", "", ""),
        ("requests/CPU second ÷ Caddy's", f"{found.per_cpu_vs('caddy'):.2f}", "", ""),
        _goal("added p50 ms", found.added_ms("portal", "p50_ms"), _ADDED_P50_MS, "at most"),
        _goal("added p99 ms", found.added_ms("portal", "p99_ms"), _ADDED_P99_MS, "at most"),
        *([_goal("delayed chunks", sum(found.delayed("portal")), 0, "at most")] if found.streams else []),
    ]
    title = "The portal (the ratios at the number of connections that is worst for it)"
    return table(title, ("", "reached", "goal", ""), rows)


def _goal(what: str, reached: float, goal: float, sense: str) -> tuple[str, str, str, str]:
    holds = reached >= goal if sense == "at least" else reached <= goal
    return what, f"{reached:.3g}", f"{sense} {goal:g}", "reached" if holds else "MISSED"


def _doubts(found: Findings) -> list[str]:
    """What makes this run's figures mean less than they seem to."""
    proxies = [
        (f"{name} at {connections}", [samples[name] for samples in rounds])
        for connections, rounds in found.throughput.items()
        for name in rounds[0]
        if name != "direct"
    ]
    doubts = []
    slots = [sample for _, samples in proxies for sample in samples]
    disturbed = sum(sample.others > _OTHERS for sample in slots)
    if disturbed:
        doubts.append(
            f"Doubtful: in {disturbed} of {len(slots)} slots other work used over {_OTHERS:.0%} of the proxy's core. "
            "`per core` leaves that out and holds roughly; requests/s and tails of delays are a busy machine's."
        )
    idle = [what for what, samples in proxies if max(sample.core + sample.others for sample in samples) < _BUSY]
    if idle:
        doubts.append(
            f"Doubtful: the proxy's core was never full ({', '.join(idle)} connections): wrk and the null backend, "
            "which share the other core, were the limit there. Requests per CPU second hold."
        )
    late_ms = max((each["direct"].at(1.0) for each in found.streams), default=0.0)
    if late_ms > PERIOD_MS:
        doubts.append(
            f"Doubtful: without a proxy chunks were up to {late_ms:.0f} ms late, more than a period: the load itself "
            "did not get its core in time, so that few chunks can count as delayed."
        )
    return doubts
