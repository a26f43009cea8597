"""Annotations that decide in a cluster when a service runs, and that local mode does not read: each gives a warning."""

from collections.abc import Mapping

from activator_ext.adapters.local.documents import Document, Path
from activator_ext.adapters.local.findings import Findings

_RETENTION = "Write coldStartCost in a PrewarmPolicy."
WITHOUT_EFFECT: Mapping[str, str] = {
    "serving.kserve.io/stop": "Take the service out of these files to stop it.",
    "autoscaling.knative.dev/min-scale": "Write minReplicas.",
    "autoscaling.knative.dev/max-scale": "Write maxReplicas.",
    "autoscaling.knative.dev/target": "Write queue.target in a PrewarmPolicy.",
    "autoscaling.knative.dev/scale-to-zero-pod-retention-period": _RETENTION,
    "autoscaling.knative.dev/window": _RETENTION,
}
"""Each with what to do instead."""


def warn(annotations: Mapping[str, str], path: Path, document: Document, findings: Findings) -> None:
    """For the annotations at `path`."""
    for name in annotations:
        if name in WITHOUT_EFFECT:
            findings.warning(*document.where((*path, name)), "local mode ignores it", WITHOUT_EFFECT[name])
