"""Runtime, predictor and environment together → what the host is told to start, and which names mean it."""

import pytest

from activator_ext.adapters.local import annotations
from activator_ext.adapters.local.environment import ALLOWED, ALLOWED_PREFIXES
from activator_ext.adapters.local.manifests import load
from activator_ext.core.model import Bounds
from runtime.contract import EngineSpec
from runtime.engine.argv import allowed_env
from runtime.weights.weight_files import PICKLE_SUFFIXES
from tests.unit.adapters.local.build import RUNTIME, Files, custom, policy, service

LOADS = "it decides which code every process of the engine loads"
ENV = {
    "code": ("LD_PRELOAD", LOADS),
    "Python": ("PYTHONPATH", LOADS),
    "path": ("PATH", LOADS),
    "compiler": ("CXX", "it decides which program the engine runs as its compiler"),
    "port": ("VLLM_PORT", "the launcher sets it itself"),
    "cache": (
        "VLLM_CACHE_ROOT",
        "the launcher gives each replica a compile cache of its own: two sharing one corrupt it",
    ),
    "routes": (
        "VLLM_SERVER_DEV_MODE",
        "it opens routes that command the engine without a password; the launcher alone may set it",
    ),
    "spans": ("OTEL_EXPORTER_OTLP_ENDPOINT", "the launcher sets it itself"),
    "parent span": ("TRACEPARENT", "the launcher sets it itself"),
    "ours": ("PILOTLIGHT_X", "the launcher sets it itself"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "why"), ENV.values(), ids=ENV.keys())
def test_variables_refused(files: Files, name: str, why: str) -> None:
    said = files.said(runtime=RUNTIME, f=service(model=f"env:\n- {{name: {name}, value: x}}\n"))
    key = "spec.predictor.model.env[0]"
    assert said == [f"f.yaml:11: error: {key}: the variable '{name}' is refused: {why}. Remove it."]


@pytest.mark.parametrize("name", [*(f"{prefix}X" for prefix in ALLOWED_PREFIXES), *ALLOWED])
def test_the_launcher_takes_every_variable_that_is_passed(name: str) -> None:
    assert allowed_env(name)


@pytest.mark.parametrize(
    "name", ["VLLM_SERVER_DEV_MODE", "VLLM_API_KEY", "VLLM_PORT", "VLLM_CACHE_ROOT", "VLLM_HOST_IP"]
)
def test_what_the_launcher_refuses_is_refused_before_it_is_asked(files: Files, name: str) -> None:
    assert not allowed_env(name)
    assert not files.load(runtime=RUNTIME, f=service(model=f"env: [{{name: {name}, value: x}}]\n")).ok


def test_variables_passed_expanded_or_left_out(files: Files) -> None:
    env = """\
        env:
        - {name: BASE, value: "4"}
        - {name: OMP_NUM_THREADS, value: "$(BASE)"}
        - {name: VLLM_CPU_KVCACHE_SPACE, value: "1"}
        - {name: HF_TOKEN, valueFrom: {secretKeyRef: {name: a, key: b}}}
        - {name: AWS_ENDPOINT_URL_S3, value: "http://localhost:1"}
        - {name: TOKENIZERS_PARALLELISM, value: "false"}
        """
    loaded = files.load(runtime=RUNTIME, f=service(model=env))
    said = [files.short(str(finding)) for finding in loaded.findings]
    assert [line.partition(". ")[0] for line in said] == [
        "f.yaml:11: warning: spec.predictor.model.env[0]: the variable 'BASE' is not passed to an engine",
        "f.yaml:14: warning: spec.predictor.model.env[3].valueFrom: local mode ignores it",
    ]
    assert [s.spec.env for s in loaded.services] == [
        {
            "OMP_NUM_THREADS": "4",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "AWS_ENDPOINT_URL_S3": "http://localhost:1",
            "TOKENIZERS_PARALLELISM": "false",
        }
    ]


def test_the_predictor_lies_over_the_runtime(files: Files) -> None:
    runtime = RUNTIME.replace(
        "      args: [/mnt/models]\n",
        "      args: [/mnt/models, --dtype=float32]\n"
        "      env: [{name: OMP_NUM_THREADS, value: '1'}, {name: HF_HUB_OFFLINE, value: '1'}]\n"
        "    - {name: sidecar, image: x}\n",
    )
    model = (
        "args: [--max-model-len=64, '--served-model-name=$(HF_NAME)']\n"
        "env: [{name: HF_NAME, value: short}, {name: OMP_NUM_THREADS, value: '2'}]\n"
    )
    annotations = "annotations: {serving.knative.dev/progress-deadline: 20m}\n"
    loaded = files.load(runtime=runtime, f=service(model=model, predictor=annotations))
    assert [files.short(str(finding)) for finding in loaded.findings] == [
        "runtime.yaml:15: warning: spec.containers[1]: local mode ignores container 'sidecar'."
        " Only kserve-container is run."
    ]
    assert [s.spec for s in loaded.services] == [
        EngineSpec(
            service="default/chat",
            served_names=("default/chat", "chat", "short"),
            model=str(files.models / "tiny"),
            args=("--dtype=float32", "--max-model-len=64"),
            env={"HF_HUB_OFFLINE": "1", "HF_NAME": "short", "OMP_NUM_THREADS": "2"},
            start_timeout_s=1200.0,
        )
    ]


def test_pickle_is_allowed_by_the_predictor_before_the_service(files: Files) -> None:
    both = service(predictor="annotations: {pilotlight.dev/allow-pickle: 'a*.bin, b.pt b.pt'}\n").replace(
        "metadata: {", "metadata: {annotations: {pilotlight.dev/allow-pickle: c.bin}, "
    )
    (built,) = files.load(runtime=RUNTIME, f=both).services
    assert built.spec.pickle == ("a*.bin", "b.pt")


def test_what_is_pickle_is_the_same_for_the_host() -> None:
    assert set(annotations.PICKLE_SUFFIXES) == PICKLE_SUFFIXES


def test_a_runtime_whose_container_has_another_name(files: Files) -> None:
    said = files.said(runtime=RUNTIME.replace("kserve-container", "vllm"), f=service())
    assert (
        said
        == [
            "runtime.yaml:10: warning: spec.containers[0]: local mode ignores container 'vllm'."
            " Only kserve-container is run.",
            "runtime.yaml:9: error: spec.containers: no container is named kserve-container."
            " Name the engine's container kserve-container.",
        ][::-1]
    )


def test_names_that_mean_one_service_only(files: Files) -> None:
    loaded = files.load(
        runtime=RUNTIME,
        a=service("chat", model="args: [--served-model-name, big, mine, code]\n"),
        b=service("chat", namespace="team-a", model="args: [--served-model-name, big]\n"),
        c=service("code", model="args: [--served-model-name, team-a/chat]\n"),
        d=policy(name="default", ref=None),
    )
    assert {str(s.id): s.names for s in loaded.services} == {
        "default/chat": ("default/chat", "mine"),
        "default/code": ("default/code", "code"),
        "team-a/chat": ("team-a/chat",),
    }
    assert [files.short(str(finding)).partition(": warning: metadata.name: ")[2] for finding in loaded.findings] == [
        "the model name 'big' is team-a/chat's too and means none of them."
        " Requests for this service name default/chat.",
        "the model name 'chat' is team-a/chat's too and means none of them."
        " Requests for this service name default/chat.",
        "the model name 'code' means default/code. Requests for this service name default/chat.",
        "the model name 'big' is default/chat's too and means none of them."
        " Requests for this service name team-a/chat.",
        "the model name 'chat' is default/chat's too and means none of them."
        " Requests for this service name team-a/chat.",
        "the model name 'team-a/chat' means team-a/chat. Requests for this service name default/code.",
    ]


SAMPLE = """\
apiVersion: serving.kserve.io/v1alpha1
kind: ClusterServingRuntime
metadata:
  name: huggingfaceserver
  annotations: {prometheus.kserve.io/port: "8080"}
spec:
  supportedModelFormats: [{name: huggingface, version: "1", autoSelect: true, priority: 1}]
  protocolVersions: [v2, v1]
  containers:
    - name: kserve-container
      image: kserve/huggingfaceserver:latest
      args: ["--model_name={{.Name}}"]
---
apiVersion: serving.kserve.io/v1alpha1
kind: ClusterServingRuntime
metadata: {name: vllm-gpu}
spec:
  supportedModelFormats: [{name: vLLM, autoSelect: true, priority: 2}]
  containers:
    - name: kserve-container
      image: vllm/vllm-openai:v0.32.0
      command: [python3, -m, vllm.entrypoints.openai.api_server]
      args: ["--port=8080", --model=/mnt/models, "--served-model-name={{.Name}}"]
      ports: [{containerPort: 8080, protocol: TCP}]
      readinessProbe: {httpGet: {path: /health, port: 8080}, periodSeconds: 1}
      resources: {requests: {cpu: "4", memory: 16Gi}, limits: {nvidia.com/gpu: "1"}}
      volumeMounts: [{name: shm, mountPath: /dev/shm}]
  volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 2Gi}}]
  tolerations: [{key: nvidia.com/gpu, operator: Exists}]
---
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: llama
  namespace: team-a
  annotations:
    serving.kserve.io/deploymentMode: Knative
    serving.knative.dev/progress-deadline: 30m
spec:
  predictor:
    minReplicas: 0
    maxReplicas: 2
    containerConcurrency: 16
    model:
      modelFormat: {name: vLLM}
      storageUri: pvc://models/tiny
      args: [--max-model-len=512]
      env: [{name: VLLM_LOGGING_LEVEL, value: INFO}]
"""


def test_a_file_as_it_is_written_for_a_cluster(files: Files) -> None:
    loaded = files.load(f=SAMPLE)
    assert [finding.key for finding in loaded.findings if finding.severity == "error"] == []
    assert {finding.key.rpartition(".")[2] for finding in loaded.findings} == {
        "args[0]", "com/gpu", "volumeMounts", "volumes", "tolerations",
    }  # fmt: skip
    (found,) = loaded.services
    assert found.spec.args == ("--max-model-len=512", "--max-num-seqs=16")
    assert found.spec.start_timeout_s == 1800
    assert found.policy.bounds == Bounds(0, 2)
    assert found.policy.queue.target == 16


def test_on_cuda_a_gpu_that_is_asked_for_needs_no_word(files: Files) -> None:
    files.write(f=SAMPLE)
    loaded = load([files.yaml], {"models": files.models}, "cuda")
    assert not any("gpu" in finding.key for finding in loaded.findings)
    assert [s.spec.platform for s in loaded.services] == ["cuda"]


@pytest.mark.parametrize("name", ["name: custom", "workingDir:"])
def test_the_only_container_of_a_predictor_is_the_engine_s_whatever_its_name(files: Files, name: str) -> None:
    """As in KServe, whose webhook gives it the name; a null is an absent key."""
    text = custom("command: [vllm, serve, /mnt/models]").replace("name: kserve-container", name)
    loaded = files.load(f=text)
    assert loaded.findings == ()
    assert len(loaded.services) == 1
