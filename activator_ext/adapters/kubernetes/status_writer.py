"""Writes the status of our objects, each write bound to the object that it was decided on."""

from collections.abc import Mapping
from typing import Any

from activator_ext.adapters.kubernetes.client import MERGE_PATCH, Client
from activator_ext.adapters.kubernetes.faults import Refused
from activator_ext.adapters.kubernetes.ours import HOLDS
from activator_ext.adapters.kubernetes.policies import ObjectId
from activator_ext.adapters.kubernetes.resource import Json, Resource


async def write_status(
    client: Client, resource: Resource, item: ObjectId, patch: Mapping[str, Any], resource_version: str
) -> Json | None:
    """The object with its new status; None where it changed meanwhile or is gone: the next decision sees it anew.

    `patch`: of `status`, as `status.patch` gives it. Raises Refused and Unreachable for anything else.
    """
    path = resource.path(item.namespace, item.name, "status")
    body = {"metadata": {"resourceVersion": resource_version}, "status": dict(patch)}
    try:
        return await client.send("PATCH", path, body, content_type=MERGE_PATCH)
    except Refused as refused:
        if refused.missing or refused.conflict:
            return None
        raise


async def delete_hold(client: Client, item: ObjectId) -> None:
    """Remove a hold that has expired long ago; one of the same name that was made since stays."""
    path = HOLDS.path(item.namespace, item.name)
    try:
        await client.send("DELETE", path, {"preconditions": {"uid": item.uid}})
    except Refused as refused:
        if not (refused.missing or refused.conflict):
            raise
