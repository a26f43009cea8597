"""What is kept of our own objects, for `Watched`: spec and identity, the status beside it.

Equality leaves the status out: what we write there comes back as an edit, and must wake nobody.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from activator_ext.adapters.kubernetes.resource import Json, Resource

POLICIES = Resource("pilotlight.dev", "v1alpha1", "prewarmpolicies", "PrewarmPolicy")
HOLDS = Resource("pilotlight.dev", "v1alpha1", "prewarmholds", "PrewarmHold")
_METADATA = ("name", "namespace", "uid", "generation", "creationTimestamp", "deletionTimestamp", "finalizers")


@dataclass(frozen=True, slots=True)
class Ours:
    """One object: `item` is what `assign` and `holds` read, `status` and `resource_version` what a write needs."""

    item: Json
    status: Json = field(compare=False)
    resource_version: str = field(compare=False)


def keep(resource: Resource) -> Callable[[Json], Ours]:
    """The projection of POLICIES or HOLDS."""

    def project(seen: Json) -> Ours:
        metadata = seen["metadata"]
        item = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {key: metadata[key] for key in _METADATA if key in metadata},
            "spec": seen.get("spec"),
        }
        return Ours(item, seen.get("status") or {}, str(metadata.get("resourceVersion", "")))

    return project
