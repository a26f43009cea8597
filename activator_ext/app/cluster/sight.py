"""Everything that the controller sees of a cluster, kept up to date by watches."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.kubernetes.ours import HOLDS, POLICIES, Ours, keep
from activator_ext.adapters.kubernetes.resource import (
    DEPLOYMENTS,
    EVENTS,
    INFERENCE_SERVICES,
    NODES,
    POD_AUTOSCALERS,
    PODS,
    REVISIONS,
    Json,
    Key,
    Resource,
)
from activator_ext.adapters.kubernetes.served import Served
from activator_ext.adapters.kubernetes.watched import Watched
from activator_ext.adapters.standard.objects import Inference, inference
from activator_ext.adapters.starts import objects
from activator_ext.adapters.starts.feed import EVENT_FIELDS, POD_SELECTOR, Feed
from activator_ext.adapters.starts.stories import Stories
from activator_ext.core.model import ServiceId

_WORKLOADS = (("Deployment", DEPLOYMENTS), ("PodAutoscaler", POD_AUTOSCALERS), ("Revision", REVISIONS))


@dataclass(frozen=True, slots=True)
class ServiceSeen:
    """One InferenceService: what policies need of it, and how it is scaled."""

    served: Served
    inference: Inference


class Sight:
    """One cluster's watches. `run` keeps them; reading never waits. `changed` is called when decisions may differ."""

    def __init__(
        self, client: Client, *, namespace: str, changed: Callable[[], None], clock: Callable[[], datetime]
    ) -> None:
        self.stories = Stories()
        feed = Feed(self.stories, clock)

        def watched(
            resource: Resource,
            project: Callable[[Json], Any],
            take: Callable[[Key, Mapping[Key, Any]], None] = lambda _, __: None,
            *,
            selector: str = "",
            fields: str = "",
            wakes: bool = True,
        ) -> Watched[Any]:
            def seen(key: Key) -> None:
                take(key, made.objects)
                if wakes:
                    changed()

            made: Watched[Any] = Watched(
                client,
                resource,
                project,
                namespace="" if resource is NODES else namespace,
                selector=selector,
                fields=fields,
                changed=seen,
                clock=clock,
            )
            return made

        self.policies: Watched[Ours] = watched(POLICIES, keep(POLICIES))
        self.holds: Watched[Ours] = watched(HOLDS, keep(HOLDS))
        self.services: Watched[ServiceSeen] = watched(INFERENCE_SERVICES, _service, self._service)
        self._pods = watched(PODS, objects.pod, feed.pod, selector=POD_SELECTOR)
        # What an Event tells is told by the pod as well, if later and in fewer words: it wakes nobody.
        self._events = watched(EVENTS, objects.event, feed.event, fields=EVENT_FIELDS, wakes=False)
        self._nodes = watched(NODES, objects.node, feed.node, wakes=False)
        self._workloads = [
            watched(resource, partial(objects.workload, kind), partial(feed.workload, kind), selector=POD_SELECTOR)
            for kind, resource in _WORKLOADS
        ]

    @property
    def needed(self) -> tuple[Watched[Any], ...]:
        """Without these nothing is decided: a policy not seen yet is not one that is gone."""
        return self.policies, self.holds, self.services, self._pods, *self._workloads

    @property
    def troubles(self) -> Mapping[str, str]:
        """What cannot be seen now, by resource, and why."""
        return {str(each.resource): each.trouble.text for each in self._all if each.trouble is not None}

    async def run(self) -> None:
        """Keep all watches until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for each in self._all:
                tasks.create_task(each.run())

    async def wait_synced(self) -> None:
        """Until what decisions need was listed once."""
        for each in self.needed:
            await each.wait_synced()

    @property
    def _all(self) -> tuple[Watched[Any], ...]:
        return *self.needed, self._events, self._nodes

    def _service(self, key: Key, kept: Mapping[Key, ServiceSeen]) -> None:
        if key not in kept:
            self.stories.service_gone(ServiceId(key.namespace, key.name))


def _service(seen: Json) -> ServiceSeen:
    return ServiceSeen(Served.of(seen), inference(seen))
