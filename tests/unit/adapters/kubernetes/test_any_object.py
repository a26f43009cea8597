"""Whatever an object holds: it is judged, nothing raises, and its status can be told and written."""

import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from activator_ext.adapters.kubernetes.holds import holds
from activator_ext.adapters.kubernetes.policies import assign
from activator_ext.adapters.kubernetes.status import hold_status, patch, policy_status
from activator_ext.adapters.kubernetes.status_fields import PolicyStatus
from tests.unit.adapters.kubernetes.objects import hold, policy, served

NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
CRONS = ["0 9 * * 1-5", "0 0 30 2 *"]
WORDS = st.sampled_from(
    [*CRONS, "chat", "10m", "1e9d", "Europe/Madrid", "2026-02-29T09:00:00Z", "-", "x\u2066y", "\ud800"]
)
IN_SCHEDULES = ["name", "readyBy", "start", "until", "timeZone", "replicas"]
ELSEWHERE = ["serviceRef", "kind", "bounds", "min", "max", "schedules", "for", "prior", "tokens", "target", "zzz", ""]
KEYS = st.sampled_from([*IN_SCHEDULES, *ELSEWHERE])
JSON = st.recursive(
    SCALARS | WORDS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=5),
    max_leaves=25,
)
SPECS = JSON | st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("bounds", "schedules", "coldStartCost", "until"), JSON)
)


@given(SPECS, st.sampled_from(["default", "chat"]))
def test_a_policy(spec: Any, name: str) -> None:
    item = policy(name)
    item["spec"] = spec
    assigned = assign([item, policy("second", created=1)], served("chat"))
    verdict = next(each for identity, each in assigned.verdicts.items() if identity.name == name)

    change = patch({}, policy_status(verdict, {}, {}, NINE))
    assert json.dumps(change).encode()


@given(SPECS)
def test_a_hold(spec: Any) -> None:
    item = hold()
    item["spec"] = spec
    found = holds([item], served("chat"), NINE)
    (verdict,) = found.verdicts.values()

    assert bool(found.holds) is (verdict.state in ("Announced", "Active"))
    assert all(each.until > NINE for each in found.holds)
    assert json.dumps(patch({}, hold_status(verdict, None, {}, NINE))).encode()


def merged(before: Any, change: Any) -> Any:
    """RFC 7396."""
    if not isinstance(change, dict):
        return change
    after = dict(before) if isinstance(before, dict) else {}
    for key, value in change.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = merged(after.get(key), value)
    return after


STATUSES = st.builds(
    PolicyStatus,
    floor=st.none() | st.integers(0, 3),
    reason=st.none()
    | st.fixed_dictionaries(
        {
            "code": st.sampled_from(["no-demand", "requests"]),
            "text": st.just("x"),
            "numbers": st.dictionaries(st.sampled_from("abc"), st.sampled_from("12")),
        }
    ),
    lead_times=st.lists(st.just({"kind": "fork", "p50": "1s", "p95": "2s", "samples": 1}), max_size=2),
    next_warm_time=st.none() | st.just("2026-03-02T09:00:00Z"),
)


@given(STATUSES, STATUSES)
def test_a_patch_makes_one_status_of_the_other(before: PolicyStatus, after: PolicyStatus) -> None:
    stored = merged({}, patch({}, before) or {})
    then = merged(stored, patch(stored, after) or {})

    assert then == merged({}, patch({}, after) or {})
    assert patch(then, after) is None
