"""The table of cases: an InferenceService and what stands around it → what is applied, removed, and told."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from activator_ext.adapters.standard.manifest import Authentication, Prometheus, Settings, manifest, takes_tolerance
from activator_ext.adapters.standard.objects import Inference, autoscaler, inference, scaled
from activator_ext.adapters.standard.plan import Plan, Seen, Standing, plan

SETTINGS = Settings(scaler="scaler.pilotlight.svc:9090")
MODE, CLASS = "serving.kserve.io/deploymentMode", "serving.kserve.io/autoscalerClass"


def isvc(
    mode: str | None = "Standard", autoscaler_class: str | None = "external", *, name: str = "chat", **predictor: Any
) -> dict[str, Any]:
    """As KServe leaves it, with its status."""
    return {
        "metadata": {
            "namespace": "team-a",
            "name": name,
            "uid": "uid-1",
            "annotations": {CLASS: autoscaler_class} if autoscaler_class else {},
        },
        "spec": {"predictor": {"minReplicas": 0, "maxReplicas": 3, **predictor}},
        "status": {"deploymentMode": mode} if mode else {},
    }


def kept(value: dict[str, Any] | None = None) -> Inference:
    return inference(value or isvc())


def ours(settings: Settings = SETTINGS, metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Our ScaledObject as it comes back from the API server, with what KEDA writes into it."""
    live = copy.deepcopy(manifest(kept(), settings))
    live["metadata"] |= {"generation": 2, **(metadata or {})}
    live["metadata"]["labels"]["scaledobject.keda.sh/name"] = "chat-prewarm"
    live["spec"]["advanced"]["scalingModifiers"] = {}
    return live


def theirs(target: str = "chat-predictor", **reference: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "mine", "namespace": "team-a"},
        "spec": {"scaleTargetRef": {"name": target, **reference}, "triggers": []},
    }


def hpa(target: str = "chat-predictor", owner: tuple[str, str] | None = None) -> dict[str, Any]:
    owners = [{"kind": owner[0], "name": owner[1], "controller": True}] if owner else []
    return {
        "metadata": {"name": "hpa", "namespace": "team-a", "ownerReferences": owners},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": target}},
    }


def decided(
    value: dict[str, Any] | None = None,
    scaled_objects: list[dict[str, Any]] | None = None,
    hpas: list[dict[str, Any]] | None = None,
    *,
    deployment: bool = True,
    settings: Settings = SETTINGS,
) -> Plan:
    seen = Seen(deployment, tuple(map(scaled, scaled_objects or ())), tuple(map(autoscaler, hpas or ())))
    return plan(kept(value), seen, settings)


@dataclass
class Row:
    name: str
    plan: Plan
    standing: Standing
    told: str
    applies: bool = False
    removes: tuple[str, ...] = ()


PAUSED = {"annotations": {**ours()["metadata"]["annotations"], "autoscaling.keda.sh/paused-replicas": "0"}}
NOT_READY = {"conditions": [{"type": "Ready", "status": "False", "message": "no metric specs returned"}]}
GOING = {"deletionTimestamp": "2026-12-01T09:00:00Z"}
STOP = isvc()
STOP["metadata"]["annotations"]["serving.kserve.io/stop"] = "true"
DELETED = isvc()
DELETED["metadata"] |= GOING
REBORN = isvc()
REBORN["metadata"]["uid"] = "uid-2"
ANNOTATED = isvc(None)
ANNOTATED["metadata"]["annotations"][MODE] = "RawDeployment"

COPY = ours(metadata={"name": "copy", "ownerReferences": []})

ROWS = [
    Row("first seen", decided(), Standing.SCALED, "is made", applies=True),
    Row("made", decided(None, [ours()]), Standing.SCALED, "scales it to the floor"),
    Row("the old spelling", decided(isvc("RawDeployment")), Standing.SCALED, "is made", applies=True),
    Row("only annotated yet", decided(ANNOTATED), Standing.SCALED, "is made", applies=True),
    Row("no mode yet", decided(isvc(None), [ours()]), Standing.MODE_UNKNOWN, "is waited for"),
    Row("Knative", decided(isvc("Knative")), Standing.NOT_STANDARD, "not in Standard mode"),
    Row("now Knative", decided(isvc("Knative"), [ours()]), Standing.NOT_STANDARD, "not", removes=("chat-prewarm",)),
    Row(
        "no class", decided(isvc(autoscaler_class=None)), Standing.WRONG_CLASS, "no autoscalerClass, so hpa: an HPA of"
    ),
    Row("hpa", decided(isvc(autoscaler_class="hpa")), Standing.WRONG_CLASS, f"never to zero; set {CLASS}: external"),
    Row("keda", decided(isvc(autoscaler_class="keda"), [theirs()]), Standing.WRONG_CLASS, "triggers it rewrites"),
    Row("none", decided(isvc(autoscaler_class="none")), Standing.WRONG_CLASS, "keeps it at minReplicas"),
    Row("unknown class", decided(isvc(autoscaler_class="x")), Standing.WRONG_CLASS, "KServe does not know that class"),
    Row(
        "class taken back",
        decided(isvc(autoscaler_class="hpa"), [ours()]),
        Standing.WRONG_CLASS,
        "hpa",
        removes=("chat-prewarm",),
    ),
    Row(
        "another ScaledObject",
        decided(None, [theirs()]),
        Standing.CONFLICT,
        "ScaledObject mine scales chat-predictor too",
    ),
    Row(
        "one came beside ours", decided(None, [ours(), theirs()]), Standing.CONFLICT, "mine", removes=("chat-prewarm",)
    ),
    Row("a copy of ours", decided(None, [COPY]), Standing.CONFLICT, "ScaledObject copy scales chat-predictor too"),
    Row("one for another kind", decided(None, [theirs(kind="StatefulSet")]), Standing.SCALED, "is made", applies=True),
    Row("one for another service", decided(None, [theirs("embed-predictor")]), Standing.SCALED, "made", applies=True),
    Row("someone's HPA", decided(None, [], [hpa()]), Standing.CONFLICT, "HorizontalPodAutoscaler hpa scales"),
    Row(
        "KServe's HPA of before",
        decided(None, [], [hpa(owner=("InferenceService", "chat"))]),
        Standing.CONFLICT,
        "of InferenceService/chat",
    ),
    Row(
        "KEDA's HPA for us",
        decided(None, [ours()], [hpa(owner=("ScaledObject", "chat-prewarm"))]),
        Standing.SCALED,
        "scales it",
    ),
    Row(
        "KEDA's HPA, ours just gone",
        decided(None, [], [hpa(owner=("ScaledObject", "chat-prewarm"))]),
        Standing.SCALED,
        "made",
        applies=True,
    ),
    Row(
        "KEDA's HPA for another",
        decided(None, [], [hpa(owner=("ScaledObject", "x"))]),
        Standing.CONFLICT,
        "of ScaledObject/x",
    ),
    Row("no Deployment yet", decided(deployment=False), Standing.NO_DEPLOYMENT, "chat-predictor is not there yet"),
    Row(
        "stopped",
        decided(STOP, [ours()], deployment=False),
        Standing.STOPPED,
        "stopped by its annotation",
        removes=("chat-prewarm",),
    ),
    Row("being deleted", decided(DELETED, [ours()]), Standing.STOPPED, "being deleted"),
    Row("min above max", decided(isvc(minReplicas=4)), Standing.BOUNDS, "minReplicas 4 is more than maxReplicas 3"),
    Row(
        "our name, not ours",
        decided(None, [theirs("x") | {"metadata": {"name": "chat-prewarm"}}]),
        Standing.NAME_TAKEN,
        "rename or delete it",
    ),
    Row("going", decided(None, [ours(metadata=GOING)]), Standing.SCALED, "then made anew"),
    Row("of the service before it", decided(REBORN, [ours()]), Standing.SCALED, "scales it", applies=True),
    Row("paused", decided(None, [ours(metadata=PAUSED)]), Standing.PAUSED, "remove autoscaling.keda.sh/paused"),
    Row(
        "KEDA cannot",
        decided(None, [ours() | {"status": NOT_READY}]),
        Standing.KEDA_TROUBLE,
        "no metric specs returned",
    ),
    Row(
        "a new scaler",
        decided(None, [ours()], settings=Settings("other:9090")),
        Standing.SCALED,
        "scales",
        applies=True,
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_table(row: Row) -> None:
    found = row.plan

    assert (found.standing, found.apply is not None, found.remove) == (row.standing, row.applies, row.removes)
    assert row.told in found.message
    assert found.fine == (row.standing in (Standing.SCALED, Standing.NOT_STANDARD))


def test_what_others_add_is_left_and_what_they_change_is_applied_again() -> None:
    fallback = ours()
    fallback["spec"]["fallback"] = {"failureThreshold": 3, "replicas": 1}
    cooldown = ours()
    cooldown["spec"]["cooldownPeriod"] = 900
    trigger = ours()
    trigger["spec"]["triggers"].append({"type": "cron", "metadata": {}})

    assert decided(None, [fallback]).apply is None
    assert decided(None, [cooldown]).apply is not None
    assert decided(None, [trigger]).apply is not None


def test_what_is_wanted_no_more_is_noticed() -> None:
    exact = Settings(SETTINGS.scaler, exact_hpa=True, authentication=Authentication("keda-to-pilotlight"))

    assert decided(None, [ours(exact)], settings=exact).apply is None
    assert decided(None, [ours(exact)]).apply is not None


def test_the_manifest() -> None:
    settings = Settings("s:1", Authentication("tls", "ClusterTriggerAuthentication"), polling_s=5, cooldown_s=7)
    made = manifest(kept(isvc(minReplicas=1)), settings)
    spec = made["spec"]

    assert made["metadata"]["ownerReferences"] == [
        {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "name": "chat", "uid": "uid-1"}
    ]
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (1, 3)
    assert (spec["pollingInterval"], spec["cooldownPeriod"]) == (5, 7)
    assert spec["triggers"] == [
        {
            "type": "external-push",
            "metadata": {"scalerAddress": "s:1", "service": "chat"},
            "authenticationRef": {"name": "tls", "kind": "ClusterTriggerAuthentication"},
        }
    ]
    assert "tolerance" not in str(spec)


def test_an_exact_hpa_is_told_to_hpa_and_scaler_alike() -> None:
    spec = manifest(kept(), Settings("s:1", exact_hpa=True))["spec"]
    behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]

    assert spec["triggers"][0]["metadata"]["tolerance"] == "0"
    assert (behavior["scaleUp"]["tolerance"], behavior["scaleDown"]["tolerance"]) == ("0", "0")


def test_a_query_beside_the_floor_keeps_the_hpas_patience() -> None:
    queue = Prometheus("http://prometheus:9090", "sum(vllm:num_requests_waiting)", "5")
    spec = manifest(kept(), Settings("s:1", prometheus={"team-a/chat": queue}))["spec"]

    assert [trigger["type"] for trigger in spec["triggers"]] == ["external-push", "prometheus"]
    assert spec["triggers"][1]["metadata"]["ignoreNullValues"] == "false"
    assert "scaleDown" not in spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]


@pytest.mark.parametrize(
    ("predictor", "policy", "least", "most"),
    [
        ({}, None, 0, 3),
        ({}, 9, 0, 3),  # maxReplicas holds, whatever the policy
        ({"maxReplicas": 0}, 9, 0, 9),
        ({"maxReplicas": 0}, None, 0, 100),
        ({"maxReplicas": 0, "minReplicas": 12}, 9, 12, 12),
        ({"minReplicas": None}, None, 1, 3),
    ],
)
def test_bounds(predictor: dict[str, Any], policy: int | None, least: int, most: int) -> None:
    spec = manifest(kept(isvc(**predictor)), SETTINGS, policy)["spec"]

    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (least, most)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("keda", Authentication("keda")),
        ("cluster/keda", Authentication("keda", "ClusterTriggerAuthentication")),
        ("", None),
        ("cluster/", None),
        ("team-a/keda", None),
    ],
)
def test_authentications_as_they_are_written(text: str, found: Authentication | None) -> None:
    if found is None:
        with pytest.raises(ValueError, match="write NAME, or cluster/NAME"):
            Authentication.parse(text)
    else:
        assert Authentication.parse(text) == found


@pytest.mark.parametrize(
    ("major", "minor", "takes"),
    [
        ("1", "35", True),
        ("1", "36+", True),
        ("1", "34", False),
        ("1", "9", False),
        ("1", "", False),
        ("2", "35", False),
    ],
)
def test_which_api_servers_take_a_tolerance(major: str, minor: str, takes: bool) -> None:
    assert takes_tolerance({"major": major, "minor": minor, "gitVersion": "v"}) is takes
    assert takes_tolerance({}) is False


def test_names_are_labels_and_never_shared() -> None:
    names = {
        manifest(kept(isvc(name="a" * 52 + end)), SETTINGS)["metadata"]["name"] for end in ("", "a", "bcd", "xyz" * 3)
    }

    assert len(names) == 4
    assert all(len(name) <= 63 for name in names)
