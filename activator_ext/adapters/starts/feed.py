"""From watches to stories: what appeared, changed or went, by the key that a watch calls it by.

A key is a namespace and a name; a pod is its UID. A pod made anew under an old name is another pod.
"""

from collections.abc import Callable, Hashable, Mapping
from datetime import datetime
from typing import TypeVar

from activator_ext.adapters.starts.objects import SERVICE_LABEL, Event, Node, Pod, Workload
from activator_ext.adapters.starts.stories import Stories

POD_SELECTOR = SERVICE_LABEL
"""Pods that are watched: those with this label, whatever its value. Deployments and the rest have it too."""
EVENT_FIELDS = "involvedObject.kind=Pod"
"""Events that are watched."""
_Key = TypeVar("_Key", bound=Hashable)


class Feed:
    """Tells `stories` of changes. Each method is what a watch of that kind calls with a key and what it has of it now.

    `clock` dates what is only noticed by its absence.
    """

    def __init__(self, stories: Stories, clock: Callable[[], datetime]) -> None:
        self._stories, self._clock = stories, clock
        self._pods: dict[Hashable, str] = {}
        self._workloads: dict[tuple[str, Hashable], Workload] = {}
        self._nodes: dict[Hashable, str] = {}

    def pod(self, key: _Key, kept: Mapping[_Key, Pod]) -> None:
        """A pod appeared, changed or went."""
        pod, known = kept.get(key), self._pods.get(key)
        if known is not None and (pod is None or pod.uid != known):
            self._stories.pod_gone(known, self._clock())
            del self._pods[key]
        if pod is not None:
            self._pods[key] = pod.uid
            self._stories.pod(pod)

    def event(self, key: _Key, kept: Mapping[_Key, Event]) -> None:
        """An Event appeared or was repeated; that one went tells nothing."""
        if (event := kept.get(key)) is not None:
            self._stories.event(event)

    def node(self, key: _Key, kept: Mapping[_Key, Node]) -> None:
        """A node appeared, changed or went."""
        node = kept.get(key)
        if node is not None:
            self._nodes[key] = node.name
            self._stories.node(node)
        elif (name := self._nodes.pop(key, None)) is not None:
            self._stories.node_gone(name, self._clock())

    def workload(self, kind: str, key: _Key, kept: Mapping[_Key, Workload]) -> None:
        """A Deployment, PodAutoscaler or Revision (`kind`) appeared, changed or went."""
        workload = kept.get(key)
        if workload is not None:
            self._workloads[kind, key] = workload
            self._stories.workload(workload)
        elif (known := self._workloads.pop((kind, key), None)) is not None:
            self._stories.workload_gone(known)
