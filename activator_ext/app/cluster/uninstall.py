"""`pilotlight uninstall`: every floor given up and every ScaledObject of ours removed, whoever left them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from activator_ext.adapters.knative.actuator import KnativeActuator
from activator_ext.adapters.knative.versions import CRDS
from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.kubernetes.faults import ApiFault, NoCluster, Refused
from activator_ext.adapters.kubernetes.lease import anyone_leads
from activator_ext.adapters.kubernetes.resource import Key
from activator_ext.adapters.standard.actuator import Actuator
from activator_ext.app.cluster.run import CannotRun

LISTED_S = 60.0
"""The longest wait for the first lists: 10,000 Revisions are listed in a few seconds."""
ROUNDS = 5
"""What an edit meanwhile or a conflict leaves is given up in the next round."""


@dataclass(frozen=True, slots=True)
class Removed:
    """How many floors were given up and ScaledObjects removed."""

    floors: int
    scaled_objects: int


def uninstall(kubeconfig: Path | None, namespace: str, lease: Key | None, say: Callable[[str], None]) -> Removed:
    """In `namespace` ("": all). Raises CannotRun: no cluster, a controller still leads, or something stays."""
    try:
        return asyncio.run(_uninstall(kubeconfig, namespace, lease, say))
    except (NoCluster, ApiFault) as error:
        raise CannotRun(str(error)) from error


async def _uninstall(kubeconfig: Path | None, namespace: str, lease: Key | None, say: Callable[[str], None]) -> Removed:
    async with await Client.connect(kubeconfig) as client:
        if lease is not None:
            say(f"looking whether a controller holds the Lease {lease}")
            if await anyone_leads(client, lease):
                raise CannotRun(f"a controller holds the Lease {lease} and would raise floors again: delete it first")
        floors = await _floors(client, namespace) if await _served(client, "revisions.serving.knative.dev") else 0
        objects = await Actuator(client).clear_all(namespace) if await _served(client, "scaledobjects.keda.sh") else 0
    return Removed(floors, objects)


async def _served(client: Client, crd: str) -> bool:
    """Whether the cluster has such objects at all."""
    try:
        await client.get(CRDS.path(name=crd))
    except Refused as refused:
        if refused.missing:
            return False
        raise
    return True


async def _floors(client: Client, namespace: str) -> int:
    knative = KnativeActuator(client, namespace=namespace)
    watching = asyncio.create_task(knative.run())
    try:
        async with asyncio.timeout(LISTED_S):
            await knative.wait_synced()
        given_up: set[Key] = set()
        for _ in range(ROUNDS):
            report = await knative.clear_all()
            given_up |= {each.write.target.key for each in report.done}  # one is put back, then let go
            if not report.done and not report.faults:
                return len(given_up)
        raise CannotRun(f"floors stay: {'; '.join(report.faults) or 'they are raised again meanwhile'}")
    except TimeoutError as error:
        troubles = "; ".join(each.trouble.text for each in knative.watches if each.trouble is not None)
        raise CannotRun(f"Knative's objects could not be listed within {LISTED_S:.0f} s: {troubles}") from error
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
