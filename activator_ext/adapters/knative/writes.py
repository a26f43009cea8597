"""Carries out one planned write of a min-scale on the API server."""

from activator_ext.adapters.knative.objects import MIN_SCALE, Scaled, Scheme, scaled
from activator_ext.adapters.knative.plan import Step, Write
from activator_ext.adapters.kubernetes.apply import apply, release
from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.kubernetes.faults import Refused
from activator_ext.adapters.kubernetes.resource import POD_AUTOSCALERS, REVISIONS, Json, Resource

RESOURCES: dict[Scheme, Resource] = {Scheme.REVISION: REVISIONS, Scheme.POD_AUTOSCALER: POD_AUTOSCALERS}


async def write(client: Client, what: Write) -> Json | None:
    """Do it; the object as it is then, None where it is gone.

    Killed in between, nothing is lost: RESTORE without its release leaves our entry on the value of before, which the
    next plan releases. Raises Refused (`conflict`: it changed meanwhile, read it again) and Unreachable.
    """
    resource, target = RESOURCES[what.scheme], what.target
    if what.step is Step.RELEASE:
        return await release(client, resource, target.key, what.manager)
    annotations = {} if what.step is Step.DROP else {"annotations": {MIN_SCALE: str(what.value)}}
    written = await apply(
        client,
        resource,
        target.key,
        {"metadata": annotations},
        manager=what.manager,
        uid=target.uid,
        version=target.version or None,
        force=what.force,
    )
    if what.step is Step.RESTORE:
        return await release(client, resource, target.key, what.manager)
    return written


async def read(client: Client, target: Scaled, scheme: Scheme) -> Scaled | None:
    """The object as it is now, None where it is gone."""
    try:
        return scaled(await client.get(RESOURCES[scheme].path(target.key.namespace, target.key.name)))
    except Refused as refused:
        if refused.missing:
            return None
        raise
