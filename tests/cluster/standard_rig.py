"""One service in Standard mode on a real KServe and KEDA, and the controller's steps made by hand."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

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
POLL_S, COOLDOWN_S = 2, 2


async def until(test: Callable[[], Awaitable[bool]], *, every_s: float = 0.1, patience_s: float = PATIENCE_S) -> float:
    """Seconds until `test` holds."""
    begun = time.monotonic()
    async with asyncio.timeout(patience_s):
        while not await test():  # noqa: ASYNC110 — another process is asked
            await asyncio.sleep(every_s)
    return time.monotonic() - begun


class Rig:
    """The service `chat` of one namespace; `settings` say where its scaler is."""

    def __init__(self, plane: ControlPlane, client: Client, namespace: str) -> None:
        self.plane = plane
        self.client = client
        self.service = ServiceId(namespace, "chat")
        self.floors = Floors(lambda: datetime.now(UTC))
        self.actuator = Actuator(client)
        self.settings = Settings(scaler="", polling_s=POLL_S, cooldown_s=COOLDOWN_S)

    @classmethod
    @asynccontextmanager
    async def on(cls, plane: ControlPlane, namespace: str) -> AsyncIterator["Rig"]:
        """On a control plane whose KEDA reaches our loopback; skips on others."""
        if not plane.env.get("KEDA_METRICS", "").startswith("http://127.0.0.1"):
            pytest.skip("KEDA must reach this machine's loopback: set PILOTLIGHT_TESTBED to a testbed's directory")
        async with await Client.connect(plane.kubeconfig) as client:
            yield cls(plane, client, namespace)

    @asynccontextmanager
    async def scaler(self, listen: str = "127.0.0.1:0") -> AsyncIterator[ScalerServer]:
        """Our scaler in this process, on the rig's floors."""
        async with ScalerServer(self.floors, listen, report=print) as server:
            self.scaled_by(f"127.0.0.1:{server.port}")
            yield server

    def scaled_by(self, address: str) -> None:
        """Where KEDA is to ask."""
        self.settings = replace(self.settings, scaler=address)

    def create(self, most: int = 3) -> None:
        """Its InferenceService."""
        self.plane.apply(
            inference_service(self.service.namespace, "chat", mode="Standard", annotations=EXTERNAL, max_replicas=most)
        )

    async def at_zero(self, most: int = 3) -> None:
        """Created, taken over, and at zero by a floor of 0."""
        self.create(most)
        self.floor(0)
        await self.standing(Standing.SCALED)
        await self.replicas(0)

    def floor(self, replicas: int) -> None:
        """The service's floor from now on."""
        self.floors.tell({self.service: KnownFloor(replicas)}, forever=True)

    async def step(self) -> Plan | None:
        """look → plan → act; None if there is no such service."""
        found = await look(self.client, self.service)
        if found is None:
            return None
        service, seen = found
        decided = plan(service, seen, self.settings)
        await self.actuator.carry_out(self.service, decided)
        return decided

    async def standing(self, wanted: Standing) -> Plan:
        """Steps until the service stands so, and nothing is left to do."""
        found: list[Plan] = []

        async def stands() -> bool:
            decided = await self.step()
            found[:] = [decided] if decided is not None else []
            return decided is not None and decided.standing is wanted and not (decided.apply or decided.remove)

        await until(stands, every_s=0.5)
        return found[0]

    async def now(self) -> int:
        """Deployment.spec.replicas."""
        path = f"/apis/apps/v1/namespaces/{self.service.namespace}/deployments/chat-predictor"
        replicas: int = (await self.client.get(path))["spec"]["replicas"]
        return replicas

    async def replicas(self, wanted: int) -> float:
        """Seconds until Deployment.spec.replicas is that."""

        async def are_so() -> bool:
            return await self.now() == wanted

        return await until(are_so, every_s=0.02)

    async def stays(self, wanted: int, for_s: float) -> None:
        """Deployment.spec.replicas is that all the time."""
        end = time.monotonic() + for_s
        while time.monotonic() < end:
            assert await self.now() == wanted
            await asyncio.sleep(0.2)
