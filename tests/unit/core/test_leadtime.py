"""Lead times: the shrinking prior, the quantiles, what one kind says of another."""

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator_ext.core.leadtime import NEWEST, LeadTime, LeadTimes
from activator_ext.core.model import LeadSample, StartKind

from .build import NOW

COLD, CACHED, WAKE = StartKind.COLD_NODE, StartKind.CACHED_NODE, StartKind.WAKE_L1


def starts(kind: StartKind, *seconds: float) -> tuple[LeadSample, ...]:
    """Own starts, the oldest first."""
    return tuple(LeadSample(kind, lead_s, NOW + timedelta(hours=i)) for i, lead_s in enumerate(seconds))


@pytest.mark.parametrize(
    ("samples", "kind", "q", "replicas", "expect"),
    [
        pytest.param((), COLD, 0.95, 1, 120, id="no samples: the prior"),
        pytest.param(starts(COLD, 60), COLD, 0.95, 1, 90, id="one sample weighs as much as the prior"),
        pytest.param(starts(COLD, 40, 44, 60), COLD, 0.95, 1, 75, id="the worked number"),
        pytest.param(starts(COLD, 44, 60, 40), COLD, 0.5, 1, 63, id="the median of the same starts"),
        pytest.param(starts(COLD, *range(1, 21)), COLD, 0.95, 1, (120 + 20 * 20) / 21, id="P95 of 20 is the slowest"),
        pytest.param(starts(COLD, *range(1, 42)), COLD, 0.95, 1, (120 + 41 * 39) / 42, id="P95 of 41 is the 39th"),
        pytest.param(
            starts(COLD, *range(1, 42)), COLD, 0.95, 2, (120 + 41 * 40) / 42, id="two together need the P97.5"
        ),
        pytest.param(starts(COLD, *range(1, 42)), COLD, 0.95, 50, (120 + 41 * 41) / 42, id="fifty need the slowest"),
        pytest.param(
            starts(COLD, *[999] * 9, *[50] * NEWEST), COLD, 0.95, 1, (120 + 50 * 50) / 51, id="only the newest 50"
        ),
        pytest.param(starts(COLD, 400), COLD, 0.95, 1, 400, id="never below the fastest own start"),
        pytest.param(starts(COLD, 60), CACHED, 0.95, 1, 90, id="a cached node starts no slower than a cold one"),
        pytest.param(starts(COLD, 60), WAKE, 0.95, 1, 90, id="nor does a wake"),
        pytest.param(starts(CACHED, 60), WAKE, 0.95, 1, 90, id="a wake is no slower than a cached start"),
        pytest.param(starts(COLD, 60) + starts(CACHED, 20), WAKE, 0.95, 1, 55, id="of both, the nearer one's estimate"),
        pytest.param(starts(COLD, 60) + starts(CACHED, 20), CACHED, 0.95, 1, 55, id="the informed prior shrinks too"),
        pytest.param(starts(COLD, 900), CACHED, 0.95, 1, 120, id="a slower relative does not raise the prior"),
        pytest.param(starts(CACHED, 20), COLD, 0.95, 1, 120, id="a faster kind says nothing of a slower one"),
        pytest.param(starts(COLD, 60), StartKind.NEW_NODE, 0.95, 1, 120, id="nor a cold node of a new one"),
    ],
)
def test_plan(samples: tuple[LeadSample, ...], kind: StartKind, q: float, replicas: int, expect: float) -> None:
    assert LeadTimes(samples, prior_s=120).plan_s(kind, q, replicas) == pytest.approx(expect)


def test_what_is_equal_stays_equal() -> None:
    """Rounding made 99.00000000000001 s of 99 s and 99 s."""
    assert LeadTimes(starts(COLD, 99, 99), 99).plan_s(COLD) == 99


def test_a_negative_prior_counts_as_none() -> None:
    assert LeadTimes((), prior_s=-5).plan_s(COLD) == 0


@pytest.mark.parametrize(("q", "replicas"), [(-0.1, 1), (1.1, 1), (0.5, 0)])
def test_what_is_no_quantile_is_refused(q: float, replicas: int) -> None:
    with pytest.raises(ValueError, match="0 ≤ q ≤ 1 and replicas ≥ 1"):
        LeadTimes((), 120).plan_s(COLD, q, replicas)


def test_explain_tells_each_kind_with_samples() -> None:
    known = LeadTimes(starts(CACHED, 20) + starts(COLD, 40, 44, 60), prior_s=120)
    assert known.explain() == (LeadTime(COLD, 63, 75, 3), LeadTime(CACHED, 41.5, 47.5, 1))


seconds = st.floats(0, 3600, allow_nan=False)
samples = st.lists(
    st.builds(
        LeadSample,
        st.sampled_from(StartKind),
        seconds,
        st.integers(0, 99).map(lambda hours: NOW + timedelta(hours=hours)),
    ),
    max_size=80,
).map(tuple)
quantiles = st.floats(0, 1)


@given(st.lists(seconds, min_size=1, max_size=NEWEST), quantiles)
def test_the_own_quantile_is_numpys_higher(own: list[float], q: float) -> None:
    fast = LeadTimes(starts(StartKind.NEW_NODE, *own), prior_s=0)
    weight = 1 / (1 + len(own))
    # numpy has no tolerance for 0.55 · 20 = 11.000000000000002; a hair less q is the same sample for both.
    allowed = {float(np.quantile(own, max(q - hair, 0), method="higher")) for hair in (0, 1e-10)}
    assert any(fast.plan_s(StartKind.NEW_NODE, q) == pytest.approx(max((1 - weight) * x, min(own))) for x in allowed)


@given(samples, st.sampled_from(StartKind), seconds, quantiles, quantiles, st.integers(1, 9))
def test_estimates_stay_in_reason(
    known: tuple[LeadSample, ...], kind: StartKind, prior_s: float, q: float, other_q: float, replicas: int
) -> None:
    leads = LeadTimes(known, prior_s)
    low, high = sorted((q, other_q))
    own = [sample.lead_s for sample in sorted(known, key=lambda s: s.ended_at)[-NEWEST:] if sample.kind is kind]
    assert 0 <= leads.plan_s(kind, q) <= max([prior_s, *(sample.lead_s for sample in known)])
    assert leads.plan_s(kind, low) <= leads.plan_s(kind, high) + 1e-9
    assert leads.plan_s(kind, q, replicas) <= leads.plan_s(kind, q, replicas + 1) + 1e-9
    assert LeadTimes(known[::-1], prior_s).plan_s(kind, q) == leads.plan_s(kind, q)
    if own:
        assert leads.plan_s(kind, q) >= min(sample.lead_s for sample in known if sample.kind is kind)
