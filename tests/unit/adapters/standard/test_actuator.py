"""What is asked of the API server for a plan, and what its refusals come to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.kubernetes.faults import Refused
from activator_ext.adapters.standard.actuator import Actuator, HeldByOthers
from activator_ext.adapters.standard.look import look
from activator_ext.adapters.standard.plan import Plan, Standing
from activator_ext.core.model import ServiceId

CHAT = ServiceId("team-a", "chat")
PATH = "/apis/keda.sh/v1alpha1/namespaces/team-a/scaledobjects"
WANTED = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "chat-prewarm"}, "spec": {}}
HELD = 'Apply failed with 1 conflict: conflict with "kubectl-edit" using keda.sh/v1alpha1: .spec.cooldownPeriod'


@dataclass
class FakeApi:
    """Answers by path; `refusal` is raised by each write."""

    objects: dict[str, Any] = field(default_factory=dict)
    refusal: Refused | None = None
    asked: list[tuple[str, str, Mapping[str, str]]] = field(default_factory=list)

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        self.asked.append(("GET", path, params or {}))
        if path not in self.objects:
            raise Refused(f"GET {path}", 404, "NotFound", "not found")
        return self.objects[path]

    async def send(self, method: str, path: str, body: object = None, **options: Any) -> Any:
        self.asked.append((method, path, options.get("params") or {}))
        if self.refusal is not None:
            raise self.refusal
        return body


def actuator_of(api: FakeApi) -> Actuator:
    return Actuator(cast("Client", api))


def planned(**fields: Any) -> Plan:
    return Plan(Standing.SCALED, "", **fields)


async def test_it_applies_without_force_and_removes() -> None:
    api = FakeApi()

    await actuator_of(api).carry_out(CHAT, planned(apply=WANTED, remove=("old",)))

    assert api.asked == [
        ("DELETE", f"{PATH}/old", {}),
        ("PATCH", f"{PATH}/chat-prewarm", {"fieldManager": "pilotlight", "force": "false"}),
    ]


async def test_nothing_to_do_asks_nothing() -> None:
    api = FakeApi()

    await actuator_of(api).carry_out(CHAT, planned())

    assert api.asked == []


async def test_fields_that_others_hold_are_told_and_tried_again_when_something_changes() -> None:
    api = FakeApi(refusal=Refused("PATCH x", 409, "Conflict", HELD))
    actuator = actuator_of(api)
    for _ in range(3):
        with pytest.raises(HeldByOthers, match=r"chat-prewarm: .*cooldownPeriod; undo that edit"):
            await actuator.carry_out(CHAT, planned(apply=WANTED, over=2))
    assert len(api.asked) == 1

    for changed in (planned(apply=WANTED, over=3), planned(apply={**WANTED, "spec": {"a": 1}}, over=3)):
        with pytest.raises(HeldByOthers):
            await actuator.carry_out(CHAT, changed)
    assert len(api.asked) == 3

    api.refusal = None
    await actuator.carry_out(CHAT, planned(apply=WANTED, over=4))
    await actuator.carry_out(CHAT, planned(apply=WANTED, over=4))
    assert len(api.asked) == 5


@pytest.mark.parametrize(("status", "said"), [(409, "the object has been modified"), (403, "no"), (404, "no CRD")])
async def test_other_refusals_are_the_callers(status: int, said: str) -> None:
    api = FakeApi(refusal=Refused("PATCH x", status, "R", said))

    with pytest.raises(Refused, match=said):
        await actuator_of(api).carry_out(CHAT, planned(apply=WANTED))


async def test_what_is_gone_already_is_fine_and_what_may_not_be_deleted_is_told() -> None:
    api = FakeApi(refusal=Refused("DELETE x", 404, "NotFound", ""))
    await actuator_of(api).carry_out(CHAT, planned(remove=("old",)))

    api.refusal = Refused("DELETE x", 403, "Forbidden", "no")
    with pytest.raises(Refused, match="Forbidden"):
        await actuator_of(api).carry_out(CHAT, planned(remove=("old",)))


async def test_uninstalling_removes_ours_everywhere() -> None:
    ours = [{"metadata": {"namespace": namespace, "name": "chat-prewarm"}} for namespace in ("team-a", "team-b")]
    api = FakeApi({"/apis/keda.sh/v1alpha1/scaledobjects": {"items": ours}})

    assert await actuator_of(api).clear_all() == 2
    assert api.asked[0][2] == {"labelSelector": "app.kubernetes.io/managed-by=pilotlight"}
    assert [path for method, path, _ in api.asked if method == "DELETE"] == [
        f"{PATH}/chat-prewarm",
        f"{PATH.replace('team-a', 'team-b')}/chat-prewarm",
    ]
    assert await actuator_of(FakeApi()).clear_all() == 0  # no KEDA here


ISVC = "/apis/serving.kserve.io/v1beta1/namespaces/team-a/inferenceservices/chat"
SERVICE = {"metadata": {"namespace": "team-a", "name": "chat", "uid": "u"}, "spec": {}, "status": {}}
EMPTY: dict[str, Any] = {"items": []}
AROUND = {PATH: EMPTY, "/apis/autoscaling/v2/namespaces/team-a/horizontalpodautoscalers": EMPTY}


async def test_looking_at_a_service() -> None:
    deployment = "/apis/apps/v1/namespaces/team-a/deployments/chat-predictor"
    bare = await look(cast("Client", FakeApi({ISVC: SERVICE, **AROUND})), CHAT)
    running = await look(cast("Client", FakeApi({ISVC: SERVICE, deployment: {}, **AROUND})), CHAT)

    assert bare is not None
    assert running is not None
    assert [bare[1].deployment, running[1].deployment] == [False, True]
    assert await look(cast("Client", FakeApi()), CHAT) is None


async def test_a_cluster_without_keda_is_told() -> None:
    with pytest.raises(Refused, match="its CRD is not installed"):
        await look(cast("Client", FakeApi({ISVC: SERVICE})), CHAT)
