"""Objects as an API server gives them, for the tests of this room."""

from collections.abc import Mapping
from typing import Any

from activator_ext.adapters.kubernetes.served import Served


def policy(name: str = "chat", *, created: int = 0, namespace: str = "team-a", **spec: Any) -> dict[str, Any]:
    """A PrewarmPolicy for the service `chat`, created that many seconds after nine; `ref=None` names no service."""
    ref = spec.pop("ref", "chat")
    named = {} if ref is None else {"serviceRef": {"kind": "InferenceService", "name": ref}}
    return _object("PrewarmPolicy", name, namespace, created, {**named, **spec})


def hold(name: str = "demo", *, created: int = 0, namespace: str = "team-a", **spec: Any) -> dict[str, Any]:
    """A PrewarmHold for the service `chat`; `for_` is its key `for`."""
    if "for_" in spec:
        spec["for"] = spec.pop("for_")
    return _object("PrewarmHold", name, namespace, created, {"serviceRef": {"name": spec.pop("ref", "chat")}, **spec})


def _object(kind: str, name: str, namespace: str, created: int, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "pilotlight.dev/v1alpha1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-of-{namespace}-{name}",
            "generation": 1,
            "resourceVersion": "7",
            "creationTimestamp": f"2026-03-02T09:{created // 60:02}:{created % 60:02}Z",
            "labels": {"a": "b"},
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": dict(spec),
    }


def service(name: str = "chat", *, namespace: str = "team-a", **predictor: Any) -> dict[str, Any]:
    """An InferenceService with minReplicas 0 and maxReplicas 3."""
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"predictor": {"minReplicas": 0, "maxReplicas": 3, **predictor}},
    }


def served(*names: str) -> list[Served]:
    """Services of team-a with these names."""
    return [Served.of(service(name)) for name in names]
