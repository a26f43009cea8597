"""How many tokens each step of an engine computed, from its own metrics.

`vllm:iteration_tokens_total` counts every step by its tokens, without those of prompts that the prefix cache had: what
a graph's size must cover. Sampling how many requests run would miss bursts. A step that computes a part of a long
prompt counts with its answers' tokens alone; it needs no graph either way.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Final

FINE: Final = (
    *range(1, 17),
    *range(18, 33, 2),
    *range(36, 65, 4),
    *range(72, 129, 8),
    *range(144, 257, 16),
    *range(288, 513, 32),
)
"""Upper edges of what is counted together: each size up to 16, then within 12 % of each other."""
_COARSE: Final = (1024, 2048, 4096, 8192, 16384)
BUCKET_ARGS: Final = (
    "--custom-histogram-buckets",
    json.dumps({"iteration_tokens": [*FINE, *_COARSE]}, separators=(",", ":")),
)
"""vLLM's own edges (1 8 16 32 64 …) are too far apart to choose by; these make 61 series of 13."""

_LINE = re.compile(
    r"^vllm:iteration_tokens_total_bucket\{(?P<labels>[^}]*)\}\s+(?P<count>\d+(?:\.\d+)?(?:e\+?\d{1,2})?)\s*$",
    re.MULTILINE,
)
_EDGE = re.compile(r'(?:^|,)le="(?P<edge>\d{1,9}(?:\.\d+)?)"')


def steps_of(metrics: str) -> dict[int, float]:
    """Steps by the upper edge of their tokens since the engine's start, several engine cores added up.

    What no finite edge covers is left out, as no graph would. Empty where the metrics do not tell.
    """
    cumulative: dict[int, float] = {}
    for found in _LINE.finditer(metrics):
        edge = _EDGE.search(found["labels"])
        if edge is not None:
            tokens = max(math.ceil(float(edge["edge"])), 1)
            cumulative[tokens] = cumulative.get(tokens, 0.0) + float(found["count"])
    counts, below = {}, 0.0
    for tokens, count in sorted(cumulative.items()):
        if count > below:
            counts[tokens] = count - below
        below = max(below, count)
    return counts


class Tally:
    """What was new since the last look at one engine's counters, which only grow while it lives."""

    def __init__(self) -> None:
        self._last: Mapping[int, float] | None = None

    def new(self, counts: Mapping[int, float]) -> dict[int, float]:
        """Steps since the last look. The first look is where counting begins: a golden prompt is no traffic.

        `counts` empty: it could not be looked at, and the next look tells.
        """
        if not counts:
            return {}
        last, self._last = self._last, counts
        if last is None:
            return {}
        return {
            tokens: count - last.get(tokens, 0.0) for tokens, count in counts.items() if count > last.get(tokens, 0.0)
        }
