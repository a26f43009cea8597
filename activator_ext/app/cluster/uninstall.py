"""`pilotlight uninstall`: every floor given up and every ScaledObject of ours removed, whoever left them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from activator_ext.adapters.knative.clear import clear
from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.kubernetes.faults import ApiFault, NoCluster
from activator_ext.adapters.kubernetes.lease import anyone_leads
from activator_ext.adapters.kubernetes.resource import Key
from activator_ext.adapters.standard.actuator import Actuator
from activator_ext.app.cluster.run import CannotRun


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
        done = await clear(client, namespace=namespace)
        objects = await Actuator(client).clear_all(namespace)
    # One floor is two writes: its min-scale is put back, then let go.
    return Removed(len({each.write.target.key for each in done}), objects)
