"""What a status says of a decision, and that nothing is written without cause."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from activator_ext.adapters.kubernetes.conditions import REASONS
from activator_ext.adapters.kubernetes.holds import holds
from activator_ext.adapters.kubernetes.policies import Assigned, Verdict, assign
from activator_ext.adapters.kubernetes.report import Report
from activator_ext.adapters.kubernetes.status import hold_status, patch, policy_status
from activator_ext.adapters.kubernetes.status_fields import MOST_SERVICES
from activator_ext.adapters.kubernetes.texts import duration_text, instant_text
from activator_ext.core.decide import decide
from activator_ext.core.model import (
    Config,
    DemandKind,
    Floor,
    LeadSample,
    Observation,
    QueueView,
    Reason,
    ReasonCode,
    ReplicaView,
    ServiceId,
    ServiceObservation,
    StartKind,
    State,
    Warmth,
)
from runtime.contract import Failure, FailureCause, Mark, StartRecord
from runtime.contract import StartKind as RecordKind
from tests.unit.adapters.kubernetes.objects import hold, policy, served

NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)
CHAT = ServiceId("team-a", "chat")
NOTHING = Floor(0, None, Reason(ReasonCode.NO_DEMAND))
ONE = Floor(
    1, NINE + timedelta(hours=9), Reason(ReasonCode.SCHEDULE_WINDOW, {"name": "x", "until": "y"}), DemandKind.SCHEDULE
)
COLD = Report(Warmth.COLD, 0, NOTHING, None, 120.0)


def verdict(assigned: Assigned, name: str = "chat") -> Verdict:
    return next(each for identity, each in assigned.verdicts.items() if identity.name == name)


def applied(status: Any, change: dict[str, Any] | None) -> dict[str, Any]:
    """What an API server makes of a merge patch (RFC 7396)."""
    after: dict[str, Any] = dict(status) if isinstance(status, dict) else {}
    for key, value in (change or {}).items():
        if value is None:
            after.pop(key, None)
        elif isinstance(value, dict):
            after[key] = applied(after.get(key), value)
        else:
            after[key] = value
    return after


def written(
    given: Verdict, reports: dict[ServiceId, Report], before: dict[str, Any] | None = None, after_s: float = 0
) -> dict[str, Any]:
    """The whole status after a write onto `before`."""
    now = NINE + timedelta(seconds=after_s)
    return applied(before or {}, patch(before or {}, policy_status(given, reports, before or {}, now)))


def told(status: dict[str, Any], kind: str) -> tuple[str, str]:
    """Status and reason of a condition, which the table of all reasons has with that status."""
    (found,) = (each for each in status["conditions"] if each["type"] == kind)
    assert REASONS[kind][found["reason"]][0] == found["status"]
    return found["status"], found["reason"]


def test_a_whole_status() -> None:
    given = verdict(assign([policy()], served("chat")))
    start = StartRecord(
        id="chat-7",
        service="team-a/chat",
        replica="chat-7",
        kind=RecordKind.FORK,
        outcome="ready",
        ready_s=12.34,
        marks={Mark.T0: NINE - timedelta(minutes=2), Mark.T9: NINE - timedelta(minutes=1)},
    )
    failure = Failure(
        cause=FailureCause.NO_MEMORY, message="not enough memory: ask for more", at=NINE - timedelta(hours=1)
    )
    observed = ServiceObservation(
        replicas=(ReplicaView("a", Warmth.WARM, NINE), ReplicaView("b", Warmth.WARMING, NINE)),
        queue=QueueView(NINE),
        next_kind=StartKind.FORK,
        lead_samples=(LeadSample(StartKind.FORK, 10.0, NINE), LeadSample(StartKind.COLD_NODE, 3000.0, NINE)),
    )
    schedule = {"name": "office", "readyBy": "0 10 * * *", "until": "0 18 * * *"}
    assigned = assign([policy(schedules=[schedule])], served("chat"))
    decision = decide(NINE, Observation({CHAT: observed}), State(), Config(assigned.policies))
    report = Report.of(decision.services[CHAT], observed, assigned.policies[CHAT], [start], failure)

    assert written(given, {CHAT: report}) == {
        "observedGeneration": 1,
        "serviceCount": 1,
        "warmth": "warm",
        "readyReplicas": 1,
        "floor": 2,
        "reason": {
            "code": "loading-lease",
            "text": "1 starting: a start under way is never stopped for lack of demand",
            "numbers": {"warming": "1"},
        },
        "nextWarmTime": "2026-03-02T10:00:00Z",
        "leadTime": duration_text(decision.services[CHAT].lead_s),
        "leadTimes": [
            {"kind": "cold-node", "p50": "50m", "p95": "50m", "samples": 1},
            {"kind": "fork", "p50": "1m5s", "p95": "1m5s", "samples": 1},
        ],
        "lastStart": {
            "id": "chat-7", "kind": "fork", "outcome": "ready", "beganTime": "2026-03-02T08:58:00Z", "took": "12s",
        },
        "lastFailure": {
            "cause": "no-memory",
            "message": "not enough memory: ask for more",
            "time": "2026-03-02T08:00:00Z",
        },
        "conditions": [
            {
                "type": "Accepted", "status": "True", "reason": "Accepted", "message": "it counts for team-a/chat.",
                "observedGeneration": 1, "lastTransitionTime": "2026-03-02T09:00:00Z",
            },
            {
                "type": "Conflict", "status": "False", "reason": "NoOtherPolicy",
                "message": "no other policy names the same service.",
                "observedGeneration": 1, "lastTransitionTime": "2026-03-02T09:00:00Z",
            },
            {
                "type": "Ready", "status": "False", "reason": "Warming",
                "message": "1 of 2 wanted replicas are ready.",
                "observedGeneration": 1, "lastTransitionTime": "2026-03-02T09:00:00Z",
            },
        ],
    }  # fmt: skip


FAILED = Failure(cause=FailureCause.BAD_ARGUMENTS, message="vLLM refuses --x: remove it", at=NINE)
STARTED = StartRecord(
    id="a", service="team-a/chat", replica="a", kind=RecordKind.FORK, outcome="ready", marks={Mark.T9: NINE}
)

ONE_WARM = replace(COLD, floor=ONE, warmth=Warmth.WARM, ready_replicas=1)
# What is known of the service (None: nothing) → the condition Ready.
READY: dict[str, tuple[Report | None, tuple[str, str]]] = {
    "nothing known": (None, ("Unknown", "NotObserved")),
    "nothing wanted": (COLD, ("True", "NothingWanted")),
    "wanted and cold": (replace(COLD, floor=ONE), ("False", "Warming")),
    "wanted and warm": (ONE_WARM, ("True", "FloorMet")),
    "failed": (replace(COLD, floor=ONE, last_failure=FAILED), ("False", "StartFailed")),
    "failed, then ready, now warming": (
        replace(
            COLD,
            floor=ONE,
            last_failure=FAILED.model_copy(update={"at": NINE - timedelta(seconds=60)}),
            last_start=STARTED,
        ),
        ("False", "Warming"),
    ),
    "failed long ago, and nothing wanted": (replace(COLD, last_failure=FAILED), ("True", "NothingWanted")),
}


@pytest.mark.parametrize(("report", "expected"), READY.values(), ids=READY.keys())
def test_ready(report: Report | None, expected: tuple[str, str]) -> None:
    given = verdict(assign([policy()], served("chat")))

    assert told(written(given, {} if report is None else {CHAT: report}), "Ready") == expected


def test_every_reason_can_be_told_and_no_other() -> None:
    broken: dict[str, Any] = {"schedules": [{"name": "x", "start": "50-10 * * * *", "until": "0 1 * * *"}]}
    default = policy("default", ref=None)
    lists = ([policy(), policy("younger", created=1)], [policy(**broken)], [policy(ref="chta")], [policy(), default])
    verdicts = [each for objects in lists for each in assign(objects, served("chat")).verdicts.values()]
    statuses = [
        written(each, {} if report is None else {CHAT: report}) for each in verdicts for report, _ in READY.values()
    ]
    specs: list[dict[str, Any]] = [{"for_": "1h"}, {}, {"for_": "1h", "readyBy": "2026-03-02T10:00:00Z"}]
    specs += [{"for_": "1h", "ref": "chta"}, {"until": "2026-03-02T08:00:00Z"}]
    for spec in specs:
        (given,) = holds([hold(**spec)], served("chat"), NINE).verdicts.values()
        statuses += [applied({}, patch({}, hold_status(given, report, {}, NINE))) for report, _ in READY.values()]

    said = {(each["type"], each["reason"], each["status"]) for status in statuses for each in status["conditions"]}
    assert said == {
        (kind, reason, status) for kind, reasons in REASONS.items() for reason, (status, _) in reasons.items()
    }


def test_two_policies_of_one_service_both_say_so_and_which_counts() -> None:
    assigned = assign([policy("one"), policy("two", created=1)], served("chat"))
    one, two = (written(verdict(assigned, name), {CHAT: COLD}) for name in ("one", "two"))

    assert (told(one, "Accepted"), told(one, "Conflict")) == (("True", "Accepted"), ("True", "SecondPolicy"))
    assert (told(two, "Accepted"), told(two, "Conflict")) == (("False", "OlderPolicyCounts"), ("True", "SecondPolicy"))
    assert [each["conditions"][1]["message"] for each in (one, two)] == [
        "its service has a second policy, two; one, the oldest that is valid, counts. Remove all but one.",
        "its service has a second policy, one; one, the oldest that is valid, counts. Remove all but one.",
    ]
    assert "floor" not in two


def test_an_invalid_policy_says_what_counts_instead() -> None:
    first = assign([policy()], served("chat"))
    edited = policy(schedules=[{"name": "x", "start": "50-10 * * * *", "until": "0 1 * * *"}])
    edited["metadata"]["generation"] = 2
    status = written(verdict(assign([edited], served("chat"), first.known)), {CHAT: COLD})

    assert told(status, "Accepted") == ("False", "Invalid")
    assert status["conditions"][0]["message"].endswith(" Until it is mended, generation 1 of it counts.")
    assert status["observedGeneration"] == 2
    assert status["floor"] == 0


def test_a_default_policy_lists_its_services() -> None:
    names = [f"s{number:03}" for number in range(MOST_SERVICES + 20)]
    given = verdict(assign([policy("default", ref=None)], served(*names)), "default")
    late = replace(COLD, floor=ONE)
    status = written(given, {ServiceId("team-a", name): late if name == "s001" else COLD for name in names})

    assert status["serviceCount"] == MOST_SERVICES + 20
    assert [each["name"] for each in status["services"]] == names[:MOST_SERVICES]
    assert status["services"][1] == {"name": "s001", "warmth": "cold", "floor": 1, "reason": "schedule-window"}
    assert told(status, "Ready") == ("False", "Warming")
    assert "warmth" not in status


def test_a_condition_keeps_its_age_while_its_status_stays() -> None:
    given = verdict(assign([policy()], served("chat")))
    first = written(given, {CHAT: COLD})
    second = written(given, {CHAT: replace(COLD, floor=ONE)}, first, after_s=60)

    ages = {each["type"]: each["lastTransitionTime"] for each in second["conditions"]}
    assert ages == {
        "Accepted": "2026-03-02T09:00:00Z",
        "Conflict": "2026-03-02T09:00:00Z",
        "Ready": "2026-03-02T09:01:00Z",
    }


def test_what_is_over_leaves_the_status() -> None:
    given = verdict(assign([policy()], served("chat")))
    first = written(given, {CHAT: replace(COLD, floor=ONE, next_warm_at=NINE)})
    second = written(given, {CHAT: COLD}, first)

    assert first["reason"]["numbers"] == {"name": "x", "until": "y"}
    assert "numbers" not in second["reason"] or second["reason"]["numbers"] == {}
    assert first.keys() - second.keys() == {"nextWarmTime", "floorUntil"}
    assert written(given, {}, second).keys() == {"observedGeneration", "serviceCount", "conditions"}


def test_the_same_again_writes_nothing() -> None:
    given = verdict(assign([policy(bounds={"max": 9})], served("chat")))
    report = replace(COLD, floor=ONE, last_failure=FAILED, last_start=STARTED)
    status = written(given, {CHAT: report})

    later = NINE + timedelta(hours=1, microseconds=5)
    assert patch(status, policy_status(given, {CHAT: report}, status, later)) is None


def test_traffic_writes_little() -> None:
    """Requests every few seconds for half an hour, looked at each second: what moves with them is not written."""
    chance = random.Random(7)
    assigned = assign([policy()], served("chat"))
    given, state, writes = verdict(assigned), State(), []
    status: dict[str, Any] = {}
    last: datetime | None = None
    busy_until = NINE
    for second in range(1800):
        now = NINE + timedelta(seconds=second, microseconds=chance.randrange(10**6))
        if chance.random() < 0.2:
            busy_until = now + timedelta(seconds=chance.uniform(0, 8))
        running = int(now < busy_until)
        last = now if running else last
        warm = ReplicaView("a", Warmth.BUSY if running else Warmth.WARM, NINE, ready_at=NINE)
        seen = ServiceObservation((warm,), QueueView(now, 0, running, last))
        decision = decide(now, Observation({CHAT: seen}), state, Config(assigned.policies))
        state = decision.state
        report = Report.of(decision.services[CHAT], seen, assigned.policies[CHAT])
        change = patch(status, policy_status(given, {CHAT: report}, status, now))
        if change is not None:
            writes.append((second, sorted(change)))
            status = applied(status, change)

    assert status["warmth"] == "warm"
    assert status["reason"]["code"] == "requests"
    assert len(writes) <= 3, writes


@pytest.mark.parametrize(
    ("spec", "report", "state", "accepted", "ready"),
    [
        ({"for_": "1h"}, ONE_WARM, "Active", ("True", "Accepted"), ("True", "FloorMet")),
        ({"for_": "1h", "replicas": 2}, ONE_WARM, "Active", ("True", "Accepted"), ("False", "Bounded")),
        ({"for_": "1h"}, replace(COLD, floor=ONE), "Active", ("True", "Accepted"), ("False", "Warming")),
        ({"for_": "1h"}, None, "Active", ("True", "Accepted"), ("Unknown", "NotObserved")),
        ({"for_": "1h", "ref": "x"}, None, "Active", ("False", "NoSuchService"), ("Unknown", "NotObserved")),
        ({}, None, "Refused", ("False", "Invalid"), ("False", "Refused")),
        ({"until": "2026-03-02T08:00:00Z"}, COLD, "Expired", ("True", "Accepted"), ("False", "Expired")),
    ],
)
def test_a_hold_s_status(
    spec: dict[str, Any],
    report: Report | None,
    state: str,
    accepted: tuple[str, str],
    ready: tuple[str, str],
) -> None:
    (given,) = holds([hold(**spec)], served("chat"), NINE).verdicts.values()
    status = applied({}, patch({}, hold_status(given, report, {}, NINE)))

    assert (status["state"], told(status, "Accepted"), told(status, "Ready")) == (state, accepted, ready)
    assert patch(status, hold_status(given, report, status, NINE + timedelta(minutes=5))) is None


@pytest.mark.parametrize(
    ("length_s", "text"),
    [
        (0.0, "0s"),
        (0.04, "0s"),
        (4.16, "4.2s"),
        (9.96, "10s"),
        (47.4, "47s"),
        (59.6, "1m"),
        (125.0, "2m5s"),
        (3599.9, "1h"),
        (3725.0, "1h2m"),
        (90000.0, "25h"),
    ],
)
def test_durations(length_s: float, text: str) -> None:
    assert duration_text(length_s) == text


def test_instants_are_utc_and_whole() -> None:
    assert (
        instant_text(datetime(2026, 3, 2, 10, 0, 0, 999999, tzinfo=ZoneInfo("Europe/Madrid"))) == "2026-03-02T09:00:00Z"
    )
