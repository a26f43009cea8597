"""InferenceService and (Cluster)ServingRuntime of KServe: the fields honoured here, and those known but without effect.

Field names after KServe 0.20 (`pkg/apis/serving/v1beta1`, `v1alpha1`) and Kubernetes' core/v1 Container and PodSpec.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from activator_ext.adapters.local.metadata import Metadata, RuntimeName, ServiceMetadata
from activator_ext.adapters.local.schema import Strict

_IN_A_CLUSTER = "It takes effect in a cluster."


def _ignored(names: str, why: str = _IN_A_CLUSTER) -> dict[str, str]:
    return dict.fromkeys(names.split(), why)


_POD = _ignored(
    """volumes nodeSelector affinity tolerations imagePullSecrets schedulerName resourceClaims hostIPC initContainers
    serviceAccountName serviceAccount runtimeClassName securityContext priorityClassName priority preemptionPolicy
    topologySpreadConstraints terminationGracePeriodSeconds activeDeadlineSeconds automountServiceAccountToken
    dnsConfig dnsPolicy enableServiceLinks ephemeralContainers hostAliases hostNetwork hostPID hostUsers hostname
    nodeName os overhead readinessGates resources restartPolicy schedulingGates setHostnameAsFQDN
    shareProcessNamespace subdomain"""
)
_OLD_FORMS = _ignored(
    "sklearn xgboost tensorflow pytorch triton onnx huggingface pmml lightgbm paddle",
    "Write predictor.model with modelFormat instead.",
)


class ValueFromEnv(Strict):
    """One environment variable; a value that a cluster would look up is not known here."""

    ignored: ClassVar[Mapping[str, str]] = {"valueFrom": "Give the variable a value, or set it where pilotlight runs."}
    name: Annotated[str, Field(min_length=1, max_length=256)]
    value: str | None = None


class Resources(Strict):
    """Only `nvidia.com/gpu` is looked at: processor and memory are not limited here."""

    silent: ClassVar[frozenset[str]] = frozenset({"claims"})
    requests: dict[str, Any] = Field(default_factory=dict)
    limits: dict[str, Any] = Field(default_factory=dict)


class ContainerFields(Strict):
    """What containers of runtimes and predictors share. Probes and ports are the launcher's own here."""

    ignored: ClassVar[Mapping[str, str]] = {
        **_ignored("envFrom", "Write the variables under env."),
        **_ignored("lifecycle securityContext volumeDevices volumeMounts workingDir resizePolicy restartPolicy"),
    }
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

    name: str


class ModelFormat(Strict):
    """What kind of model it is: chooses the runtime."""

    name: str
    version: str | None = None


class ModelSpec(ContainerFields):
    """`predictor.model`: the model, and what is laid over the runtime's container."""

    ignored: ClassVar[Mapping[str, str]] = {
        **ContainerFields.ignored,
        **_ignored("storage", "Use storageUri, or --model=s3://… in args."),
        **_ignored("runtimeVersion"),
    }
    silent: ClassVar[frozenset[str]] = ContainerFields.silent | {"protocolVersion"}
    name: str | None = None
    model_format: ModelFormat
    runtime: RuntimeName | None = None
    storage_uri: str | None = None


class Predictor(Strict):
    """`spec.predictor`."""

    ignored: ClassVar[Mapping[str, str]] = {
        **_POD,
        **_OLD_FORMS,
        **_ignored("canaryTrafficPercent logger batcher deploymentStrategy workerSpec"),
        **_ignored("storageUris", "Use model.storageUri."),
        **_ignored("scaleTarget scaleMetric scaleMetricType autoScaling", "Write queue.target in a PrewarmPolicy."),
        **_ignored("timeout", "The portal's own limits hold here."),
    }
    silent: ClassVar[frozenset[str]] = frozenset({"labels"})
    min_replicas: Annotated[int, Field(ge=0, le=10_000)] | None = None
    max_replicas: Annotated[int, Field(ge=0, le=10_000)] = 0
    container_concurrency: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    annotations: dict[str, str] = Field(default_factory=dict)
    model: ModelSpec | None = None
    containers: list[Container] = Field(default_factory=list)


class InferenceServiceSpec(Strict):
    """`spec` of an InferenceService."""

    ignored: ClassVar[Mapping[str, str]] = _ignored("transformer explainer", "Requests go to the predictor directly.")
    predictor: Predictor


class InferenceService(Strict):
    """The whole object."""

    silent: ClassVar[frozenset[str]] = frozenset({"status"})
    api_version: Literal["serving.kserve.io/v1beta1"]
    kind: Literal["InferenceService"]
    metadata: ServiceMetadata
    spec: InferenceServiceSpec


class SupportedModelFormat(Strict):
    """A format that a runtime serves; `auto_select`: also for services that name no runtime."""

    name: str
    version: str | None = None
    auto_select: bool = False
    priority: Annotated[int, Field(ge=1)] | None = None


class RuntimeSpec(Strict):
    """`spec` of a runtime."""

    ignored: ClassVar[Mapping[str, str]] = {
        **_POD,
        **_ignored("workerSpec multiModel grpcEndpoint grpcDataEndpoint httpDataEndpoint replicas storageHelper"),
        **_ignored("builtInAdapter"),
    }
    silent: ClassVar[frozenset[str]] = frozenset({"protocolVersions", "labels"})
    supported_model_formats: list[SupportedModelFormat] = Field(default_factory=list)
    disabled: bool = False
    annotations: dict[str, str] = Field(default_factory=dict)
    containers: list[Container]


class ServingRuntime(Strict):
    """A runtime of one namespace, or of all (kind ClusterServingRuntime)."""

    silent: ClassVar[frozenset[str]] = frozenset({"status"})
    api_version: Literal["serving.kserve.io/v1alpha1"]
    kind: Literal["ServingRuntime", "ClusterServingRuntime"]
    metadata: Metadata
    spec: RuntimeSpec
