"""Whose a policy is, and what it comes to within the InferenceService's bounds."""

import pytest

from activator_ext.core.model import Bounds, Policy, QueuePolicy, Schedule
from runtime.contract import Golden
from tests.unit.adapters.local.build import RUNTIME, Files, policy, service

NO_MIN = "default/chat has no minReplicas, which KServe reads as 1"
FIX = "Change the InferenceService's minReplicas or maxReplicas: a policy acts within them."

# minReplicas and maxReplicas of the service; bounds of the policy (None: no policy) → bounds; what is said.
BOUNDS: dict[str, tuple[int | None, int | None, str | None, Bounds, list[str]]] = {
    "no policy, scale to zero": (0, None, None, Bounds(0, 1), []),
    "no policy, nothing said": (None, None, None, Bounds(1, 1), []),
    "no policy, both": (1, 4, None, Bounds(1, 4), []),
    "no policy, many at least": (3, 0, None, Bounds(3, 3), []),
    "policy of no bounds": (0, 4, "{}", Bounds(0, 4), []),
    "policy inside": (0, 4, "{min: 1, max: 2}", Bounds(1, 2), []),
    "policy's max where the service has none": (0, 0, "{max: 3}", Bounds(0, 3), []),
    "policy's min alone raises max": (0, None, "{min: 2}", Bounds(2, 2), []),
    "min below minReplicas": (
        2,
        4,
        "{min: 0}",
        Bounds(2, 4),
        ["policy.yaml:6: warning: spec.bounds.min: 0 becomes 2: default/chat has minReplicas 2, and maxReplicas 4. "],
    ),
    "min below an absent minReplicas": (
        None,
        None,
        "{min: 0}",
        Bounds(1, 1),
        [f"policy.yaml:6: warning: spec.bounds.min: 0 becomes 1: {NO_MIN}. "],
    ),
    "max above maxReplicas": (
        0,
        2,
        "{max: 5}",
        Bounds(0, 2),
        ["policy.yaml:6: warning: spec.bounds.max: 5 becomes 2: default/chat has minReplicas 0, and maxReplicas 2. "],
    ),
    "both outside": (
        0,
        2,
        "{min: 3, max: 5}",
        Bounds(2, 2),
        [
            "policy.yaml:6: warning: spec.bounds.max: 5 becomes 2: default/chat has minReplicas 0, and maxReplicas 2. ",
            "policy.yaml:6: warning: spec.bounds.min: 3 becomes 2: default/chat has minReplicas 0, and maxReplicas 2. ",
        ],
    ),
    "max below minReplicas": (
        3,
        0,
        "{max: 2}",
        Bounds(3, 3),
        ["policy.yaml:6: warning: spec.bounds.max: 2 becomes 3: default/chat has minReplicas 3. "],
    ),
}


@pytest.mark.parametrize(("least", "most", "wanted", "expected", "said"), BOUNDS.values(), ids=BOUNDS.keys())
def test_bounds(
    files: Files, least: int | None, most: int | None, wanted: str | None, expected: Bounds, said: list[str]
) -> None:
    text = service(predictor="" if most is None else f"maxReplicas: {most}\n")
    text = text.replace("    minReplicas: 0\n", "" if least is None else f"    minReplicas: {least}\n")
    files.write(runtime=RUNTIME, service=text)
    if wanted is not None:
        files.write(policy=policy(f"bounds: {wanted}\n"))
    loaded = files.load()
    assert [files.short(str(finding)) for finding in loaded.findings] == [line + FIX for line in said]
    assert [s.policy.bounds for s in loaded.services] == [expected]


TARGETS = {
    "neither": ("", None, 5),
    "containerConcurrency": ("containerConcurrency: 8\n", None, 8),
    "containerConcurrency 0 is no limit": ("containerConcurrency: 0\n", None, 5),
    "the policy's wins": ("containerConcurrency: 8\n", "queue: {target: 2}\n", 2),
    "a policy without one": ("containerConcurrency: 8\n", "coldStartCost: 1m\n", 8),
}


@pytest.mark.parametrize(("predictor", "spec", "expected"), TARGETS.values(), ids=TARGETS.keys())
def test_queue_target(files: Files, predictor: str, spec: str | None, expected: int) -> None:
    files.write(runtime=RUNTIME, service=service(predictor=predictor))
    if spec is not None:
        files.write(policy=policy(spec))
    assert [s.policy.queue for s in files.load().services] == [QueuePolicy(expected)]


def test_a_whole_policy(files: Files) -> None:
    spec = """\
        bounds: {max: 3}
        coldStartCost: 5m
        schedules:
        - {name: office, timeZone: Europe/Madrid, readyBy: "0 9 * * 1-5", until: "0 18 * * 1-5", replicas: 2}
        - {name: night, start: "0 1 * * *", until: "0 2 * * *"}
        leadTime: {prior: 90s}
        golden: {prompt: "Hello", maxTokens: 2, tokens: [7, 8]}
        """
    (found,) = files.load(runtime=RUNTIME, service=service(), policy=policy(spec, name="any")).services
    assert found.policy_name == "any"
    assert found.policy == Policy(
        bounds=Bounds(0, 3),
        schedules=(
            Schedule("office", "Europe/Madrid", until="0 18 * * 1-5", ready_by="0 9 * * 1-5", replicas=2),
            Schedule("night", "UTC", until="0 2 * * *", start="0 1 * * *"),
        ),
        cold_start_cost_s=300.0,
        prior_lead_s=90.0,
    )
    assert found.spec.golden == Golden(prompt="Hello", max_tokens=2, tokens=(7, 8))


def test_without_a_policy_the_core_s_defaults_hold(files: Files) -> None:
    (found,) = files.load(runtime=RUNTIME, service=service()).services
    assert found.policy == Policy()
    assert found.policy_name is None
    assert found.spec.golden == Golden()


def test_the_default_policy_is_for_each_service_of_its_namespace_without_one(files: Files) -> None:
    loaded = files.load(
        runtime=RUNTIME,
        services="---\n".join([service("a"), service("b"), service("a", namespace="other")]),
        policies="---\n".join([policy(name="default", ref=None), policy(name="for-b", ref="b")]),
    )
    assert loaded.ok
    assert {str(s.id): s.policy_name for s in loaded.services} == {
        "default/a": "default",
        "default/b": "for-b",
        "other/a": None,
    }


ASSIGNMENTS = {
    "two policies": (
        policy(name="one"),
        policy(name="two"),
        [
            "a.yaml:5: error: spec.serviceRef.name: default/chat has a second policy, two (b.yaml:5). Remove one.",
            "b.yaml:5: error: spec.serviceRef.name: default/chat has a second policy, one (a.yaml:5). Remove one.",
        ],
    ),
    "service of another name": (
        policy(ref="chta"),
        "",
        ["a.yaml:5: error: spec.serviceRef.name: no InferenceService is named default/chta. Did you mean chat?"],
    ),
    "service of another namespace": (
        policy(namespace="team-a"),
        "",
        [
            "a.yaml:5: error: spec.serviceRef.name: no InferenceService is named team-a/chat."
            " Services of namespace team-a: none."
        ],
    ),
    "no serviceRef": (
        policy(ref=None),
        "",
        [
            "a.yaml:4: error: spec: it is required: serviceRef."
            " Write serviceRef: {name: SERVICE}, or name the policy default: it is then for each service."
        ],
    ),
    "default that is nobody's": (
        policy(name="default", ref=None),
        policy(),
        [
            "a.yaml:1: warning: no service of namespace default is without a policy."
            " Remove it, or add an InferenceService to this namespace."
        ],
    ),
    "an LLMInferenceService": (
        policy().replace("{name: chat}", "{kind: LLMInferenceService, name: chat}"),
        "",
        ["a.yaml:5: warning: spec.serviceRef: local mode serves no LLMInferenceService. It takes effect in a cluster."],
    ),
    "more replicas than allowed": (
        policy('schedules:\n- {name: a, start: "0 1 * * *", until: "0 2 * * *", replicas: 2}\n'),
        "",
        [
            "a.yaml:7: warning: spec.schedules[0].replicas: 2 replicas are more than default/chat may have, 1."
            " Raise bounds.max and maxReplicas, or ask for fewer."
        ],
    ),
}


@pytest.mark.parametrize(("first", "second", "expected"), ASSIGNMENTS.values(), ids=ASSIGNMENTS.keys())
def test_assignment(files: Files, first: str, second: str, expected: list[str]) -> None:
    assert files.said(runtime=RUNTIME, service=service(), a=first, b=second) == expected
