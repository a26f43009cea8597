"""The ScaledObject of ours: one InferenceService's Deployment, scaled by our external-push scaler. Pure."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from activator_ext.adapters.kubernetes.resource import INFERENCE_SERVICES, Json
from activator_ext.adapters.standard.objects import (
    APPLIED,
    MANAGED_BY,
    OURS,
    SCALED_OBJECTS,
    Inference,
)

SUFFIX = "-prewarm"
# KEDA writes the name as a label's value.
_LONGEST_NAME = 63
MOST = 100
"""maxReplicaCount where neither maxReplicas nor a policy bounds a service: KEDA's own default."""


@dataclass(frozen=True, slots=True)
class Authentication:
    """A (Cluster)TriggerAuthentication with caCert, tlsClientCert and tlsClientKey."""

    name: str
    kind: str = "TriggerAuthentication"

    @classmethod
    def parse(cls, text: str) -> Self:
        """`NAME`, of each service's namespace, or `cluster/NAME`, of all. Raises ValueError."""
        scope, slash, name = text.rpartition("/")
        if not name or (slash and scope != "cluster"):
            raise ValueError(
                f"{text!r} is no TriggerAuthentication: write NAME, or cluster/NAME for one of the cluster"
            )
        return cls(name, "ClusterTriggerAuthentication" if slash else "TriggerAuthentication")


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A PromQL query beside the floor: replicas = ⌈value / threshold⌉, active above `activation`."""

    server: str
    query: str
    threshold: str
    activation: str = "0"


@dataclass(frozen=True, slots=True)
class Settings:
    """How our ScaledObjects are made.

    `scaler` is the scaler's HOST:PORT as KEDA reaches it. `polling_s`: how often KEDA asks; it bounds how late a fall
    to zero is, and a rise whose push was lost; each poll of an active service is a write of its status. `cooldown_s`:
    how long a floor of 0 must stand before KEDA goes to zero; short, as the floor has waited for idleness itself.
    `exact_hpa`: the API server takes an HPA's tolerance (Kubernetes ≥ 1.35), so that floors above 9 are exact too.
    """

    scaler: str
    authentication: Authentication | None = None
    polling_s: int = 10
    cooldown_s: int = 10
    exact_hpa: bool = False
    prometheus: Mapping[str, Prometheus] = field(default_factory=dict)


def takes_tolerance(version: Json) -> bool:
    """Whether an API server of this /version lets an HPA set its tolerance: by default since 1.35 (KEP 4951)."""
    digits = re.match(r"\d+", str(version.get("minor", "")))  # GKE and EKS write 35+
    return str(version.get("major")) == "1" and digits is not None and int(digits[0]) >= 35


def name_of(service: Inference) -> str:
    """Name of its ScaledObject; a long one keeps its beginning and gets a hash, so that two never share one."""
    plain = service.id.name + SUFFIX
    if len(plain) <= _LONGEST_NAME:
        return plain
    digest = hashlib.sha256(service.id.name.encode()).hexdigest()[:8]
    return f"{service.id.name[: _LONGEST_NAME - len(SUFFIX) - 9]}-{digest}{SUFFIX}"


def manifest(service: Inference, settings: Settings, most: int | None = None) -> dict[str, Any]:
    """The ScaledObject. `most`: the policy's bounds.max, which stands where maxReplicas sets no limit."""
    spec = _spec(service, settings, most)
    digest = hashlib.sha256(json.dumps([service.uid, spec], sort_keys=True).encode()).hexdigest()
    return {
        "apiVersion": SCALED_OBJECTS.api_version,
        "kind": SCALED_OBJECTS.kind,
        "metadata": {
            "name": name_of(service),
            "namespace": service.id.namespace,
            "labels": {MANAGED_BY: OURS},
            "annotations": {APPLIED: digest[:16]},
            # Deleted with its InferenceService, by Kubernetes itself, whether we live or not.
            "ownerReferences": [
                {
                    "apiVersion": INFERENCE_SERVICES.api_version,
                    "kind": INFERENCE_SERVICES.kind,
                    "name": service.id.name,
                    "uid": service.uid,
                }
            ],
        },
        "spec": spec,
    }


def _spec(service: Inference, settings: Settings, most: int | None) -> dict[str, Any]:
    prometheus = settings.prometheus.get(str(service.id))
    return {
        "scaleTargetRef": {"name": service.deployment},
        "minReplicaCount": service.least,
        "maxReplicaCount": service.most or max(most or MOST, service.least),
        "pollingInterval": settings.polling_s,
        "cooldownPeriod": settings.cooldown_s,
        "triggers": [_ours(service, settings), *([_query(prometheus)] if prometheus else [])],
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": _behavior(settings, prometheus is not None)}},
    }


def _ours(service: Inference, settings: Settings) -> dict[str, Any]:
    metadata = {"scalerAddress": settings.scaler, "service": service.id.name}
    if settings.exact_hpa:
        metadata["tolerance"] = "0"
    trigger: dict[str, Any] = {"type": "external-push", "metadata": metadata}
    if settings.authentication is not None:
        trigger["authenticationRef"] = {"name": settings.authentication.name, "kind": settings.authentication.kind}
    return trigger


def _query(prometheus: Prometheus) -> dict[str, Any]:
    return {
        "type": "prometheus",
        "metadata": {
            "serverAddress": prometheus.server,
            "query": prometheus.query,
            "threshold": prometheus.threshold,
            "activationThreshold": prometheus.activation,
            # Absent is not zero: without a value KEDA changes nothing.
            "ignoreNullValues": "false",
        },
    }


def _behavior(settings: Settings, beside_query: bool) -> dict[str, Any]:
    """A floor is carried out at once: it is a decision already, and has waited where waiting was due.

    By default an HPA adds 4 pods or as many again in 15 s, and waits 5 minutes before it takes any away. The latter
    stays where a query has a say as well, which may flutter.
    """
    up: dict[str, Any] = {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 10_000, "periodSeconds": 15}],
    }
    down: dict[str, Any] = {} if beside_query else {"stabilizationWindowSeconds": 0}
    if settings.exact_hpa:
        up["tolerance"] = down["tolerance"] = "0"
    return {"scaleUp": up, **({"scaleDown": down} if down else {})}
