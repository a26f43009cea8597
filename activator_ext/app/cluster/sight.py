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
from activator_ext.adapters.starts.objects import Workload
from activator_ext.adapters.starts.stories import Stories
from activator_ext.core.model import ServiceId

NODES = Resource("", "v1", "nodes", "Node")
_OF_A_SERVICE = objects.SERVICE_LABEL
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
        self._changed, self._clock = changed, clock
        self._uids: dict[Key, str] = {}
        self._told: dict[tuple[str, Key], Workload] = {}

        def watched(resource: Resource, project: Any, seen: Callable[[Key], None], selector: str = "") -> Watched[Any]:
            return Watched(
                client,
                resource,
                project,
                namespace="" if resource is NODES else namespace,
                selector=selector,
                fields="involvedObject.kind=Pod" if resource is EVENTS else "",
                changed=seen,
                clock=clock,
            )

        self.policies: Watched[Ours] = watched(POLICIES, keep(POLICIES), self._wake)
        self.holds: Watched[Ours] = watched(HOLDS, keep(HOLDS), self._wake)
        self.services: Watched[ServiceSeen] = watched(INFERENCE_SERVICES, _service, self._service_changed)
        self._pods = watched(PODS, objects.pod, self._pod_changed, _OF_A_SERVICE)
        self._events = watched(EVENTS, objects.event, self._event_changed)
        self._nodes = watched(NODES, objects.node, self._node_changed)
        self._workloads = {
            kind: watched(
                resource, partial(objects.workload, kind), partial(self._workload_changed, kind), _OF_A_SERVICE
            )
            for kind, resource in _WORKLOADS
        }

    @property
    def needed(self) -> tuple[Watched[Any], ...]:
        """Without these nothing is decided: a policy not seen yet is not one that is gone."""
        return self.policies, self.holds, self.services

    @property
    def watches(self) -> tuple[Watched[Any], ...]:
        """All of them."""
        return (*self.needed, self._pods, self._events, self._nodes, *self._workloads.values())

    @property
    def troubles(self) -> Mapping[str, str]:
        """What cannot be seen now, by resource, and why."""
        return {str(each.resource): each.trouble.text for each in self.watches if each.trouble is not None}

    async def run(self) -> None:
        """Keep all watches until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for each in self.watches:
                tasks.create_task(each.run())

    async def wait_synced(self) -> None:
        """Until what decisions need was listed once."""
        for each in (*self.needed, self._pods, *self._workloads.values()):
            await each.wait_synced()

    def _wake(self, _: Key) -> None:
        self._changed()

    def _service_changed(self, key: Key) -> None:
        if key not in self.services.objects:
            self.stories.service_gone(ServiceId(key.namespace, key.name))
        self._changed()

    def _pod_changed(self, key: Key) -> None:
        pod = self._pods.objects.get(key)
        known = self._uids.get(key)
        if known is not None and (pod is None or pod.uid != known):
            self.stories.pod_gone(known, self._clock())
            del self._uids[key]
        if pod is not None:
            self._uids[key] = pod.uid
            self.stories.pod(pod)
        self._changed()

    def _event_changed(self, key: Key) -> None:
        event = self._events.objects.get(key)
        if event is not None:
            self.stories.event(event)

    def _node_changed(self, key: Key) -> None:
        node = self._nodes.objects.get(key)
        if node is None:
            self.stories.node_gone(key.name)
        else:
            self.stories.node(node)

    def _workload_changed(self, kind: str, key: Key) -> None:
        workload = self._workloads[kind].objects.get(key)
        before = self._told.pop((kind, key), None)
        if workload is not None:
            self._told[kind, key] = workload
            self.stories.workload(workload)
        elif before is not None:
            self.stories.workload_gone(before)
        self._changed()


def _service(seen: Json) -> ServiceSeen:
    return ServiceSeen(Served.of(seen), inference(seen))
