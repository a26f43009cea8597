"""What is kept of an InferenceService, a ScaledObject and a HorizontalPodAutoscaler, from their JSON. Pure."""

from dataclasses import dataclass
from typing import Any

from activator_ext.adapters.kubernetes.resource import Json, Resource
from activator_ext.core.model import ServiceId

SCALED_OBJECTS = Resource("keda.sh", "v1alpha1", "scaledobjects", "ScaledObject")
AUTOSCALERS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")

MODE = "serving.kserve.io/deploymentMode"
CLASS = "serving.kserve.io/autoscalerClass"
STOP = "serving.kserve.io/stop"
PAUSED = ("autoscaling.keda.sh/paused", "autoscaling.keda.sh/paused-replicas")
APPLIED = "pilotlight.dev/applied"
"""On what is ours: a digest of what was applied, so that what is no longer wanted is noticed as well."""
MANAGED_BY = "app.kubernetes.io/managed-by"
OURS = "pilotlight"
"""Value of MANAGED_BY on what is ours, and the field manager that we apply with."""

_STANDARD = frozenset({"Standard", "RawDeployment"})


@dataclass(frozen=True, slots=True)
class Inference:
    """One InferenceService as far as it matters here.

    `standard` None: its mode is not known yet. `autoscaler` is the class as KServe reads it, hpa where none is written
    (`stated` False). `most` None: maxReplicas sets no limit.
    """

    id: ServiceId
    uid: str
    standard: bool | None
    autoscaler: str
    stated: bool
    least: int
    most: int | None
    stopped: bool = False
    deleting: bool = False

    @property
    def deployment(self) -> str:
        """Name of the Deployment that KServe makes of its predictor."""
        return f"{self.id.name}-predictor"


def inference(value: Json) -> Inference:
    """From an InferenceService's JSON; minReplicas absent is 1 to KServe, maxReplicas 0 or absent no limit."""
    metadata = value["metadata"]
    annotations = metadata.get("annotations") or {}
    predictor = (value.get("spec") or {}).get("predictor") or {}
    # What KServe made of annotation, configmap and default; the annotation only until it has.
    mode = (value.get("status") or {}).get("deploymentMode") or annotations.get(MODE)
    least = predictor.get("minReplicas")
    return Inference(
        id=ServiceId(metadata["namespace"], metadata["name"]),
        uid=metadata["uid"],
        standard=None if mode is None else mode in _STANDARD,
        autoscaler=annotations.get(CLASS) or "hpa",
        stated=bool(annotations.get(CLASS)),
        least=1 if least is None else least,
        most=predictor.get("maxReplicas") or None,
        stopped=str(annotations.get(STOP, "")).lower() == "true",
        deleting="deletionTimestamp" in metadata,
    )


@dataclass(frozen=True, slots=True)
class Scaled:
    """One ScaledObject. `target`: the Deployment it scales, None where that is something else; `spec` of ours only."""

    name: str
    target: str | None
    ours: bool
    owners: frozenset[str]
    spec: Json
    generation: int
    applied: str = ""
    paused: bool = False
    deleting: bool = False
    trouble: str = ""


def scaled(value: Json) -> Scaled:
    """From a ScaledObject's JSON. `trouble`: what KEDA says in its condition Ready, where that is False."""
    metadata, spec = value["metadata"], value.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    ours = (metadata.get("labels") or {}).get(MANAGED_BY) == OURS
    return Scaled(
        name=metadata["name"],
        target=_deployment(spec.get("scaleTargetRef") or {}),
        ours=ours,
        owners=frozenset(owner["uid"] for owner in metadata.get("ownerReferences") or ()),
        spec=spec if ours else {},
        generation=metadata.get("generation", 0),
        applied=annotations.get(APPLIED, ""),
        paused=any(annotations.get(key, "false") != "false" for key in PAUSED),
        deleting="deletionTimestamp" in metadata,
        trouble=_trouble(value),
    )


@dataclass(frozen=True, slots=True)
class Autoscaler:
    """One HorizontalPodAutoscaler. `owner` is KIND/NAME of the object that made it, empty where a person did."""

    name: str
    target: str | None
    owner: str


def autoscaler(value: Json) -> Autoscaler:
    """From a HorizontalPodAutoscaler's JSON."""
    metadata = value["metadata"]
    owners = metadata.get("ownerReferences") or ()
    made_by = next((owner for owner in owners if owner.get("controller")), None)
    return Autoscaler(
        name=metadata["name"],
        target=_deployment((value.get("spec") or {}).get("scaleTargetRef") or {}),
        owner=f"{made_by['kind']}/{made_by['name']}" if made_by else "",
    )


def _deployment(reference: Json) -> str | None:
    # To KEDA a target without a kind is a Deployment.
    return reference.get("name") if reference.get("kind", "Deployment") == "Deployment" else None


def _trouble(value: Json) -> str:
    conditions: list[Any] = (value.get("status") or {}).get("conditions") or []
    for condition in conditions:
        if condition.get("type") == "Ready" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "not ready")
    return ""
