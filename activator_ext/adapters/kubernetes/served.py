"""InferenceService and LLMInferenceService objects → what policies need of a service: its name and its own bounds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from activator_ext.adapters.local.inference import Predictor
from activator_ext.core.model import ServiceId

_MOST = 10_000
"""Most replicas that a policy may ask for, and so the most that count."""


@dataclass(frozen=True)
class Served:
    """A service of the cluster. `predictor`: minReplicas, maxReplicas and containerConcurrency, nothing else."""

    id: ServiceId
    kind: str
    predictor: Predictor

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> "Served":
        """From the object as the API gives it. What is none of these numbers counts as absent: KServe judges it."""
        kind, metadata = str(item.get("kind", "InferenceService")), item["metadata"]
        service = ServiceId(str(metadata["namespace"]), str(metadata["name"]))
        spec = _mapping(item.get("spec"))
        numbers = _llm(spec) if kind == "LLMInferenceService" else _predictor(_mapping(spec.get("predictor")))
        return cls(service, kind, Predictor.model_validate(numbers))


def _predictor(predictor: Mapping[str, Any]) -> dict[str, int]:
    keys = ("minReplicas", "maxReplicas", "containerConcurrency")
    return {key: number for key in keys if (number := _whole(predictor.get(key))) is not None}


def _llm(spec: Mapping[str, Any]) -> dict[str, int]:
    """Of an LLMInferenceService, whose `replicas` are fixed unless it has `scaling`; with neither, none are asked."""
    scaling = _mapping(spec.get("scaling"))
    least = _whole(scaling.get("minReplicas"))
    most = _whole(scaling.get("maxReplicas"))
    fixed = None if scaling else _whole(spec.get("replicas"))
    if fixed is not None:
        return {"minReplicas": fixed, "maxReplicas": fixed}
    return {"minReplicas": least or 0, "maxReplicas": most or 0}


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return min(value, _MOST)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
