"""What one run found: its samples, the figures that count, and both as JSON. Pure."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from operator import attrgetter

from portal.measures import Latency, Streams, Throughput
from portal.plan import CHUNKS_PER_S, Plan
from portal.rounds import Rounds, difference, ratio

PERIOD_MS = 1000 / CHUNKS_PER_S
"""Between two chunks of a stream."""


@dataclass(frozen=True, slots=True)
class Findings:
    """All samples of one run.

    `throughput` by connections; `decoys`: how many misleading bodies were routed right; `broken`: why the streams ended
    before all of their rounds were played, "" if they were.
    """

    throughput: Mapping[int, Rounds[Throughput]]
    latency: Rounds[Latency]
    streams: Rounds[Streams]
    decoys: Mapping[str, str]
    versions: Mapping[str, str]
    plan: Plan
    broken: str = ""

    def rps_vs(self, peer: str) -> float:
        """The portal's requests per second and core as a multiple of the peer's, at the worst number of connections."""
        return min(ratio(rounds, "portal", peer, attrgetter("per_core")) for rounds in self.throughput.values())

    def per_cpu_vs(self, peer: str) -> float:
        """The same for requests per CPU second of the proxy: what it could do were nothing else in its way."""
        return min(ratio(rounds, peer, "portal", attrgetter("cpu_us")) for rounds in self.throughput.values())

    def added_ms(self, name: str, what: str) -> float:
        """What a proxy adds to `p50_ms` or `p99_ms` at one connection."""
        return difference(self.latency, name, "direct", attrgetter(what))

    def delayed(self, name: str) -> list[int]:
        """Round by round, the chunks that came later than a period after the worst of that round without a proxy."""
        return [samples[name].later_than(samples["direct"].at(1.0) + PERIOD_MS) for samples in self.streams]


def last_line(found: Findings) -> str:
    """The line for programs."""
    return json.dumps(
        {
            "bench": "portal",
            "rps_vs_caddy": round(found.rps_vs("caddy"), 2),
            "rps_vs_haproxy": round(found.rps_vs("haproxy"), 2),
            "added_p50_ms": round(found.added_ms("portal", "p50_ms"), 3),
            "added_p99_ms": round(found.added_ms("portal", "p99_ms"), 3),
        }
    )


def as_json(found: Findings) -> str:
    """Every sample; of streams, what the table shows."""
    return json.dumps(
        {
            "plan": asdict(found.plan),
            "versions": dict(found.versions),
            "throughput": {n: [_dicts(each) for each in rounds] for n, rounds in found.throughput.items()},
            "latency": [_dicts(each) for each in found.latency],
            "streams": [{name: _stream(sample) for name, sample in each.items()} for each in found.streams],
            "delayed_chunks": {name: found.delayed(name) for each in found.streams[:1] for name in each},
            "streams_broken": found.broken,
            "decoys": dict(found.decoys),
            "result": json.loads(last_line(found)),
        },
        indent=1,
    )


def _dicts(samples: Mapping[str, Throughput] | Mapping[str, Latency]) -> dict[str, dict[str, float]]:
    return {name: asdict(sample) for name, sample in samples.items()}


def _stream(sample: Streams) -> dict[str, float]:
    return {
        **{f"p{q * 100:g}_ms": sample.at(q) for q in (0.5, 0.99, 0.999)},
        "worst_ms": sample.at(1.0),
        "chunks": len(sample.delays_ms),
        "missing": sample.missing,
        "core": sample.core,
        "memory_before_bytes": sample.memory_before_bytes,
        "memory_bytes": sample.memory_bytes,
    }
