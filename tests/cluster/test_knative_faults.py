"""Floors while parts of the control plane are gone. On a testbed of its own: it stops them."""

import asyncio
import time

import pytest

from activator_ext.adapters.knative.plan import Step
from activator_ext.adapters.kubernetes.resource import Key
from tests.cluster.control_plane import ControlPlane
from tests.cluster.knative import Service, actuator, rounds

pytestmark = pytest.mark.prove

# Longer than the leases of Kubernetes' and Knative's own controllers.
OUTAGE_S = 120.0


@pytest.fixture
def here(own_plane: ControlPlane) -> ControlPlane:
    """Its namespaces go with it."""
    return own_plane


async def test_a_floor_that_a_restarted_autoscaler_ignores_is_healed_by_a_nudge(here: ControlPlane) -> None:
    chat = Service(here, "default", "nudged")
    revision = chat.create()
    chat.at_zero(revision)
    async with actuator(here, "default") as (knative, _):
        here.testbed("restart", "autoscaler")
        await _leads_again(here)
        begun = time.monotonic()
        reports = await rounds(knative, {chat.id: 1}, lambda: chat.replicas(revision) == 1)
        took_s = time.monotonic() - begun
        nudges = sum(len(report.nudged) for report in reports)
        print(f"autoscaler restarted at zero: replicas = 1 after {took_s:.1f} s and {nudges} nudge(s)")
        assert nudges >= 1
        assert [fault for report in reports for fault in report.faults] == []
        await asyncio.sleep(15)
        assert chat.replicas(revision) == 1, "not held after it was healed"
        assert chat.revisions() == [revision]
        await knative.clear_all()
    assert chat.managers(revision) == []


async def test_floors_go_on_when_the_api_server_was_gone(here: ControlPlane) -> None:
    chat = Service(here, "default", "outage")
    revision = chat.create()
    async with actuator(here, "default") as (knative, client):
        await rounds(knative, {chat.id: 1}, lambda: chat.replicas(revision) == 1)
        here.testbed("stop", "apiserver")
        begun = time.monotonic()
        while any(watched.trouble is None for watched in knative.watches):  # noqa: ASYNC110  (told by nobody)
            await asyncio.sleep(0.05)
        report = await knative.carry_out({chat.id: 2})
        assert len(report.faults) == 1
        assert report.done == ()
        before = sum(client.requests.values())
        await asyncio.sleep(OUTAGE_S - (time.monotonic() - begun))
        tries = sum(client.requests.values()) - before
        assert Key("default", revision) in knative.revisions.objects
        here.testbed("start", "apiserver")
        back = time.monotonic()
        reports = await rounds(knative, {chat.id: 2}, lambda: chat.min_scale(revision) == "2")
        took_s = time.monotonic() - back
        gone = f"API server gone for {OUTAGE_S:.0f} s ({tries} tries of 4 watches)"
        print(f"{gone}: floor 2 written {took_s:.1f} s after its start")
        assert any(done.write.step is Step.RAISE for report in reports for done in report.done)
        async with asyncio.timeout(60):
            while any(watched.trouble is not None for watched in knative.watches):  # noqa: ASYNC110  (told by nobody)
                await asyncio.sleep(0.05)
        await knative.clear_all()
        assert chat.managers(revision) == []


async def _leads_again(here: ControlPlane) -> None:
    """Until the new autoscaler has its leases, and some seconds more for it to look at everything once."""
    for _ in range(300):
        leases = here.get("-n", "knative-serving", "leases")["items"]
        if any(
            "autoscaler-bucket" in item["metadata"]["name"] and item["spec"].get("holderIdentity") for item in leases
        ):
            break
        await asyncio.sleep(0.3)
    await asyncio.sleep(5)
