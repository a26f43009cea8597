"""Standard mode on a real KServe and KEDA: our ScaledObject, our scaler, and what stands in the way.

KEDA must reach a scaler on this machine's loopback, which the testbed's does; seconds are printed.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from activator_ext.adapters.keda_scaler.floors import Floors, KnownFloor
from activator_ext.adapters.keda_scaler.server import ScalerServer
from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.standard.actuator import Actuator
from activator_ext.adapters.standard.look import look
from activator_ext.adapters.standard.manifest import Settings
from activator_ext.adapters.standard.plan import Plan, Standing, plan
from activator_ext.core.model import ServiceId
from tests.cluster.control_plane import ControlPlane, inference_service

EXTERNAL = {"serving.kserve.io/autoscalerClass": "external"}
PATIENCE_S = 90.0


class Rig:
    """One service in Standard mode, our scaler in this process, and the loop's steps made by hand."""

    def __init__(self, plane: ControlPlane, client: Client, namespace: str) -> None:
        self.plane = plane
        self.client = client
        self.service = ServiceId(namespace, "chat")
        self.floors = Floors(lambda: datetime.now(UTC))
        self.actuator = Actuator(client)
        self.scaler = ""

    def floor(self, replicas: int) -> None:
        self.floors.tell({self.service: KnownFloor(replicas)}, forever=True)

    async def step(self) -> Plan | None:
        """look → plan → act; None if there is no such service."""
        found = await look(self.client, self.service)
        if found is None:
            return None
        service, seen = found
        settings = Settings(scaler=self.scaler, polling_s=2, cooldown_s=2)
        decided = plan(service, seen, settings)
        await self.actuator.carry_out(self.service, decided)
        return decided

    async def standing(self, wanted: Standing) -> Plan:
        """Steps until the service stands so."""
        found: list[Plan] = []

        async def stands() -> bool:
            decided = await self.step()
            found[:] = [] if decided is None else [decided]
            return decided is not None and decided.standing is wanted and decided.apply is None and not decided.remove

        await until(stands, every_s=0.5)
        return found[0]

    def replicas(self) -> int:
        return int(self.plane.get("deployment", "chat-predictor", "-n", self.service.namespace)["spec"]["replicas"])

    async def scaled_to(self, wanted: int) -> float:
        """Seconds until Deployment.spec.replicas is that."""

        async def is_so() -> bool:
            found = await self.client.get(
                f"/apis/apps/v1/namespaces/{self.service.namespace}/deployments/chat-predictor"
            )
            return bool(found["spec"]["replicas"] == wanted)

        return await until(is_so, every_s=0.01)


async def until(test: Callable[[], Any], *, every_s: float = 0.1) -> float:
    begun = time.monotonic()
    async with asyncio.timeout(PATIENCE_S):
        while not await test():  # noqa: ASYNC110 — the API server is asked
            await asyncio.sleep(every_s)
    return time.monotonic() - begun


@pytest.fixture
async def rig(plane: ControlPlane, namespace: str) -> AsyncIterator[Rig]:
    if not plane.env.get("KEDA_METRICS", "").startswith("http://127.0.0.1"):
        pytest.skip("KEDA must reach this machine's loopback: set PILOTLIGHT_TESTBED to a testbed's directory")
    async with await Client.connect(plane.kubeconfig) as client:
        rig = Rig(plane, client, namespace)
        async with ScalerServer(rig.floors, "127.0.0.1:0", report=print) as server:
            rig.scaler = f"127.0.0.1:{server.port}"
            yield rig


async def test_a_floor_is_carried_out_and_nothing_is_left(rig: Rig) -> None:
    rig.plane.apply(
        inference_service(rig.service.namespace, "chat", mode="Standard", annotations=EXTERNAL, max_replicas=3)
    )
    rig.floor(0)
    await rig.standing(Standing.SCALED)
    await rig.scaled_to(0)

    rig.floor(1)
    print(f"\nfloor 0 → 1: Deployment.spec.replicas 1 after {await rig.scaled_to(1):.2f} s")
    assert (await rig.standing(Standing.SCALED)).message == "ScaledObject chat-prewarm scales it to the floor"

    rig.floor(0)
    print(f"floor 1 → 0: replicas 0 after {await rig.scaled_to(0):.1f} s (cooldown 2 s, poll 2 s)")

    rig.plane.kubectl("delete", "inferenceservice", "chat", "-n", rig.service.namespace)
    begun = time.monotonic()

    async def nothing_is_left() -> bool:
        kinds = "scaledobjects,hpa,deployments"
        return not rig.plane.get(kinds, "-n", rig.service.namespace)["items"]

    await until(nothing_is_left, every_s=0.3)
    print(f"InferenceService deleted: no ScaledObject, HPA, Deployment after {time.monotonic() - begun:.1f} s")
    assert await rig.step() is None
