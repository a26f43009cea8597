"""Carries out plans: server-side apply under our own field manager, without force, so that nobody's edit is undone."""

from collections.abc import Mapping
from typing import Any, Protocol

from activator_ext.adapters.kubernetes.client import APPLY_PATCH
from activator_ext.adapters.kubernetes.faults import Refused
from activator_ext.adapters.kubernetes.resource import Json
from activator_ext.adapters.standard.objects import MANAGED_BY, OURS, SCALED_OBJECTS
from activator_ext.adapters.standard.plan import Plan
from activator_ext.core.model import ServiceId


class Api(Protocol):
    """What is needed of the API server. Every call raises Refused or Unreachable."""

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> Json:
        """The object or list at `path`."""

    async def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = ...,
        params: Mapping[str, str] | None = None,
    ) -> Json:
        """What the API server made of `body`."""


class HeldByOthers(Exception):
    """Fields of our ScaledObject are held by another manager; the message names them, it, and the fix."""


class Actuator:
    """Writes ScaledObjects. An apply that others' fields stand against is tried again when one of both changes."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._refused: dict[ServiceId, tuple[dict[str, Any], int, str]] = {}

    async def carry_out(self, service: ServiceId, plan: Plan) -> None:
        """Apply and remove. Raises HeldByOthers, Refused, Unreachable; the same plan twice does no harm."""
        for name in plan.remove:
            await self.remove(service.namespace, name)
        if plan.apply is None:
            self._refused.pop(service, None)
            return
        refused = self._refused.get(service)
        if refused is not None and refused[:2] == (plan.apply, plan.over):
            raise HeldByOthers(refused[2])
        await self._apply(service, plan.apply, plan.over)

    async def _apply(self, service: ServiceId, wanted: dict[str, Any], over: int) -> None:
        name = wanted["metadata"]["name"]
        path = SCALED_OBJECTS.path(service.namespace, name)
        try:
            await self._api.send("PATCH", path, wanted, content_type=APPLY_PATCH, params={"fieldManager": OURS})
        except Refused as error:
            if not error.conflict or "conflict" not in error.said:
                raise
            why = f"ScaledObject {name}: {error.said}; undo that edit, or delete the ScaledObject: it is made anew"
            self._refused[service] = wanted, over, why
            raise HeldByOthers(why) from error
        self._refused.pop(service, None)

    async def remove(self, namespace: str, name: str) -> None:
        """Delete a ScaledObject of ours; the replicas that stand stay. One that is gone already is fine."""
        try:
            await self._api.send("DELETE", SCALED_OBJECTS.path(namespace, name))
        except Refused as error:
            if not error.missing:
                raise

    async def clear_all(self) -> int:
        """Remove every ScaledObject of ours, in all namespaces: for uninstall. How many there were."""
        found = await self._api.get(SCALED_OBJECTS.path(), {"labelSelector": f"{MANAGED_BY}={OURS}"})
        for each in found.get("items") or ():
            await self.remove(each["metadata"]["namespace"], each["metadata"]["name"])
        return len(found.get("items") or ())
