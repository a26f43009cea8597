"""Writes the status of our objects, each write bound to the object that it was decided on."""

from activator_ext.adapters.kubernetes.client import MERGE_PATCH, Client
from activator_ext.adapters.kubernetes.faults import Refused
from activator_ext.adapters.kubernetes.ours import HOLDS
from activator_ext.adapters.kubernetes.policies import ObjectId
from activator_ext.adapters.kubernetes.resource import Json
from activator_ext.adapters.kubernetes.statuses import StatusWrite


async def write_status(client: Client, write: StatusWrite) -> Json | None:
    """The object with its new status; None where it changed meanwhile or is gone: the next decision sees it anew.

    Raises Refused and Unreachable for anything else.
    """
    path = write.resource.path(write.id.namespace, write.id.name, "status")
    body = {"metadata": {"resourceVersion": write.resource_version}, "status": dict(write.patch)}
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
