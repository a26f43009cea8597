"""InferenceService and (Cluster)ServingRuntime of KServe: the fields honoured here.

Which others exist, valid and without effect here, `cluster_fields` knows by each model's `kind_in_cluster`.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from activator_ext.adapters.local.cluster_fields import fields_of, is_quantity
from activator_ext.adapters.local.findings import quoted
from activator_ext.adapters.local.metadata import Metadata, RuntimeName, ServiceMetadata
from activator_ext.adapters.local.schema import Strict
from activator_ext.adapters.local.wording import wrong_shape

OLD_FORMS = frozenset(
    ["sklearn", "xgboost", "tensorflow", "pytorch", "triton", "onnx", "huggingface", "pmml", "lightgbm", "paddle"]
)
"""Keys of a predictor that name a framework, each with a server of its own; `model` is the form since KServe 0.8."""


# What Kubernetes takes and an operating system can be given: printable, and no "=".
_VARIABLE = re.compile(r"[ -<>-~]{1,256}", re.ASCII)


def _variable(text: str) -> str:
    if not _VARIABLE.fullmatch(text):
        raise ValueError(f"{quoted(text)} is not the name of a variable", "Use letters, digits and _ (at most 256).")
    return text


def _quantity(value: Any) -> str:
    if not is_quantity(value):
        raise ValueError(*wrong_shape(value, "quantity", None))
    return str(value)


VariableName = Annotated[str, AfterValidator(_variable)]
"""Name of an environment variable."""
Quantity = Annotated[str, BeforeValidator(_quantity)]
"""An amount of a resource, as text."""


class ValueFromEnv(Strict):
    """One environment variable; a value that a cluster would look up is not known here."""

    kind_in_cluster: ClassVar[str] = "V1EnvVar"
    notes: ClassVar[Mapping[str, str]] = {"valueFrom": "Give the variable a value, or set it where pilotlight runs."}
    name: VariableName
    value: str | None = None


class Resources(Strict):
    """Only `nvidia.com/gpu` is looked at: processor and memory are not limited here."""

    kind_in_cluster: ClassVar[str] = "V1ResourceRequirements"
    silent: ClassVar[frozenset[str]] = frozenset({"claims"})
    requests: dict[str, Quantity] = Field(default_factory=dict)
    limits: dict[str, Quantity] = Field(default_factory=dict)


class ContainerFields(Strict):
    """What containers of runtimes and predictors share. Probes and ports are the launcher's own here."""

    notes: ClassVar[Mapping[str, str]] = {"envFrom": "Write the variables under env."}
    silent: ClassVar[frozenset[str]] = frozenset(
        [
            "imagePullPolicy",
            "ports",
            "readinessProbe",
            "livenessProbe",
            "startupProbe",
            "stdin",
            "stdinOnce",
            "tty",
            "terminationMessagePath",
            "terminationMessagePolicy",
        ]
    )
    image: str | None = None
    command: list[str] = Field(default_factory=list)
    args: list[str] = Field(default_factory=list)
    env: list[ValueFromEnv] = Field(default_factory=list)
    resources: Resources = Resources()


class Container(ContainerFields):
    """A container of a runtime or of a custom predictor."""

    kind_in_cluster: ClassVar[str] = "V1Container"
    name: str | None = None


class ModelFormat(Strict):
    """What kind of model it is: chooses the runtime."""

    kind_in_cluster: ClassVar[str] = "V1beta1ModelFormat"
    name: str
    version: str | None = None


class ModelSpec(ContainerFields):
    """`predictor.model`: the model, and what is laid over the runtime's container."""

    kind_in_cluster: ClassVar[str] = "V1beta1ModelSpec"
    notes: ClassVar[Mapping[str, str]] = {
        **ContainerFields.notes,
        "storage": "Use storageUri, or --model=s3://… in args.",
        "runtimeVersion": "The vLLM installed here is run.",
    }
    silent: ClassVar[frozenset[str]] = ContainerFields.silent | {"protocolVersion"}
    name: str | None = None
    model_format: ModelFormat
    runtime: RuntimeName | None = None
    storage_uri: str | None = None


class Predictor(Strict):
    """`spec.predictor`."""

    kind_in_cluster: ClassVar[str] = "V1beta1PredictorSpec"
    notes: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("scaleTarget", "scaleMetric", "scaleMetricType", "autoScaling"), "Write queue.target in a PrewarmPolicy."
        ),
        "storageUris": "Use model.storageUri.",
        "timeout": "The portal's own limits hold here.",
    }
    # OLD_FORMS: where they make a difference, `services` says so as an error.
    silent: ClassVar[frozenset[str]] = frozenset({"labels"}) | OLD_FORMS
    min_replicas: Annotated[int, Field(ge=0, le=10_000)] | None = None
    max_replicas: Annotated[int, Field(ge=0, le=10_000)] = 0
    container_concurrency: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    annotations: dict[str, str] = Field(default_factory=dict)
    model: ModelSpec | None = None
    containers: list[Container] = Field(default_factory=list)


class InferenceServiceSpec(Strict):
    """`spec` of an InferenceService."""

    kind_in_cluster: ClassVar[str] = "V1beta1InferenceServiceSpec"
    notes: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("transformer", "explainer"), "Requests go to the predictor directly."),
        "canary": "Requests go to spec.predictor only.",
    }
    predictor: Predictor


class InferenceService(Strict):
    """The whole object."""

    kind_in_cluster: ClassVar[str] = "V1beta1InferenceService"
    silent: ClassVar[frozenset[str]] = frozenset({"status"})
    api_version: Literal["serving.kserve.io/v1beta1"]
    kind: Literal["InferenceService"]
    metadata: ServiceMetadata
    spec: InferenceServiceSpec


class SupportedModelFormat(Strict):
    """A format that a runtime serves; `auto_select`: also for services that name no runtime."""

    kind_in_cluster: ClassVar[str] = "V1alpha1SupportedModelFormat"
    name: str
    version: str | None = None
    auto_select: bool = False
    priority: Annotated[int, Field(ge=1)] | None = None


class RuntimeSpec(Strict):
    """`spec` of a runtime."""

    kind_in_cluster: ClassVar[str] = "V1alpha1ServingRuntimeSpec"
    silent: ClassVar[frozenset[str]] = frozenset({"protocolVersions", "labels"})
    supported_model_formats: list[SupportedModelFormat] = Field(default_factory=list)
    disabled: bool = False
    annotations: dict[str, str] = Field(default_factory=dict)
    containers: list[Container]

    @classmethod
    def belongs(cls, key: str) -> str | None:
        """A runtime has fewer keys than a pod: the others stand in the service."""
        if key in fields_of("V1beta1PredictorSpec"):
            return f"A runtime has none: write {key} under spec.predictor of the InferenceService."
        return None


class ServingRuntime(Strict):
    """A runtime of one namespace, or of all (kind ClusterServingRuntime)."""

    kind_in_cluster: ClassVar[str] = "V1alpha1ServingRuntime"
    silent: ClassVar[frozenset[str]] = frozenset({"status"})
    api_version: Literal["serving.kserve.io/v1alpha1"]
    kind: Literal["ServingRuntime", "ClusterServingRuntime"]
    metadata: Metadata
    spec: RuntimeSpec
