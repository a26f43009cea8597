"""Leadership on a real API server: how long nobody leads when the leader ends, and when it dies."""

import asyncio
import time

import pytest

from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.kubernetes.lease import Leader
from activator_ext.adapters.kubernetes.resource import Key
from tests.cluster.control_plane import ControlPlane


def _leads(leader: Leader) -> bool:
    return leader.leading


async def _until_leading(leader: Leader) -> float:
    begun = time.monotonic()
    async with asyncio.timeout(60):
        while not leader.leading:  # noqa: ASYNC110  (told by nobody)
            await asyncio.sleep(0.01)
    return time.monotonic() - begun


async def test_a_leader_that_ends_is_followed_within_seconds(plane: ControlPlane, namespace: str) -> None:
    key = Key(namespace, "pilotlight-controller")
    async with await Client.connect(plane.kubeconfig) as client:
        first, second = Leader(client, key, "first"), Leader(client, key, "second")
        running = asyncio.create_task(first.run())
        await _until_leading(first)
        follows = asyncio.create_task(second.run())
        await asyncio.sleep(0.5)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert not first.leading
        took_s = await _until_leading(second)
        follows.cancel()
        await asyncio.gather(follows, return_exceptions=True)
    print(f"the leader ended: another leads after {took_s:.1f} s")
    assert plane.get("-n", namespace, "lease", key.name)["spec"]["holderIdentity"] == ""


@pytest.mark.prove
async def test_a_leader_that_dies_is_followed_when_its_lease_ends(plane: ControlPlane, namespace: str) -> None:
    key = Key(namespace, "pilotlight-controller")
    async with await Client.connect(plane.kubeconfig) as client:
        first, second = Leader(client, key, "first"), Leader(client, key, "second")
        await first.step()  # and then never again
        assert _leads(first)
        follows = asyncio.create_task(second.run())
        begun = time.monotonic()
        while not second.leading and _leads(first):  # noqa: ASYNC110  (told by nobody)
            await asyncio.sleep(0.01)
        assert not second.leading
        stopped_s = time.monotonic() - begun
        took_s = stopped_s + await _until_leading(second)
        follows.cancel()
        await asyncio.gather(follows, return_exceptions=True)
    print(f"the leader died: it stopped to lead after {stopped_s:.1f} s, another leads after {took_s:.1f} s")
    assert plane.get("-n", namespace, "lease", key.name)["spec"]["leaseTransitions"] == 1
