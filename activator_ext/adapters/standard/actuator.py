"""Carries out plans: server-side apply under our own field manager, without force, so that nobody's edit is undone."""

from typing import Any

from activator_ext.adapters.kubernetes.apply import apply
from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.kubernetes.faults import Refused
from activator_ext.adapters.kubernetes.resource import Key
from activator_ext.adapters.standard.objects import MANAGED_BY, OURS, SCALED_OBJECTS
from activator_ext.adapters.standard.plan import Plan
from activator_ext.core.model import ServiceId


class HeldByOthers(Exception):
    """Fields of our ScaledObject are held by another manager; the message names them, it, and the fix."""


class Actuator:
    """Writes ScaledObjects. An apply that others' fields stand against is tried again when one of both changes."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._refused: dict[ServiceId, tuple[dict[str, Any], int, str]] = {}

    async def carry_out(self, service: ServiceId, plan: Plan) -> None:
        """Apply and remove. Raises HeldByOthers, Refused, Unreachable; the same plan twice does no harm."""
        for name in plan.remove:
            await self._remove(Key(service.namespace, name))
        if plan.apply is None:
            self._refused.pop(service, None)
            return
        refused = self._refused.get(service)
        if refused is not None and refused[:2] == (plan.apply, plan.over):
            raise HeldByOthers(refused[2])
        await self._apply(service, plan.apply, plan.over)

    async def _apply(self, service: ServiceId, wanted: dict[str, Any], over: int) -> None:
        key = Key(service.namespace, wanted["metadata"]["name"])
        try:
            await apply(self._client, SCALED_OBJECTS, key, wanted)
        except Refused as error:
            # A 409 is also said where the object changed meanwhile: then the next look decides anew.
            if not error.conflict or "conflict with" not in error.said:
                raise
            why = f"ScaledObject {key.name}: {error.said}; undo that edit, or delete the ScaledObject: it is made anew"
            self._refused[service] = wanted, over, why
            raise HeldByOthers(why) from error
        self._refused.pop(service, None)

    async def _remove(self, key: Key) -> None:
        """Delete a ScaledObject of ours; the replicas that stand stay. One that is gone already is fine."""
        try:
            await self._client.send("DELETE", SCALED_OBJECTS.path(key.namespace, key.name))
        except Refused as error:
            if not error.missing:
                raise

    def forget(self, service: ServiceId) -> None:
        """The service is gone."""
        self._refused.pop(service, None)

    async def clear_all(self, namespace: str = "") -> int:
        """Remove every ScaledObject of ours ("": in all namespaces): for uninstall. How many there were.

        KEDA takes each away when it next looks; a cluster without KEDA has none.
        """
        try:
            found = await self._client.get(SCALED_OBJECTS.path(namespace), {"labelSelector": f"{MANAGED_BY}={OURS}"})
        except Refused as error:
            if error.missing:
                return 0
            raise
        items = found.get("items") or ()
        for each in items:
            await self._remove(Key(each["metadata"]["namespace"], each["metadata"]["name"]))
        return len(items)
