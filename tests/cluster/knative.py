"""What the tests of floors on Knative share: an actuator that runs, and looks at the objects that it acts on."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from activator_ext.adapters.knative.actuator import KnativeActuator, Report
from activator_ext.adapters.knative.nudge import Nudger
from activator_ext.adapters.knative.objects import MIN_SCALE
from activator_ext.adapters.kubernetes.client import Client
from activator_ext.core.model import ServiceId
from tests.cluster.control_plane import ControlPlane, inference_service
from tests.serving import wait_for


@asynccontextmanager
async def actuator(plane: ControlPlane, namespace: str) -> AsyncIterator[tuple[KnativeActuator, Client]]:
    """A synced actuator of one namespace."""
    address = plane.env.get("ACTIVATOR", "")
    async with await Client.connect(plane.kubeconfig) as client, Nudger(*[address] * bool(address)) as nudger:
        made = KnativeActuator(client, nudger, namespace=namespace)
        running = asyncio.create_task(made.run())
        try:
            async with asyncio.timeout(30):
                await made.wait_synced()
            yield made, client
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


class Service:
    """One InferenceService in Knative mode and its objects, as kubectl shows them."""

    def __init__(self, plane: ControlPlane, namespace: str, name: str = "chat") -> None:
        self.plane, self.namespace, self.name = plane, namespace, name
        self.id = ServiceId(namespace, name)
        self.ksvc = f"{name}-predictor"

    def create(self, **how: Any) -> str:
        """Create it; its ready Revision."""
        self.plane.apply(inference_service(self.namespace, self.name, **how))
        return self.ready()

    def ready(self, after: str = "") -> str:
        """Its newest ready Revision, once that is another one than `after` and has the traffic."""

        def newest() -> str | None:
            items = self.plane.get("-n", self.namespace, "ksvc")["items"]
            found = [item for item in items if item["metadata"]["name"] == self.ksvc]
            status = found[0].get("status", {}) if found else {}
            latest = status.get("latestReadyRevisionName")
            routed = [part.get("revisionName") for part in status.get("traffic", ())]
            return latest if latest and latest != after and latest in routed else None

        return wait_for(newest, within_s=90, saying=f"{self.name} has no newly ready Revision")

    def get(self, kind: str, name: str) -> Any:
        return self.plane.get("-n", self.namespace, kind, name)

    def revisions(self) -> list[str]:
        return sorted(item["metadata"]["name"] for item in self.plane.get("-n", self.namespace, "revisions")["items"])

    def replicas(self, revision: str) -> int:
        return int(self.get("deployment", f"{revision}-deployment")["spec"]["replicas"])

    def at_zero(self, revision: str) -> None:
        wait_for(lambda: self.replicas(revision) == 0, within_s=90, saying=f"{revision} did not go to zero")

    def min_scale(self, revision: str) -> str | None:
        value: str | None = self.get("revision", revision)["metadata"]["annotations"].get(MIN_SCALE)
        return value

    def managers(self, revision: str) -> list[str]:
        """Who holds fields of the Revision: Knative's own aside."""
        entries = self.get("revision", revision)["metadata"]["managedFields"]
        return sorted({entry["manager"] for entry in entries} - {"knative-controller", "controller"})


async def seconds_until(what: Callable[[], bool], *, within_s: float = 30.0) -> float:
    """How long it took; the test fails after `within_s`."""
    begun = time.monotonic()
    async with asyncio.timeout(within_s):
        while not await asyncio.to_thread(what):  # noqa: ASYNC110  (kubectl has no event)
            await asyncio.sleep(0.01)
    return time.monotonic() - begun


async def rounds(made: KnativeActuator, floors: dict[ServiceId, int], until: Callable[[], bool]) -> list[Report]:
    """Rounds as a loop would make them, every 0.2 s, until something is true."""
    reports = []
    async with asyncio.timeout(90):
        while True:
            reports.append(await made.carry_out(floors))
            if await asyncio.to_thread(until):
                return reports
            await asyncio.sleep(0.2)
