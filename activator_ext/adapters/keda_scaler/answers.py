"""Floors in the terms of KEDA and of the HorizontalPodAutoscaler (HPA): the arithmetic, pure.

KEDA takes 0 → 1 and 1 → 0 by `active`; everything above is the HPA's, from the metric. For an external metric of type
AverageValue with target 1 (kubernetes/kubernetes, pkg/controller/podautoscaler/replica_calculator.go, 1.35) it does

    ratio = value / current;  within [1 − t, 1 + t]: replicas stay;  else replicas = ⌈value⌉

where t is its tolerance, 0.1 unless the cluster or the HPA says otherwise. So ⌈value⌉ must be the floor n, *and* the
ratio must leave the tolerance from every other number of replicas. The nearest ones bind:

    raised from n − 1:    value > low  = (1 + t)(n − 1)
    lowered from n + 1:   value < high = (1 − t)(n + 1)
    ⌈value⌉ = n:          n − 1 < value ≤ n

Worked with t = 0.1: n = 2 lies between 1.1 and 2.7 → 2. n = 9: 8.8 and 9.0 → 8.9 (9 would leave 10 replicas alone).
n = 10: 9.9 and 9.9 leave nothing; a floor is the *least* number, so 10, which raises 9 and leaves 11 alone. n = 11:
above 11.0, so 11.002: 12 replicas. From 10 on no value is exact; this one is never too few, and too many by at most t
of the floor when raised, 2t/(1 − t) when lowered: an HPA leaves those alone. With t = 0 (Kubernetes ≥ 1.35,
`behavior.scaleUp.tolerance` and `scaleDown.tolerance` of the HPA) n itself is exact for every n.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from activator_ext.adapters.keda_scaler.wire import ScaledObjectRef
from activator_ext.core.model import ServiceId

METRIC = "pilotlight-floor"
"""Name of our one metric; the HPA shows it as s0-pilotlight-floor."""
TARGET = 1.0
"""Target for each replica: the metric counts replicas."""
TOLERANCE = 0.1
"""An HPA's tolerance where nobody set another (kube-controller-manager --horizontal-pod-autoscaler-tolerance)."""
MAX_REPLICAS = 100_000
"""More than any cluster runs; above it a number is a mistake."""

# KEDA resolves metricValue to thousandths; two of them keep a strict bound strict after rounding.
_STEP = 0.002
# Keys of a trigger that are KEDA's own: it hands the whole metadata on.
_KEDAS = frozenset(
    ["scalerAddress", "enableTLS", "unsafeSsl", "caCert", "tlsClientCert", "tlsClientKey", "tlsCertFile"]
)
_OURS = frozenset(["service", "tolerance"])
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)


class BadTrigger(ValueError):
    """The metadata of a ScaledObject's trigger cannot be used; the message names the key and the fix."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a trigger asks for: one service's floor, for an HPA of this tolerance (0 ≤ tolerance < 1)."""

    service: ServiceId
    tolerance: float = TOLERANCE


def metric_value(floor: int, tolerance: float = TOLERANCE) -> float:
    """The metric by which an HPA wants `floor` replicas (0 ≤ floor), exactly where any value can do that.

    Never fewer than `floor`, however many run now.
    """
    if floor == 0:
        return 0.0
    raises = (1 + tolerance) * (floor - 1) + _STEP
    lowers = (1 - tolerance) * (floor + 1) - _STEP
    if raises > floor:
        return round(raises, 3)
    if floor <= lowers or raises >= lowers:
        return float(floor)
    return round((raises + lowers) / 2, 3)


def wanted_by_hpa(value: float, current: int, tolerance: float = TOLERANCE) -> int:
    """What an HPA makes of `value` with `current` ≥ 1 replicas, before its bounds: what the values are proven on."""
    usage = round(value * 1000)
    ratio = usage / (1000 * current)
    if 1.0 - tolerance <= ratio <= 1.0 + tolerance:
        return current
    return math.ceil(usage / 1000)


def question(ref: ScaledObjectRef) -> Question:
    """What the trigger of a ScaledObject asks for. Raises BadTrigger.

    A service is looked for in the ScaledObject's own namespace only: who may write there may not read, or be scaled by,
    the floors of others.
    """
    _check_keys(ref.metadata)
    service = ref.metadata.get("service", "")
    namespace, slash, name = service.rpartition("/")
    if not service:
        raise BadTrigger("the trigger names no service: write metadata.service, the name of the InferenceService")
    if slash and namespace != ref.namespace:
        raise BadTrigger(
            f"service {service!r} is not in the ScaledObject's namespace {ref.namespace!r}: make the ScaledObject there"
        )
    if not _NAME.fullmatch(name) or not ref.namespace:
        raise BadTrigger(f"service {service!r} is no name of an InferenceService: write metadata.service: NAME")
    return Question(ServiceId(ref.namespace, name), _tolerance(ref.metadata))


def _check_keys(metadata: Mapping[str, str]) -> None:
    for key in metadata:
        if key not in _KEDAS | _OURS:
            raise BadTrigger(f"the trigger has an unknown key {key!r}: it takes {', '.join(sorted(_OURS))}")


def _tolerance(metadata: Mapping[str, str]) -> float:
    text = metadata.get("tolerance", "")
    if not text:
        return TOLERANCE
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1:
        raise BadTrigger(f"tolerance {text!r} is no number from 0 to 1: write the HPA's, such as '0' or '0.1'")
    return value
