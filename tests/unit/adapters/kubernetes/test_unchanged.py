"""What did not change is not worked out again, and what did is."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from activator_ext.adapters.kubernetes import statuses as statuses_module
from activator_ext.adapters.kubernetes.assigner import Assigner
from activator_ext.adapters.kubernetes.holds import Holds
from activator_ext.adapters.kubernetes.ours import POLICIES, Ours, keep
from activator_ext.adapters.kubernetes.report import Report
from activator_ext.adapters.kubernetes.served import Served
from activator_ext.adapters.kubernetes.status import policy_status
from activator_ext.adapters.kubernetes.statuses import Statuses
from activator_ext.core.model import Floor, Reason, ReasonCode, ServiceId, Warmth
from tests.unit.adapters.kubernetes.objects import policy, served, service

NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)
CHAT = ServiceId("team-a", "chat")
COLD = Report(Warmth.COLD, 0, Floor(0, None, Reason(ReasonCode.NO_DEMAND)), None, 120.0)
NO_HOLDS = Holds((), {}, ())


def ours(status: dict[str, Any] | None = None, **spec: Any) -> Ours:
    return keep(POLICIES)({**policy(**spec), "status": status})


def test_the_same_objects_have_the_very_same_answer() -> None:
    assigner, services = Assigner(), served("chat")
    first = assigner.assign([ours()], services)

    assert assigner.assign([ours({"floor": 1})], services) is first
    assert assigner.assign([ours()], served("chat")) is first


def changed(kept: Ours, **metadata: Any) -> Ours:
    return replace(kept, item={**kept.item, "metadata": {**kept.item["metadata"], **metadata}})


CHANGES: dict[str, tuple[list[Ours], list[Served]]] = {
    "an edit": ([changed(ours(coldStartCost="1m"), generation=2)], served("chat")),
    "a deletion": ([changed(ours(), deletionTimestamp="2026-03-02T09:00:00Z")], served("chat")),
    "it is gone": ([], served("chat")),
    "another of the same name": ([changed(ours(coldStartCost="1m"), uid="new")], served("chat")),
    "another policy": ([ours(), ours(name="a")], served("chat")),
    "the service is gone": ([ours()], []),
    "the service has other bounds": ([ours()], [Served.of(service(maxReplicas=1))]),
}


@pytest.mark.parametrize(("policies", "services"), CHANGES.values(), ids=CHANGES.keys())
def test_any_change_has_a_new_answer(policies: list[Ours], services: list[Served]) -> None:
    assigner = Assigner()
    first = assigner.assign([ours()], served("chat"))
    second = assigner.assign(policies, services)

    assert second != first
    assert second == Assigner().assign(policies, services)


def test_a_status_that_is_right_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assigned, statuses = Assigner().assign([ours()], served("chat")), Statuses()
    made: list[datetime] = []

    def counted(*args: Any) -> Any:
        made.append(args[-1])
        return policy_status(*args)

    monkeypatch.setattr(statuses_module, "policy_status", counted)

    def writes(kept: Ours, report: Report, after_s: float) -> int:
        now = NINE + timedelta(seconds=after_s)
        return len(statuses.writes([kept], [], assigned, NO_HOLDS, {CHAT: report}, now))

    (write,) = statuses.writes([ours()], [], assigned, NO_HOLDS, {CHAT: COLD}, NINE)
    right = ours(dict(write.patch))
    warm = replace(COLD, warmth=Warmth.WARM)

    assert writes(ours(), COLD, 1) == 1, "what was not written is asked for again"
    assert [writes(right, COLD, after_s) for after_s in (2, 3, 4)] == [0, 0, 0]
    assert writes(right, warm, 5) == 1
    assert writes(ours({}), COLD, 6) == 1, "somebody emptied it"
    assert [round((each - NINE).total_seconds()) for each in made] == [0, 1, 2, 5, 6]
