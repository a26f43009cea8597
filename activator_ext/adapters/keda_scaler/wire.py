"""The messages of KEDA's service `externalscaler.ExternalScaler`, as dataclasses of ours, to and from their bytes.

The numbers are those of KEDA's externalscaler.proto (2.20), described here once; protobuf makes the codec of it. Fields
that KEDA adds later are skipped by it, so an older scaler serves a newer KEDA.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

SERVICE = "externalscaler.ExternalScaler"
"""Full name of the service, the first part of each call's path."""

_Field = descriptor_pb2.FieldDescriptorProto
_STRING, _BOOL, _INT64, _DOUBLE = _Field.TYPE_STRING, _Field.TYPE_BOOL, _Field.TYPE_INT64, _Field.TYPE_DOUBLE
# Message → (field, number, type or the message's name, repeated).
_MESSAGES: Mapping[str, tuple[tuple[str, int, int | str, bool], ...]] = {
    "ScaledObjectRef": (
        ("name", 1, _STRING, False),
        ("namespace", 2, _STRING, False),
        ("scalerMetadata", 3, "ScaledObjectRef.ScalerMetadataEntry", True),
    ),
    "IsActiveResponse": (("result", 1, _BOOL, False),),
    "GetMetricSpecResponse": (("metricSpecs", 1, "MetricSpec", True),),
    "MetricSpec": (
        ("metricName", 1, _STRING, False),
        ("targetSize", 2, _INT64, False),
        ("targetSizeFloat", 3, _DOUBLE, False),
    ),
    "GetMetricsRequest": (
        ("scaledObjectRef", 1, "ScaledObjectRef", False),
        ("metricName", 2, _STRING, False),
    ),
    "GetMetricsResponse": (("metricValues", 1, "MetricValue", True),),
    "MetricValue": (
        ("metricName", 1, _STRING, False),
        ("metricValue", 2, _INT64, False),
        ("metricValueFloat", 3, _DOUBLE, False),
    ),
}


def _describe() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="pilotlight/externalscaler.proto", package="externalscaler", syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            added = message.field.add(
                name=field, number=number, label=_Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
            )
            if isinstance(kind, str):
                added.type, added.type_name = _Field.TYPE_MESSAGE, f".externalscaler.{kind}"
            else:
                added.type = _Field.Type.ValueType(kind)
    # What `map<string, string>` is on the wire.
    entry = file.message_type[0].nested_type.add(name="ScalerMetadataEntry")
    entry.options.map_entry = True
    for field, number in (("key", 1), ("value", 2)):
        entry.field.add(name=field, number=number, type=_STRING, label=_Field.LABEL_OPTIONAL)
    return file


# A pool of its own: another library in this process may carry KEDA's file under the same names.
_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_describe())
_CLASSES: Mapping[str, Any] = {
    name: message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"externalscaler.{name}")) for name in _MESSAGES
}


class NotUnderstood(ValueError):
    """The bytes are no such message."""


@dataclass(frozen=True, slots=True)
class ScaledObjectRef:
    """Which ScaledObject asks; `metadata` is that of its trigger, as KEDA hands it on."""

    name: str
    namespace: str
    metadata: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class MetricsRequest:
    """One metric of one ScaledObject is asked for."""

    ref: ScaledObjectRef
    metric: str


def read_ref(data: bytes) -> ScaledObjectRef:
    """The request of every call but GetMetrics. Raises NotUnderstood."""
    return _ref(_parsed("ScaledObjectRef", data))


def read_metrics_request(data: bytes) -> MetricsRequest:
    """The request of GetMetrics. Raises NotUnderstood."""
    message = _parsed("GetMetricsRequest", data)
    return MetricsRequest(_ref(message.scaledObjectRef), message.metricName)


def active_response(active: bool) -> bytes:
    """The answer of IsActive, and one item of StreamIsActive."""
    return _bytes("IsActiveResponse", result=active)


def metric_spec_response(metric: str, target: float) -> bytes:
    """The answer of GetMetricSpec: one metric and its target for each replica, > 0."""
    # Both fields, as KEDA before 2.8 reads the whole number only; a newer one takes the second where it is > 0.
    spec = _CLASSES["MetricSpec"](metricName=metric, targetSize=max(1, round(target)), targetSizeFloat=target)
    return _bytes("GetMetricSpecResponse", metricSpecs=[spec])


def metrics_response(metric: str, value: float) -> bytes:
    """The answer of GetMetrics: one metric's value, ≥ 0."""
    measured = _CLASSES["MetricValue"](metricName=metric, metricValue=round(value), metricValueFloat=value)
    return _bytes("GetMetricsResponse", metricValues=[measured])


def _parsed(name: str, data: bytes) -> Any:
    try:
        return _CLASSES[name].FromString(data)
    except DecodeError as error:
        raise NotUnderstood(f"these {len(data)} bytes are no {name}") from error


def _ref(message: Any) -> ScaledObjectRef:
    return ScaledObjectRef(message.name, message.namespace, dict(message.scalerMetadata))


def _bytes(name: str, **fields: Any) -> bytes:
    data: bytes = _CLASSES[name](**fields).SerializeToString()
    return data
