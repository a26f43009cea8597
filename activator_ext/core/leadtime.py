"""Lead time: how long from wanting a replica to having it, learned from this service's own starts.

Knows no clock and no schedule: samples and a prior in, seconds out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from types import MappingProxyType

from activator_ext.core.model import LeadSample, StartKind

NEWEST = 50
"""How many of the newest samples of a kind count: enough for a P95, few enough to forget last month's image."""

PRIOR_WEIGHT = 1.0
"""The prior counts as much as this many own samples (n0)."""

_SLOWER: Mapping[StartKind, StartKind] = MappingProxyType(
    {
        StartKind.COLD_NODE: StartKind.NEW_NODE,
        StartKind.CACHED_NODE: StartKind.COLD_NODE,
        StartKind.FORK: StartKind.CACHED_NODE,
        StartKind.SNAPSHOT: StartKind.CACHED_NODE,
        StartKind.WAKE_L2: StartKind.CACHED_NODE,
        StartKind.WAKE_L1: StartKind.CACHED_NODE,
    }
)
"""The kind that does all that this one does and more, and so bounds it from above."""


@dataclass(frozen=True, slots=True)
class LeadTime:
    """What is expected of one start kind, and from how many own samples."""

    kind: StartKind
    p50_s: float
    p95_s: float
    samples: int


@dataclass(frozen=True)
class LeadTimes:
    """The lead times of one service, by start kind. `prior_s`: what is assumed before its own starts are known."""

    samples: tuple[LeadSample, ...]
    prior_s: float

    def plan_s(self, kind: StartKind, q: float = 0.95, replicas: int = 1) -> float:
        """Seconds within which `replicas`, started together by `kind`, are all ready with probability `q`.

        Independent starts: all N are ready when the slowest is, so each needs the quantile q^(1/N); two replicas by
        P95 need one's P97.5. Raises ValueError unless 0 ≤ q ≤ 1 and replicas ≥ 1.
        """
        if not 0 <= q <= 1 or replicas < 1:
            raise ValueError(f"a lead time needs 0 ≤ q ≤ 1 and replicas ≥ 1, not q={q}, replicas={replicas}")
        return self._estimate(kind, q ** (1 / replicas))

    def explain(self) -> tuple[LeadTime, ...]:
        """Every kind that has own samples, slowest kind first."""
        return tuple(
            LeadTime(kind, self.plan_s(kind, 0.5), self.plan_s(kind), len(self._own[kind]))
            for kind in StartKind
            if kind in self._own
        )

    @cached_property
    def _own(self) -> Mapping[StartKind, list[float]]:
        """The newest samples of each kind in seconds, ascending."""
        newest: dict[StartKind, list[float]] = {}
        for sample in sorted(self.samples, key=lambda sample: (sample.ended_at, sample.lead_s), reverse=True):
            own = newest.setdefault(sample.kind, [])
            if len(own) < NEWEST:
                own.append(sample.lead_s)
        return {kind: sorted(own) for kind, own in newest.items()}

    def _estimate(self, kind: StartKind, q: float) -> float:
        """The estimate w · prior + (1 − w) · own quantile, w = n0 / (n0 + n); never below the fastest own start.

        Worked: prior 120 s and own starts of 40, 44 and 60 s. P95 of three is the slowest, 60 s; w = 1/(1+3) = 0.25;
        0.25 · 120 + 0.75 · 60 = 75 s. After twenty such starts w = 1/21 and the estimate is 63 s.
        """
        prior = max(self.prior_s, 0.0)
        if kind in _SLOWER:
            # A start that does less takes no longer; nothing follows for the slower kind from the faster one.
            prior = min(prior, self._estimate(_SLOWER[kind], q))
        own = self._own.get(kind)
        if own is None:
            return prior
        weight = PRIOR_WEIGHT / (PRIOR_WEIGHT + len(own))
        slow = _upper_quantile(own, q)
        # In this form rounding keeps what is equal equal: 99 s and 99 s are not 99.00000000000001 s.
        blend = slow + weight * (prior - slow)
        return max(min(blend, max(prior, slow)), own[0])


def _upper_quantile(ascending: list[float], q: float) -> float:
    """The empirical quantile, the next sample above where it falls between two: numpy's method 'higher'.

    Worked: P95 of 20 samples stands at 0.95 · 19 = 18.05, so it is the 20th, the slowest.
    """
    # 0.55 · 20 is 11.000000000000002 in floats: without the tolerance that would be one sample too far.
    return ascending[ceil(q * (len(ascending) - 1) - 1e-9)]
