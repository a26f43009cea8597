"""Which policy counts for which service, what it comes to, and what is said of each object."""

from typing import Any

import pytest
import yaml

from activator_ext.adapters.kubernetes import policies
from activator_ext.adapters.kubernetes.policies import Assigned, ObjectId, Outcome, assign
from activator_ext.adapters.kubernetes.served import Served
from activator_ext.adapters.local.example import EXAMPLE_POLICY
from activator_ext.core.model import Bounds, Policy, QueuePolicy, Schedule, ServiceId
from tests.unit.adapters.kubernetes.objects import policy, served, service

CHAT = ServiceId("team-a", "chat")
OFFICE = {"name": "office", "timeZone": "Europe/Madrid", "readyBy": "0 9 * * 1-5", "until": "0 18 * * 1-5"}


def outcomes(assigned: Assigned) -> dict[str, str]:
    return {each.name: verdict.outcome.value for each, verdict in assigned.verdicts.items()}


def said(assigned: Assigned, name: str = "chat") -> list[str]:
    (verdict,) = (verdict for each, verdict in assigned.verdicts.items() if each.name == name)
    return [f"{each.severity}: {each.file}{each.key}: {each.message}. {each.fix}" for each in verdict.findings]


def owners(assigned: Assigned) -> dict[str, str]:
    return {service.name: each.name for service, each in assigned.owners.items()}


def test_a_whole_policy() -> None:
    given = policy(bounds={"max": 2}, coldStartCost="5m", schedules=[OFFICE], leadTime={"prior": "90s"})
    assigned = assign([given], [Served.of(service(containerConcurrency=8))])

    assert assigned.policies == {
        CHAT: Policy(
            bounds=Bounds(0, 2),
            schedules=(Schedule("office", "Europe/Madrid", until="0 18 * * 1-5", ready_by="0 9 * * 1-5"),),
            queue=QueuePolicy(8),
            cold_start_cost_s=300.0,
            prior_lead_s=90.0,
        )
    }
    assert outcomes(assigned) == {"chat": "Accepted"}
    assert said(assigned) == []


def test_what_the_api_server_writes_by_default_changes_nothing() -> None:
    defaults: dict[str, Any] = {"coldStartCost": "10m", "leadTime": {"prior": "2m"}, "golden": {"maxTokens": 8}}
    bare, defaulted = assign([policy()], served("chat")), assign([policy(**defaults)], served("chat"))

    assert bare.policies == defaulted.policies
    assert said(defaulted) == []


def test_the_example_counts_and_what_has_no_effect_is_said() -> None:
    example = yaml.safe_load(EXAMPLE_POLICY)
    example["metadata"] |= {"uid": "u", "generation": 1, "creationTimestamp": "2026-03-02T09:00:00Z"}
    assigned = assign([example], served("chat"))

    assert outcomes(assigned) == {"chat": "Accepted"}
    assert said(assigned) == [
        "warning: spec.forecast: it has no effect in a cluster. Nothing acts on it yet; it is checked only.",
        "warning: spec.golden: it has no effect in a cluster. The runtime's own prompt is asked.",
        "warning: spec.objective: it has no effect in a cluster. Nothing acts on it yet; it is checked only.",
        "warning: spec.parking: it has no effect in a cluster. Nothing parks yet: an idle replica is stopped.",
    ]


TWO = [policy("younger", created=1), policy("older", created=0)]
BROKEN: dict[str, Any] = {"schedules": [{"name": "x", "start": "50-10 * * * *", "until": "0 1 * * *"}]}

# Objects; services → who counts for which service, and each object's outcome.
TABLE: dict[str, tuple[list[dict[str, Any]], list[str], dict[str, str], dict[str, str]]] = {
    "one": ([policy()], ["chat"], {"chat": "chat"}, {"chat": "Accepted"}),
    "none": ([], ["chat"], {}, {}),
    "its service is not there": ([policy()], ["other"], {}, {"chat": "NoSuchService"}),
    "two: the older counts": (
        TWO,
        ["chat"],
        {"chat": "older"},
        {"older": "Accepted", "younger": "OlderPolicyCounts"},
    ),
    "two, listed the other way round": (
        TWO[::-1],
        ["chat"],
        {"chat": "older"},
        {"older": "Accepted", "younger": "OlderPolicyCounts"},
    ),
    "two of one second: by name": (
        [policy("b"), policy("a")],
        ["chat"],
        {"chat": "a"},
        {"a": "Accepted", "b": "OlderPolicyCounts"},
    ),
    "two, the older is invalid": (
        [policy("older", **BROKEN), policy("younger", created=1)],
        ["chat"],
        {"chat": "younger"},
        {"older": "Invalid", "younger": "Accepted"},
    ),
    "two for a service that is not there": (
        TWO,
        [],
        {},
        {"older": "NoSuchService", "younger": "OlderPolicyCounts"},
    ),
    "two, the older is being deleted": (
        [TWO[0], {**TWO[1], "metadata": {**TWO[1]["metadata"], "deletionTimestamp": "2026-03-02T10:00:00Z"}}],
        ["chat"],
        {"chat": "younger"},
        {"younger": "Accepted"},
    ),
    "default takes the rest": (
        [policy("default", ref=None), policy("for-b", ref="b")],
        ["a", "b", "c"],
        {"a": "default", "b": "for-b", "c": "default"},
        {"default": "Accepted", "for-b": "Accepted"},
    ),
    "default with nothing left": (
        [policy("default", ref=None), policy()],
        ["chat"],
        {"chat": "chat"},
        {"default": "NoServiceLeft", "chat": "Accepted"},
    ),
    "default of another namespace": (
        [policy("default", ref=None, namespace="team-b")],
        ["chat"],
        {},
        {"default": "NoServiceLeft"},
    ),
    "default that names a service is its own": (
        [policy("default")],
        ["chat", "other"],
        {"chat": "default"},
        {"default": "Accepted"},
    ),
    "a service whose own policy is invalid is not handed to default": (
        [policy("default", ref=None), policy(**BROKEN)],
        ["chat", "other"],
        {"other": "default"},
        {"default": "Accepted", "chat": "Invalid"},
    ),
    "no serviceRef and another name": ([policy(ref=None)], ["chat"], {}, {"chat": "Invalid"}),
    "another kind of the same name": (
        [policy(ref=None, serviceRef={"kind": "LLMInferenceService", "name": "chat"})],
        ["chat"],
        {},
        {"chat": "NoSuchService"},
    ),
}


@pytest.mark.parametrize(("objects", "services", "who", "what"), TABLE.values(), ids=TABLE.keys())
def test_who_counts(
    objects: list[dict[str, Any]], services: list[str], who: dict[str, str], what: dict[str, str]
) -> None:
    assigned = assign(objects, served(*services))

    assert owners(assigned) == who
    assert outcomes(assigned) == what
    assert assigned.policies.keys() == assigned.owners.keys()


def test_both_of_two_know_of_each_other_and_who_counts() -> None:
    assigned = assign(TWO, served("chat"))

    assert {each.name: (v.rivals, v.counts) for each, v in assigned.verdicts.items()} == {
        "older": (("younger",), "older"),
        "younger": (("older",), "older"),
    }


MESSAGES = {
    "a range that runs backwards": (
        policy(**BROKEN),
        [
            "error: spec.schedules[0].start: start '50-10 * * * *' is no cron expression (Bad minute). "
            "Write minute, hour, day of month, month, day of week, such as '0 9 * * 1-5'."
        ],
    ),
    "an expression that never fires": (
        policy(schedules=[{**OFFICE, "until": "0 0 30 2 *"}]),
        [
            "error: spec.schedules[0].until: until '0 0 30 2 *' is no cron expression (Bad day-of-month). "
            "Write minute, hour, day of month, month, day of week, such as '0 9 * * 1-5'."
        ],
    ),
    "no service of that name": (
        policy(ref="chta"),
        ["error: spec.serviceRef.name: no InferenceService is named team-a/chta. Did you mean chat?"],
    ),
    "no serviceRef": (
        policy(ref=None),
        [
            "error: spec: it is required: serviceRef."
            " Write serviceRef: {name: SERVICE}, or name the policy default: it is then for each service."
        ],
    ),
    "bounds that the service cuts": (
        policy(bounds={"max": 9}),
        [
            "warning: spec.bounds.max: 9 becomes 3: team-a/chat has minReplicas 0, and maxReplicas 3. "
            "Change the InferenceService's minReplicas or maxReplicas: a policy acts within them."
        ],
    ),
    "a key of a newer version": (
        policy(wizardry=True),
        [
            "error: spec.wizardry: unknown key. Known here: bounds, coldStartCost, forecast, golden, leadTime, "
            "objective, parking, queue, schedules, serviceRef."
        ],
    ),
}


@pytest.mark.parametrize(("given", "expected"), MESSAGES.values(), ids=MESSAGES.keys())
def test_what_is_said(given: dict[str, Any], expected: list[str]) -> None:
    assert said(assign([given], served("chat"))) == expected


def test_bounds_that_contradict_each_other_in_the_service_are_said_with_its_name() -> None:
    contradicting = Served.of(service(minReplicas=4, maxReplicas=2))

    assert said(assign([policy()], [contradicting]))[0] == (
        "error: InferenceService team-a/chatspec.predictor.maxReplicas: maxReplicas 2 is less than minReplicas 4. "
        "Raise it, or lower minReplicas."
    )


def test_an_edit_that_makes_a_policy_invalid_keeps_what_counted() -> None:
    first = assign([policy(coldStartCost="5m")], served("chat"))
    edited = policy(**BROKEN)
    edited["metadata"]["generation"] = 2
    second = assign([edited], served("chat"), first.known)
    third = assign([edited], served("chat"), second.known)

    for after in (second, third):
        assert after.policies == first.policies
        assert outcomes(after) == {"chat": "Invalid"}
        assert [(v.kept, v.generation) for v in after.verdicts.values()] == [(1, 2)]


def test_an_invalid_older_policy_keeps_its_place_by_what_it_was() -> None:
    first = assign([policy("older", coldStartCost="5m")], served("chat"))
    edited = policy("older", **BROKEN)
    edited["metadata"]["generation"] = 2
    after = assign([edited, policy("younger", created=1)], served("chat"), first.known)

    assert owners(after) == {"chat": "older"}
    assert outcomes(after) == {"older": "Invalid", "younger": "OlderPolicyCounts"}


def test_a_policy_made_anew_under_the_same_name_has_no_past() -> None:
    first = assign([policy()], served("chat"))
    anew = policy(**BROKEN)
    anew["metadata"]["uid"] = "another"

    assert assign([anew], served("chat"), first.known).policies == {}


def test_what_is_of_the_same_generation_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = [policy(coldStartCost="5m"), policy("broken", created=1, **BROKEN)]
    first = assign(objects, served("chat"))
    monkeypatch.setattr(policies, "read", lambda *_: pytest.fail("it is read again"))
    second = assign(objects, served("chat"), first.known)

    assert second == first


def test_what_is_deleted_is_forgotten() -> None:
    first = assign([policy()], served("chat"))

    assert list(first.known) == [ObjectId("team-a", "chat", "uid-of-team-a-chat")]
    assert assign([], served("chat"), first.known).known == {}


ODD: list[Any] = [None, 7, "text", [], {"serviceRef": 7}, {"serviceRef": {"name": 7}}, {"bounds": []}]


@pytest.mark.parametrize("spec", ODD, ids=str)
def test_no_content_makes_it_raise(spec: Any) -> None:
    odd = policy("default")
    odd["spec"] = spec
    (verdict,) = assign([odd], served("chat")).verdicts.values()

    assert verdict.outcome is (Outcome.ACCEPTED if spec is None else Outcome.INVALID)


# spec of a service; its kind → minReplicas, maxReplicas and containerConcurrency that count.
SERVED: dict[str, tuple[str, Any, tuple[int | None, int, int | None]]] = {
    "all": (
        "InferenceService",
        {"predictor": {"minReplicas": 1, "maxReplicas": 4, "containerConcurrency": 2}},
        (1, 4, 2),
    ),
    "none": ("InferenceService", {"predictor": {"model": {}}}, (None, 0, None)),
    "garbage": ("InferenceService", {"predictor": {"minReplicas": "x", "maxReplicas": -1}}, (None, 0, None)),
    "no predictor": ("InferenceService", {}, (None, 0, None)),
    "no spec": ("InferenceService", None, (None, 0, None)),
    "huge": ("InferenceService", {"predictor": {"maxReplicas": 2**40}}, (None, 10_000, None)),
    "LLM, nothing said": ("LLMInferenceService", {}, (0, 0, None)),
    "LLM, fixed": ("LLMInferenceService", {"replicas": 2}, (2, 2, None)),
    "LLM, scaled": ("LLMInferenceService", {"scaling": {"minReplicas": 1, "maxReplicas": 5}}, (1, 5, None)),
}


@pytest.mark.parametrize(("kind", "spec", "expected"), SERVED.values(), ids=SERVED.keys())
def test_what_is_kept_of_a_service(kind: str, spec: Any, expected: tuple[int | None, int, int | None]) -> None:
    found = Served.of({"kind": kind, "metadata": {"name": "chat", "namespace": "team-a"}, "spec": spec})

    assert (found.id, found.kind) == (CHAT, kind)
    predictor = found.predictor
    assert (predictor.min_replicas, predictor.max_replicas, predictor.container_concurrency) == expected


def test_of_two_kinds_under_one_name_the_inference_service_counts() -> None:
    llm = Served.of({"kind": "LLMInferenceService", "metadata": {"name": "chat", "namespace": "team-a"}, "spec": {}})

    for both in ([*served("chat"), llm], [llm, *served("chat")]):
        assert outcomes(assign([policy()], both)) == {"chat": "Accepted"}
