"""How much one run measures."""

from dataclasses import dataclass

CHUNKS_PER_S = 50
"""Of each stream: about what a reader of a fast small model sees."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The defaults take about five minutes."""

    connections: tuple[int, ...] = (32, 128)
    rounds: int = 5
    round_s: float = 3.0
    latency_rounds: int = 9
    latency_requests: int = 3000
    stream_rounds: int = 2
    streams: int = 1000
    stream_s: float = 10.0


QUICK = Plan(rounds=2, round_s=1.0, latency_rounds=3, latency_requests=1000, stream_rounds=1, streams=200, stream_s=3.0)
"""To see that everything works; its figures are not for comparing."""
