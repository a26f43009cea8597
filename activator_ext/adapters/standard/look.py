"""One service and what stands around it, read from the API server now: to judge anew right before acting."""

from collections.abc import Callable
from typing import TypeVar

from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.kubernetes.faults import Refused
from activator_ext.adapters.kubernetes.resource import DEPLOYMENTS, INFERENCE_SERVICES, Json, Resource
from activator_ext.adapters.standard.objects import (
    AUTOSCALERS,
    SCALED_OBJECTS,
    Inference,
    autoscaler,
    inference,
    scaled,
)
from activator_ext.adapters.standard.plan import Seen
from activator_ext.core.model import ServiceId

_T = TypeVar("_T")


async def look(client: Client, service: ServiceId) -> tuple[Inference, Seen] | None:
    """The InferenceService and its surroundings, None if there is none. Raises Refused, Unreachable."""
    found = await _get(client, INFERENCE_SERVICES.path(service.namespace, service.name))
    if found is None:
        return None
    kept = inference(found)
    deployment = await _get(client, DEPLOYMENTS.path(service.namespace, kept.deployment))
    return kept, Seen(
        deployment=deployment is not None,
        scaled=await _list(client, SCALED_OBJECTS, service.namespace, scaled),
        autoscalers=await _list(client, AUTOSCALERS, service.namespace, autoscaler),
    )


async def _get(client: Client, path: str) -> Json | None:
    try:
        return await client.get(path)
    except Refused as error:
        if error.missing:
            return None
        raise


async def _list(client: Client, resource: Resource, namespace: str, keep: Callable[[Json], _T]) -> tuple[_T, ...]:
    listed = await client.get(resource.path(namespace))
    return tuple(keep(item) for item in listed.get("items") or ())
