"""What is kept of Knative's objects, and how it is read from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from activator_ext.adapters.kubernetes.apply import MANAGER, owners
from activator_ext.adapters.kubernetes.resource import Json, Key
from activator_ext.core.model import ServiceId

MIN_SCALE = "autoscaling.knative.dev/min-scale"
# What Knative took before 0.27 and still reads.
OLD_MIN_SCALE = "autoscaling.knative.dev/minScale"
MAX_SCALE = "autoscaling.knative.dev/max-scale"
OLD_MAX_SCALE = "autoscaling.knative.dev/maxScale"
CLASS = "autoscaling.knative.dev/class"
KPA = "kpa.autoscaling.knative.dev"

INFERENCE_SERVICE = "serving.kserve.io/inferenceservice"
REVISION = "serving.knative.dev/revision"
COMPONENT = "component"
PREDICTOR = "predictor"

_WAS = f"{MANAGER}/was="


class Scheme(StrEnum):
    """On which object a floor is written: Knative ≥ 1.21 copies a Revision's min-scale to its PodAutoscaler."""

    REVISION = "revision"
    POD_AUTOSCALER = "pod-autoscaler"


def manager_over(was: int | None) -> str:
    """The field manager of a floor over a min-scale that was `was` (None: not set): what to write when it is lowered.

    So floor and what it covers are one record, written at once. An annotation of our own would restart the pods.
    """
    return MANAGER if was is None else f"{_WAS}{was}"


@dataclass(frozen=True, slots=True)
class Held:
    """Our record of a floor: `was` is the min-scale that it covers (None: there was none), `at` its last change."""

    manager: str
    was: int | None
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Scaled:
    """A Revision or PodAutoscaler, both named as the Revision.

    `max_scale` 0: no limit. `held`: our floor on it. `foreign`: who else than Knative and we holds its min-scale.
    `version` moves with each edit and is no difference.
    """

    key: Key
    uid: str
    service: ServiceId | None
    min_scale: int | None = None
    max_scale: int = 0
    held: Held | None = None
    foreign: str | None = None
    kpa: bool = True
    version: str = field(default="", compare=False)

    @property
    def base(self) -> int | None:
        """The min-scale without us: the user's minReplicas."""
        return self.held.was if self.held is not None else self.min_scale


@dataclass(frozen=True, slots=True)
class Route:
    """A part of a service's traffic: `percent` of it to `revision`. `latest`: to whichever is the newest ready one."""

    revision: str
    percent: int
    latest: bool


@dataclass(frozen=True, slots=True)
class Routed:
    """A Knative Service made for an InferenceService. `latest_ready` "": no Revision of it was ever ready."""

    key: Key
    service: ServiceId
    latest_ready: str
    traffic: tuple[Route, ...]


def routed(seen: Json) -> Routed | None:
    """A Knative Service of a predictor; None for others, and for one that is being deleted."""
    metadata, status = seen["metadata"], seen.get("status") or {}
    service = _service(metadata)
    if service is None or metadata.get("deletionTimestamp"):
        return None
    traffic = tuple(
        Route(str(part.get("revisionName") or ""), int(part.get("percent") or 0), bool(part.get("latestRevision")))
        for part in status.get("traffic") or ()
    )
    return Routed(_key(metadata), service, str(status.get("latestReadyRevisionName") or ""), traffic)


def scaled(seen: Json) -> Scaled | None:
    """A Revision or PodAutoscaler; None for one that is being deleted, where nothing is to be done any more."""
    metadata = seen["metadata"]
    if metadata.get("deletionTimestamp"):
        return None
    annotations: Mapping[str, Any] = metadata.get("annotations") or {}
    held, foreign = None, None
    for owner in owners(metadata, ("metadata", "annotations", MIN_SCALE)):
        if owner.applied and owner.manager.startswith(MANAGER):
            held = Held(owner.manager, _was(owner.manager), owner.at)
        elif not owner.maker:
            foreign = owner.manager
    return Scaled(
        key=_key(metadata),
        uid=str(metadata["uid"]),
        service=_service(metadata),
        min_scale=_number(annotations, MIN_SCALE, OLD_MIN_SCALE),
        max_scale=_number(annotations, MAX_SCALE, OLD_MAX_SCALE) or 0,
        held=held,
        foreign=foreign,
        kpa=annotations.get(CLASS, KPA) == KPA,
        version=str(metadata.get("resourceVersion") or ""),
    )


def replicas(seen: Json) -> int | None:
    """How many pods a Revision's Deployment is told to have (its default is 1); None for other Deployments."""
    if REVISION not in (seen["metadata"].get("labels") or {}):
        return None
    wanted = (seen.get("spec") or {}).get("replicas")
    return 1 if wanted is None else int(wanted)


def deployment_of(revision: Key) -> Key:
    """Where the Deployment of a Revision is."""
    return Key(revision.namespace, f"{revision.name}-deployment")


def _service(metadata: Json) -> ServiceId | None:
    labels = metadata.get("labels") or {}
    name = labels.get(INFERENCE_SERVICE)
    if not name or labels.get(COMPONENT, PREDICTOR) != PREDICTOR:
        return None
    return ServiceId(str(metadata.get("namespace") or ""), str(name))


def _key(metadata: Json) -> Key:
    return Key(str(metadata.get("namespace") or ""), str(metadata["name"]))


def _number(annotations: Mapping[str, Any], *names: str) -> int | None:
    """The first of these annotations that is there. What is no number is as good as none: Knative refuses it."""
    for name in names:
        text = annotations.get(name)
        if isinstance(text, str):
            return int(text) if text.isdecimal() else None
    return None


def _was(manager: str) -> int | None:
    text = manager.removeprefix(_WAS)
    return int(text) if manager.startswith(_WAS) and text.isdecimal() else None
