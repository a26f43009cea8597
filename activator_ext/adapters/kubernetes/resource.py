"""Which resources of the API server exist and where: group, version, plural → path."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

Json = Mapping[str, Any]
"""A Kubernetes object as the API server gives it."""


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Where an object is: its namespace ("" for cluster-wide ones) and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource. `group` "" is the core group; `plural` is lower case, as in its path."""

    group: str
    version: str
    plural: str
    kind: str

    @property
    def api_version(self) -> str:
        """What stands in an object's `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of a collection (without `name`), an object, or its subresource; all parts are escaped."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace:
            parts += ["namespaces", namespace]
        parts += [self.plural, name, subresource]
        return "/" + "/".join(quote(part, safe="") for part in parts if part)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


EVENTS = Resource("", "v1", "events", "Event")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
NODES = Resource("", "v1", "nodes", "Node")
PODS = Resource("", "v1", "pods", "Pod")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
INFERENCE_SERVICES = Resource("serving.kserve.io", "v1beta1", "inferenceservices", "InferenceService")
KNATIVE_SERVICES = Resource("serving.knative.dev", "v1", "services", "Service")
REVISIONS = Resource("serving.knative.dev", "v1", "revisions", "Revision")
POD_AUTOSCALERS = Resource("autoscaling.internal.knative.dev", "v1alpha1", "podautoscalers", "PodAutoscaler")
