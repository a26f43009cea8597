"""What one InferenceService in Standard mode needs of us, and what to tell of it. Pure.

Only `autoscalerClass: external` is ours: of every other class KServe is, or nobody is to be, the autoscaler, and what
to change is told. Where somebody else scales the same Deployment we step aside, and come back when it is gone: two
autoscalers on one target undo one another, and Kubernetes stops both where it finds two HPAs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from activator_ext.adapters.kubernetes.resource import Json
from activator_ext.adapters.standard.manifest import Settings, manifest, name_of
from activator_ext.adapters.standard.objects import APPLIED, CLASS, PAUSED, Autoscaler, Inference, Scaled


class Standing(StrEnum):
    """How a service stands in Standard mode: the reason of its condition."""

    NOT_STANDARD = "NotStandard"
    MODE_UNKNOWN = "ModeUnknown"
    WRONG_CLASS = "WrongAutoscalerClass"
    CONFLICT = "AnotherAutoscaler"
    NAME_TAKEN = "NameTaken"
    BOUNDS = "BoundsContradict"
    STOPPED = "Stopped"
    NO_DEPLOYMENT = "NoDeployment"
    PAUSED = "Paused"
    KEDA_TROUBLE = "KedaTrouble"
    SCALED = "Scaled"


_FINE = frozenset({Standing.SCALED, Standing.NOT_STANDARD})


@dataclass(frozen=True, slots=True)
class Seen:
    """What stands in the service's namespace. `deployment`: whether its Deployment exists."""

    deployment: bool
    scaled: Sequence[Scaled] = ()
    autoscalers: Sequence[Autoscaler] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do: apply this ScaledObject (None: nothing), remove those of ours; and how the service stands.

    `message` says why, and what to change where something is to be. `over`: the generation of the ScaledObject that
    `apply` was decided on, 0 where there was none.
    """

    standing: Standing
    message: str
    apply: dict[str, Any] | None = None
    remove: tuple[str, ...] = ()
    over: int = 0

    @property
    def fine(self) -> bool:
        """Whether nobody needs to change anything."""
        return self.standing in _FINE


def plan(service: Inference, seen: Seen, settings: Settings, most: int | None = None) -> Plan:
    """What `service` needs now. `most`: its policy's bounds.max, None without one."""
    ours = [each for each in seen.scaled if each.ours and service.uid in each.owners]
    reason = _hindrance(service, seen)
    if reason is not None:
        standing, message = reason
        gone = tuple(each.name for each in ours if not each.deleting)
        return Plan(standing, message, remove=() if service.deleting or standing is Standing.MODE_UNKNOWN else gone)
    wanted = manifest(service, settings, most)
    name = wanted["metadata"]["name"]
    live = next((each for each in seen.scaled if each.name == name), None)
    others = tuple(each.name for each in ours if each.name != name and not each.deleting)
    if live is not None and not live.ours:
        message = f"a ScaledObject {name} exists that is not ours: rename or delete it"
        return Plan(Standing.NAME_TAKEN, message, remove=others)
    if live is not None and live.deleting:
        return Plan(Standing.SCALED, f"ScaledObject {name} is being deleted, then made anew", remove=others)
    changed = live is None or service.uid not in live.owners or not _stands(live, wanted)
    standing, message = _how(live, name)
    over = live.generation if live is not None else 0
    return Plan(standing, message, apply=wanted if changed else None, remove=others, over=over)


def _stands(live: Scaled, wanted: Json) -> bool:
    """Whether what we want was applied, and stands: the digest tells what we want no more, the spec what others did."""
    return live.applied == wanted["metadata"]["annotations"][APPLIED] and _within(wanted["spec"], live.spec)


def _within(wanted: Any, live: Any) -> bool:
    """Whether all that is wanted stands there; keys beside it are others' (KEDA writes some of its defaults out)."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(_within(value, live.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(live, list) and len(wanted) == len(live) and all(map(_within, wanted, live))
    return bool(wanted == live)


def _hindrance(service: Inference, seen: Seen) -> tuple[Standing, str] | None:
    """Why we scale nothing of it, None if nothing stands against it."""
    if service.standard is None:
        return Standing.MODE_UNKNOWN, "KServe has not said its deployment mode yet: it is waited for"
    if not service.standard:
        return Standing.NOT_STANDARD, "it is not in Standard mode"
    if service.autoscaler != "external":
        return Standing.WRONG_CLASS, _class(service)
    if service.stopped or service.deleting:
        return Standing.STOPPED, "it is being deleted" if service.deleting else "it is stopped by its annotation"
    other = _other(service, seen)
    if other is not None:
        return Standing.CONFLICT, other
    if service.most is not None and service.least > service.most:
        fix = "raise maxReplicas, or lower minReplicas"
        return Standing.BOUNDS, f"minReplicas {service.least} is more than maxReplicas {service.most}: {fix}"
    if not seen.deployment:
        return Standing.NO_DEPLOYMENT, f"its Deployment {service.deployment} is not there yet: it is waited for"
    return None


def _class(service: Inference) -> str:
    """What its class means, and what to change: the annotation is part of the pods, so they are replaced once."""
    does = {
        "hpa": "an HPA of KServe's scales it, and never to zero",
        "keda": "a ScaledObject of KServe's scales it, whose triggers it rewrites",
        "none": "KServe keeps it at minReplicas",
    }.get(service.autoscaler, "KServe does not know that class")
    stated = f"autoscalerClass {service.autoscaler}" if service.stated else "it has no autoscalerClass, so hpa"
    return f"{stated}: {does}; set {CLASS}: external for floors (its pods are replaced once)"


def _other(service: Inference, seen: Seen) -> str | None:
    """Who else scales its Deployment, and what to do."""
    target = service.deployment
    mine = name_of(service)
    for each in seen.scaled:
        if each.target == target and not each.deleting and not _of(service, each):
            return f"ScaledObject {each.name} scales {target} too: delete it, or leave the service to it (class keda)"
    for hpa in seen.autoscalers:
        if hpa.target == target and not _by_keda_for_us(hpa, mine, seen):
            by = f" of {hpa.owner}" if hpa.owner else ""
            return f"HorizontalPodAutoscaler {hpa.name}{by} scales {target} too: delete it"
    return None


def _of(service: Inference, each: Scaled) -> bool:
    """Whether a ScaledObject is the one of this service; a copy of it that somebody made is not."""
    return each.ours and (service.uid in each.owners or each.name == name_of(service))


def _by_keda_for_us(hpa: Autoscaler, mine: str, seen: Seen) -> bool:
    """Whether KEDA made this HPA for a ScaledObject of ours, also for one that is just gone."""
    kind, _, name = hpa.owner.partition("/")
    return kind == "ScaledObject" and (name == mine or any(each.ours and each.name == name for each in seen.scaled))


def _how(live: Scaled | None, name: str) -> tuple[Standing, str]:
    if live is None:
        return Standing.SCALED, f"ScaledObject {name} is made"
    if live.paused:
        fix = f"remove {PAUSED[0]} or {PAUSED[1]}"
        return Standing.PAUSED, f"ScaledObject {name} is paused by annotation, so KEDA scales nothing: {fix}"
    if live.trouble:
        return Standing.KEDA_TROUBLE, f"KEDA says of ScaledObject {name}: {live.trouble}"
    return Standing.SCALED, f"ScaledObject {name} scales it to the floor"
