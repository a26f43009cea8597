"""Which Knative is there, as far as it says so: on which object floors belong."""

import re
from typing import Any

from activator_ext.adapters.knative.objects import Scheme
from activator_ext.adapters.kubernetes.resource import Json, Resource

CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition")
REVISIONS_CRD = "revisions.serving.knative.dev"
_LABELS = ("app.kubernetes.io/version", "serving.knative.dev/release")
_COPIES_SINCE = (1, 21)


def scheme_of(crd: Json) -> Scheme | None:
    """By the version in the labels of the CRD of Revisions; None where they name none (`devel`)."""
    labels: Any = crd.get("metadata", {}).get("labels") or {}
    for label in _LABELS:
        match = re.match(r"v?(\d+)\.(\d+)", str(labels.get(label, "")))
        if match:
            copies = (int(match[1]), int(match[2])) >= _COPIES_SINCE
            return Scheme.REVISION if copies else Scheme.POD_AUTOSCALER
    return None
