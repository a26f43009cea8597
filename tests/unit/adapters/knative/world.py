"""Knative's objects as a cluster gives them, reduced to what is read of them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from activator_ext.adapters.knative.objects import MAX_SCALE, MIN_SCALE, Routed, Scaled, replicas, routed, scaled
from activator_ext.adapters.knative.plan import Seen
from activator_ext.adapters.kubernetes.resource import Key
from activator_ext.core.model import ServiceId

CHAT = ServiceId("team-a", "chat")
LABELS = {"serving.kserve.io/inferenceservice": "chat", "component": "predictor"}


def entry(manager: str, operation: str, at: str, *, spec: bool = False, min_scale: bool = True) -> dict[str, Any]:
    """One entry of managed fields."""
    fields: dict[str, Any] = {"f:spec": {".": {}}} if spec else {}
    fields |= {"f:metadata": {"f:annotations": {f"f:{MIN_SCALE}": {}}}} if min_scale else {}
    return {"manager": manager, "operation": operation, "time": at, "fieldsType": "FieldsV1", "fieldsV1": fields}


def revision(
    name: str,
    *,
    min_scale: str | None = "0",
    max_scale: str | None = None,
    by: tuple[str, str] = ("knative-controller", "Update"),
    at: str = "2026-11-30T08:00:00Z",
    labels: dict[str, str] = LABELS,
    more: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """A Revision or PodAutoscaler; `by`: who set its min-scale last. Knative's controller made it."""
    annotations = dict(more)
    annotations |= {MIN_SCALE: min_scale} if min_scale is not None else {}
    annotations |= {MAX_SCALE: max_scale} if max_scale is not None else {}
    made = by[0] == "knative-controller"
    fields = [entry("knative-controller", "Update", at, spec=True, min_scale=made and min_scale is not None)]
    fields += [] if made else [entry(*by, at)]
    metadata = {"namespace": "team-a", "name": name, "uid": f"uid-{name}", "resourceVersion": "7", "labels": labels}
    return {"metadata": {**metadata, "annotations": annotations, "managedFields": fields}, "spec": {}}


def ours(name: str, value: str, was: str | None = "0", **how: Any) -> dict[str, Any]:
    """A Revision that we hold."""
    manager = "pilotlight" if was is None else f"pilotlight/was={was}"
    return revision(name, min_scale=value, by=(manager, "Apply"), **how)


def ksvc(latest: str, *traffic: dict[str, Any], labels: dict[str, str] = LABELS) -> dict[str, Any]:
    """A Knative Service; without `traffic` all goes to the newest ready Revision."""
    parts = traffic or ({"latestRevision": True, "percent": 100, "revisionName": latest},)
    status = {"latestReadyRevisionName": latest, "traffic": list(parts)} if latest else {}
    return {"metadata": {"namespace": "team-a", "name": "chat-predictor", "labels": labels}, "status": status}


def seen(
    service: dict[str, Any] | None,
    *revisions: dict[str, Any],
    pods: dict[str, int] | None = None,
    autoscalers: tuple[dict[str, Any], ...] = (),
) -> Seen:
    """All of it, read as the watches read it. `pods`: replicas of a Revision's Deployment."""

    def read(objects: tuple[dict[str, Any], ...]) -> dict[Key, Scaled]:
        found = [scaled(value) for value in objects]
        return {value.key: value for value in found if value is not None}

    found: Routed | None = routed(service) if service else None
    deployments = {
        Key("team-a", f"{name}-deployment"): replicas(deployment(name, count)) or 0
        for name, count in (pods or {}).items()
    }
    return Seen({found.key: found} if found else {}, read(revisions), read(autoscalers), deployments)


def deployment(name: str, count: int | None) -> dict[str, Any]:
    """A Revision's Deployment."""
    labels = {**LABELS, "serving.knative.dev/revision": name}
    spec = {} if count is None else {"replicas": count}
    return {"metadata": {"namespace": "team-a", "name": f"{name}-deployment", "labels": labels}, "spec": spec}
