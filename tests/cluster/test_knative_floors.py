"""Floors on a real Knative: raised, held, lowered, and nothing of ours left."""

import asyncio
import json
import time

import pytest

from activator_ext.adapters.knative.clear import clear
from activator_ext.adapters.knative.objects import MIN_SCALE
from activator_ext.adapters.knative.plan import FindingCode, Step
from activator_ext.adapters.knative.writes import write
from activator_ext.adapters.kubernetes.apply import apply
from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.kubernetes.faults import Refused
from activator_ext.adapters.kubernetes.resource import REVISIONS, Key
from tests.cluster.control_plane import ControlPlane, inference_service
from tests.cluster.knative import Service, actuator, rounds, seconds_until
from tests.serving import wait_for

# Longer than two bookmarks are apart, and than a watch is left alone in silence.
IDLE_S = 130.0


async def test_a_floor_is_raised_held_and_lowered_without_a_new_revision(plane: ControlPlane, namespace: str) -> None:
    chat = Service(plane, namespace)
    revision = chat.create()
    chat.at_zero(revision)
    before = chat.get("inferenceservice", "chat")["metadata"]["resourceVersion"]
    async with actuator(plane, namespace) as (knative, client):
        begun = time.monotonic()
        report = await knative.carry_out({chat.id: 1})
        assert [done.write.step for done in report.done] == [Step.RAISE]
        took_s = await seconds_until(lambda: knative.deployments.objects[Key(namespace, f"{revision}-deployment")] == 1)
        print(
            f"floor 1: written and Deployment.spec.replicas = 1 after {time.monotonic() - begun:.2f} s ({took_s:.2f})"
        )
        assert chat.min_scale(revision) == "1"
        assert chat.managers(revision) == ["pilotlight/was=0"]
        await rounds(knative, {chat.id: 1}, lambda: chat.replicas(revision) == 1)
        requests = dict(client.requests)
        for _ in range(50):
            assert (await knative.carry_out({chat.id: 1})).done == ()
        assert dict(client.requests) == requests
        assert chat.get("inferenceservice", "chat")["metadata"]["resourceVersion"] == before
        report = await knative.carry_out({})
        assert [done.write.step for done in report.done] == [Step.RESTORE]
        begun = time.monotonic()
        await seconds_until(lambda: chat.replicas(revision) == 0)
        print(f"floor given up: Deployment.spec.replicas = 0 after {time.monotonic() - begun:.2f} s")
    assert chat.min_scale(revision) == "0"
    assert chat.managers(revision) == []
    assert chat.revisions() == [revision]


@pytest.mark.prove
async def test_an_edit_while_a_floor_is_held_moves_it_to_the_new_revision(plane: ControlPlane, namespace: str) -> None:
    chat = Service(plane, namespace)
    old = chat.create(max_replicas=3)
    async with actuator(plane, namespace) as (knative, _):
        await rounds(knative, {chat.id: 2}, lambda: chat.replicas(old) == 2)
        plane.apply(inference_service(namespace, "chat", max_replicas=4))
        reports = await rounds(
            knative, {chat.id: 2}, lambda: chat.revisions()[-1] != old and chat.managers(chat.revisions()[-1]) != []
        )
        new = chat.ready(after=old)
        reports += await rounds(knative, {chat.id: 2}, lambda: chat.managers(old) == [] and chat.replicas(old) == 0)
        assert chat.min_scale(new) == "2"
        assert chat.min_scale(old) == "0"
        assert chat.replicas(new) == 2
        assert [fault for report in reports for fault in report.faults] == []
        await knative.clear_all()
    assert chat.managers(new) == []


async def test_a_fresh_controller_lowers_what_another_one_left(plane: ControlPlane, namespace: str) -> None:
    chat = Service(plane, namespace)
    revision = chat.create(min_replicas=1, max_replicas=3)
    async with actuator(plane, namespace) as (knative, _):
        await rounds(knative, {chat.id: 2}, lambda: chat.replicas(revision) == 2)
    assert chat.managers(revision) == ["pilotlight/was=1"]
    async with await Client.connect(plane.kubeconfig) as client:
        cleared = await clear(client, namespace=namespace)
        assert [done.write.target.key.name for done in cleared] == [revision]
        assert chat.min_scale(revision) == "1"
        assert chat.managers(revision) == []
        assert await clear(client, namespace=namespace) == ()


@pytest.mark.prove
async def test_killed_between_the_two_writes_of_lowering_the_next_one_converges(
    plane: ControlPlane, namespace: str
) -> None:
    chat = Service(plane, namespace)
    revision = chat.create()
    async with actuator(plane, namespace) as (knative, client):
        await rounds(knative, {chat.id: 1}, lambda: chat.replicas(revision) == 1)
        fields = {"metadata": {"annotations": {MIN_SCALE: "0"}}}
        await apply(client, REVISIONS, Key(namespace, revision), fields, manager="pilotlight/was=0")
    assert chat.managers(revision) == ["pilotlight/was=0"]
    async with actuator(plane, namespace) as (knative, _):
        report = await knative.carry_out({})
        assert [done.write.step for done in report.done] == [Step.RELEASE]
    assert chat.managers(revision) == []
    assert chat.min_scale(revision) == "0"


@pytest.mark.prove
async def test_a_floor_that_is_held_costs_no_request_and_no_pod(plane: ControlPlane, namespace: str) -> None:
    chat = Service(plane, namespace)
    revision = chat.create(max_replicas=3)
    async with actuator(plane, namespace) as (knative, client):
        await rounds(knative, {chat.id: 1}, lambda: chat.replicas(revision) == 1)
        (first,) = pods(plane, namespace)
        await rounds(knative, {chat.id: 2}, lambda: len(pods(plane, namespace)) == 2)
        assert first in pods(plane, namespace), "raised by one, the pod that was there was replaced"
        await asyncio.sleep(5)
        before = client.requests.copy()
        begun = time.monotonic()
        while time.monotonic() - begun < IDLE_S:
            await knative.carry_out({chat.id: 2})
            await asyncio.sleep(0.2)
        made = client.requests - before
        print(f"a floor held for {IDLE_S:.0f} s, {IDLE_S * 5:.0f} rounds: {sum(made.values())} requests {dict(made)}")
        assert set(made) <= {"WATCH services", "WATCH revisions", "WATCH podautoscalers", "WATCH deployments"}
        assert sum(made.values()) <= 4
        await knative.clear_all()


def pods(plane: ControlPlane, namespace: str) -> list[str]:
    """The pods that are not ending, by uid."""
    items = plane.get("-n", namespace, "pods")["items"]
    return [item["metadata"]["uid"] for item in items if "deletionTimestamp" not in item["metadata"]]


@pytest.mark.prove
async def test_what_a_user_set_on_the_revision_is_respected_and_told(plane: ControlPlane, namespace: str) -> None:
    chat = Service(plane, namespace)
    revision = chat.create()
    plane.kubectl("-n", namespace, "annotate", "revision", revision, f"{MIN_SCALE}=0", "--overwrite")
    plane.kubectl("-n", namespace, "annotate", "revision", revision, f"{MIN_SCALE}=1", "--overwrite")
    plane.kubectl("-n", namespace, "annotate", "revision", revision, f"{MIN_SCALE}=0", "--overwrite")
    async with actuator(plane, namespace) as (knative, _):
        report = await knative.carry_out({chat.id: 1})
        assert report.done == ()
        assert [finding.code for finding in report.findings] == [FindingCode.CONTESTED]
        assert "kubectl-annotate" in report.findings[0].text
    assert chat.min_scale(revision) == "0"


@pytest.mark.prove
async def test_a_split_serves_each_part_and_a_floor_never_passes_max_replicas(
    plane: ControlPlane, namespace: str
) -> None:
    chat = Service(plane, namespace)
    old = chat.create(max_replicas=3)
    plane.apply(inference_service(namespace, "chat", max_replicas=4, canaryTrafficPercent=25))
    wait_for(lambda: len(chat.revisions()) == 2, within_s=30, saying="the edit made no Revision")
    new = chat.revisions()[-1]
    async with actuator(plane, namespace) as (knative, _):
        reports = await rounds(knative, {chat.id: 8}, lambda: chat.min_scale(new) == "2" and chat.min_scale(old) == "3")
        assert [finding.code for finding in reports[-1].findings] == [FindingCode.MAX_REPLICAS]
        await knative.clear_all()
    assert chat.managers(old) == []
    assert chat.managers(new) == []


@pytest.mark.prove
async def test_nothing_is_written_over_or_in_place_of_what_changed_meanwhile(
    plane: ControlPlane, namespace: str
) -> None:
    chat = Service(plane, namespace)
    revision = chat.create()
    async with actuator(plane, namespace) as (knative, client):
        known = knative.revisions.objects[Key(namespace, revision)]
        plane.kubectl("-n", namespace, "annotate", "revision", revision, "autoscaling.knative.dev/window=7s")
        report = await knative.carry_out({chat.id: 1})
        assert len(report.done) == 1
        held = report.done[0].write
        with pytest.raises(Refused) as refused:
            await write(client, held.__class__(Step.RAISE, held.scheme, known, held.manager, 1, force=True))
        assert refused.value.conflict
        plane.kubectl("-n", namespace, "delete", "inferenceservice", "chat")
        await asyncio.to_thread(
            wait_for, lambda: chat.revisions() == [], within_s=60, saying="its Revision did not go with it"
        )
        with pytest.raises(Refused):
            await write(client, held.__class__(Step.RAISE, held.scheme, known, held.manager, 1, force=True))
        report = await knative.carry_out({chat.id: 1})
    assert chat.revisions() == []
    assert [finding.code for finding in report.findings] == [FindingCode.NOT_SEEN]
    assert json.dumps(plane.get("-n", namespace, "revisions")["items"]) == "[]"
