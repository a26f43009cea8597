"""Statuses on a real API server: written once, told to nobody, none without cause."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.kubernetes.holds import holds
from activator_ext.adapters.kubernetes.ours import HOLDS, POLICIES, Ours, keep
from activator_ext.adapters.kubernetes.policies import assign
from activator_ext.adapters.kubernetes.resource import Key, Resource
from activator_ext.adapters.kubernetes.status_writer import write_status
from activator_ext.adapters.kubernetes.statuses import Statuses, StatusWrite
from activator_ext.adapters.kubernetes.watched import Watched
from activator_ext.adapters.local.policy import API_VERSION
from tests.cluster.installed import client, installed

__all__ = ["client", "installed"]  # fixtures
NOW = datetime.now(UTC)


class Eyes:
    """Our objects of one namespace, watched. `told`: the name of each that changed, in order."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.told: list[str] = []
        self._news = asyncio.Event()
        self.policies, self.holds = (
            Watched(client, each, keep(each), namespace=namespace, changed=self._changed) for each in (POLICIES, HOLDS)
        )

    def _changed(self, key: Key) -> None:
        self.told.append(key.name)
        self._news.set()

    async def until(self, so: Callable[[], bool]) -> None:
        """Until it is so, looked at after each change that is told."""
        async with asyncio.timeout(20):
            while not so():
                self._news.clear()
                await self._news.wait()

    def writes(self) -> tuple[StatusWrite, ...]:
        """What is to be written where no service is."""
        policies, held = list(self.policies.objects.values()), list(self.holds.objects.values())
        assigned = assign([each.item for each in policies], [])
        return Statuses().writes(policies, held, assigned, holds([each.item for each in held], [], NOW), {}, NOW)


@asynccontextmanager
async def watching(client: Client, namespace: str) -> AsyncIterator[Eyes]:
    eyes = Eyes(client, namespace)
    tasks = [asyncio.create_task(each.run()) for each in (eyes.policies, eyes.holds)]
    try:
        await eyes.policies.wait_synced()
        await eyes.holds.wait_synced()
        yield eyes
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def make(client: Client, resource: Resource, namespace: str, name: str, **spec: Any) -> None:
    body = {
        "apiVersion": API_VERSION,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"serviceRef": {"name": "chat"}, **spec},
    }
    await client.send("POST", resource.path(namespace), body)


def stored(watched: Watched[Ours], name: str) -> str | None:
    """What the watch has of the reason of an object's condition Accepted."""
    found = next((each.status for key, each in watched.objects.items() if key.name == name), {})
    return next((each["reason"] for each in found.get("conditions", ())), None)


async def test_a_status_is_written_once_and_wakes_nobody(client: Client, namespace: str) -> None:
    async with watching(client, namespace) as eyes:
        await make(client, POLICIES, namespace, "one")
        await make(client, POLICIES, namespace, "two")
        await make(client, HOLDS, namespace, "demo", **{"for": "1h"})
        await eyes.until(lambda: len(eyes.told) == 3)
        for each in eyes.writes():
            assert await write_status(client, each)
        # The watches tell in order: who has these two has the statuses before them.
        await make(client, POLICIES, namespace, "last-policy")
        await make(client, HOLDS, namespace, "last-hold", **{"for": "1h"})
        await eyes.until(lambda: {"last-policy", "last-hold"} <= set(eyes.told))

        assert sorted(eyes.told) == ["demo", "last-hold", "last-policy", "one", "two"]
        assert stored(eyes.policies, "one") == "NoSuchService"
        assert stored(eyes.policies, "two") == "OlderPolicyCounts"
        assert stored(eyes.holds, "demo") == "NoSuchService"
        # The new ones, and the two that have a third beside them now. Not the hold.
        assert {each.id.name for each in eyes.writes()} == {"last-policy", "last-hold", "one", "two"}
    assert (client.requests["PATCH prewarmpolicies"], client.requests["PATCH prewarmholds"]) == (2, 1)


async def test_an_edit_in_between_makes_a_write_void_and_the_next_one_right(client: Client, namespace: str) -> None:
    async with watching(client, namespace) as eyes:
        await make(client, POLICIES, namespace, "one")
        await eyes.until(lambda: len(eyes.told) == 1)
        (late,) = eyes.writes()
        await client.send(
            "PATCH",
            POLICIES.path(namespace, "one"),
            {"spec": {"coldStartCost": "1m"}},
            content_type="application/merge-patch+json",
        )

        assert await write_status(client, late) is None
        await eyes.until(lambda: len(eyes.told) == 2)
        (anew,) = eyes.writes()
        written = await write_status(client, anew)
        assert written is not None
        assert written["status"]["observedGeneration"] == written["metadata"]["generation"] == 2


async def test_a_status_for_what_is_gone_is_void(client: Client, namespace: str) -> None:
    async with watching(client, namespace) as eyes:
        await make(client, HOLDS, namespace, "demo", **{"for": "1h"})
        await eyes.until(lambda: len(eyes.told) == 1)
        (late,) = eyes.writes()
        await client.send("DELETE", HOLDS.path(namespace, "demo"))

        assert await write_status(client, late) is None
