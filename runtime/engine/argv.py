"""Spec → argv and environment of one engine. Pure: the parent's environment comes in as a mapping.

Nothing of the host's environment reaches an engine by accident: names not on the list below stay out, so that no
credential of the host ends in a process that runs other people's model code.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from runtime.cache import layout
from runtime.contract import EngineSpec
from runtime.engine.cache_kind import cache_kind
from runtime.engine.cpu import Cpu
from runtime.engine.cuda import Cuda
from runtime.engine.dirs import ASSETS, MODEL_LINK, EngineDirs
from runtime.engine.leash import PARENT_ENV
from runtime.engine.marker import STAGES_ENV
from runtime.engine.platforms import Platform
from runtime.ready.gate_door import READY_PATH
from runtime.weights.integrity import is_url

__all__ = [
    "Tracing",
    "allowed_env",
    "cache_kind",
    "command_line",
    "engine_arguments",
    "environment",
    "import_environment",
    "platform_of",
    "refuse_reserved",
]

RESERVED_ARGS = frozenset(
    {
        "--host",
        "--port",
        "--uds",
        "--model",
        "--served-model-name",
        "--otlp-traces-endpoint",
        "--shutdown-timeout",
        "--api-key",
        "--api-server-count",
        "--headless",
        "--root-path",
        "--ssl-keyfile",
        "--ssl-certfile",
        "--ssl-ca-certs",
        "--config",
        *("--enable-log-requests", "--enable-log-outputs", "--logging-config", "--log-config-file"),
        *("--kv-events-config", "--weight-transfer-config"),
        # They open ports on every address, for other machines.
        *("--nnodes", "--node-rank", "--master-addr", "--master-port", "--data-parallel-address"),
        *("--data-parallel-rpc-port", "--data-parallel-external-lb", "--data-parallel-hybrid-lb"),
    }
)
"""Set by the launcher, or at odds with an engine that is private to its host and whose logs hold no prompt."""

_RESERVED_SHORT = frozenset({"-asc", "-n", "-r", "-dpa", "-dpp", "-dpe", "-dph", "-dpm"})

LOOPBACK = "127.0.0.1"
"""Where an engine listens that only its host and a portal beside it ask."""

NO_MEDIA = "none.invalid"
"""A domain that no medium is at (RFC 6761): else a request could have the engine fetch any URL of the network."""

MIDDLEWARE = "runtime.ready.gate_mount.MountedGate"
"""The gate, by the name that vLLM asks for."""

QUIET_PATHS = f"/health,/metrics,/v1/models,{READY_PATH}"
"""Asked about every second; not worth a line each in the engine's log."""

_INHERITED = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "PYTHONPATH",
        "VIRTUAL_ENV",
        "CC",
        "CXX",
        "CUDA_HOME",
        "CUDA_PATH",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
    }
)
_INHERITED_PREFIXES = ("LC_", "NVIDIA_", "OMP_", "OPENBLAS_", "MKL_", "KMP_", "GOMP_", "NUMEXPR_")

_SPEC_PREFIXES = (
    *("VLLM_", "HF_", "HUGGING_FACE_", "HUGGINGFACE_", "TRANSFORMERS_", "TOKENIZERS_", "SAFETENSORS_", "TIKTOKEN_"),
    *("TORCH_", "TORCHINDUCTOR_", "PYTORCH_", "TRITON_", "FLASHINFER_", "CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_"),
    *("NCCL_", "GLOO_", "UCX_", "RUNAI_STREAMER_", "LMCACHE_", "MODEL_EXPRESS_", "MX_", "AWS_", "AZURE_", "GOOGLE_"),
    *("OMP_", "OPENBLAS_", "MKL_", "KMP_", "GOMP_", "NUMEXPR_", "LC_"),
)
_SPEC_NAMES = frozenset(
    {
        *("LANG", "TZ", "LD_PRELOAD", "CC", "CXX", "MAX_JOBS", "MALLOC_ARENA_MAX"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    }
)
_OURS = frozenset(
    {
        # VLLM_SERVER_DEV_MODE opens unauthenticated admin routes on the port that clients reach.
        *("VLLM_SERVER_DEV_MODE", "VLLM_API_KEY", "VLLM_HOST_IP", "VLLM_PORT", "VLLM_CACHE_ROOT"),
        *("VLLM_NO_USAGE_STATS", "VLLM_DO_NOT_TRACK"),
        *(name for part in layout.PARTS for name, _ in part.env),
        *("VLLM_RPC_BASE_PATH", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "HF_MODULES_CACHE"),
        # They write answers, or whatever a file says, into the log.
        *("VLLM_DEBUG_LOG_API_SERVER_RESPONSE", "VLLM_LOGGING_CONFIG_PATH"),
    }
)

_PLATFORMS: Mapping[str, Platform] = MappingProxyType({"cpu": Cpu(), "cuda": Cuda()})


@dataclass(frozen=True, slots=True)
class Tracing:
    """Where one start sends its spans: the receiver, what it asks for as headers, and the parent of its trace."""

    endpoint: str
    headers: str
    traceparent: str


def platform_of(spec: EngineSpec) -> Platform:
    """The adapter of the spec's platform."""
    return _PLATFORMS[spec.platform]


def allowed_env(name: str) -> bool:
    """Whether a spec may set the environment variable `name` of its engine.

    Allowed are the variables of vLLM, of the libraries below it and of the stores it reads from; refused are those
    that the launcher sets itself and those that would change the launcher (PATH, PYTHON…, LD_LIBRARY_PATH).
    """
    return name not in _OURS and (name in _SPEC_NAMES or name.startswith(_SPEC_PREFIXES))


def refuse_reserved(args: tuple[str, ...]) -> None:
    """Raise ValueError if `args` sets what the launcher sets, also abbreviated or with underscores."""
    for arg in args:
        name = arg.split("=", 1)[0].replace("_", "-")
        clash = sorted(r for r in RESERVED_ARGS if len(name) > 4 and r.startswith(name))
        if clash or name in _RESERVED_SHORT:
            raise ValueError(f"argument {arg!r} is set by the launcher ({clash[0] if clash else name}): remove it")


def command_line(
    spec: EngineSpec,
    port: int,
    tracing: Tracing | None,
    command: tuple[str, ...] | None = None,
    address: str = LOOPBACK,
) -> tuple[str, ...]:
    """The whole argv; `command` replaces the part before `serve`. Raises ValueError on a reserved argument."""
    # -P: the engine's working directory must not shadow modules.
    interpreter = command or (sys.executable, "-P", "-m", "runtime.engine.serve")
    return (*interpreter, *engine_arguments(spec, port, tracing, address))


def engine_arguments(spec: EngineSpec, port: int, tracing: Tracing | None, address: str = LOOPBACK) -> tuple[str, ...]:
    """The argv of vLLM's own command line, from `serve` on. Raises ValueError on a reserved argument.

    `address` is the one it listens on: in a pod of its own that of the pod, with the gate in front.

    A model directory is named by its link in the working directory: its path enters the key of the compile cache, and
    two hosts with the model at two places would not share one.
    """
    refuse_reserved(spec.args)
    traces = ("--otlp-traces-endpoint", tracing.endpoint) if tracing else ()
    model = spec.model if is_url(spec.model) else MODEL_LINK
    return (
        *("serve", model, "--host", address, "--port", str(port)),
        *("--served-model-name", *spec.served_names),
        *traces,
        *("--shutdown-timeout", str(round(spec.drain_timeout_s))),
        *("--disable-access-log-for-endpoints", QUIET_PATHS),
        # Before those of the spec, which may name domains: the last one counts.
        *("--allowed-media-domains", NO_MEDIA),
        *platform_of(spec).args(spec),
        *spec.args,
        # After those of the spec: vLLM puts the last one outermost, and the gate is in front of everything.
        *("--middleware", MIDDLEWARE),
    )


def environment(
    spec: EngineSpec,
    dirs: EngineDirs,
    parent: Mapping[str, str],
    parent_pid: int,
    tracing: Tracing | None,
    caches: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The engine's whole environment; `caches` puts its caches where they are found, None: all below `dirs.cache`.

    Raises ValueError on a name that a spec may not set.
    """
    return {
        **import_environment(spec, parent),
        **(caches or layout.environment(dirs.cache)),
        PARENT_ENV: str(parent_pid),
        **(_traced(tracing) if tracing else {}),
    }


def import_environment(spec: EngineSpec, parent: Mapping[str, str]) -> dict[str, str]:
    """What is the same for each start of a spec, so that a fork server may import in it.

    Only that: vLLM and the libraries below it read some variables once, as they are imported. Raises ValueError on a
    name that a spec may not set.
    """
    refused = sorted(name for name in spec.env if not allowed_env(name))
    if refused:
        raise ValueError(f"environment variable {refused[0]} may not be set for an engine: remove it from the service")
    inherited = {k: v for k, v in parent.items() if k in _INHERITED or k.startswith(_INHERITED_PREFIXES)}
    return {
        **inherited,
        **(_STREAMED if is_url(spec.model) else {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}),
        **platform_of(spec).env(spec),
        **spec.env,
        **_plugins(spec.env.get("VLLM_PLUGINS")),
        **_OURS_ALWAYS,
    }


_STREAMED: Mapping[str, str] = MappingProxyType(
    # Where vLLM puts config and tokenizer of a bucket's model: by itself where all engines of a user would share it.
    # Relative, because that path is then the model's, which enters the key of the compile cache.
    {"VLLM_ASSETS_CACHE": ASSETS}
)

_OURS_ALWAYS: Mapping[str, str] = MappingProxyType(
    {
        # Its processes speak to each other on unix sockets: in the working directory, which is private, not in /tmp.
        # Relative, because the whole path of a unix socket must fit into 108 bytes.
        "VLLM_RPC_BASE_PATH": ".",
        # Of a machine with several addresses these would listen on the one that its name stands for.
        "VLLM_HOST_IP": "127.0.0.1",
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "lo",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "PYTHONUNBUFFERED": "1",
        # A model's own code is copied to where it is imported from: two models would overwrite each other's, both being
        # called by the same link. Relative, because the path of traced code enters the key of the compile cache.
        "HF_MODULES_CACHE": "hf_modules",
        STAGES_ENV: "1",
    }
)


def _plugins(chosen: str | None) -> dict[str, str]:
    """Unset, vLLM loads all plugins, ours among them; a list of the spec's must name ours too."""
    if chosen is None:
        return {}
    names = [name for name in chosen.split(",") if name]
    return {"VLLM_PLUGINS": ",".join(dict.fromkeys([*names, "pilotlight"]))}


def _traced(tracing: Tracing) -> dict[str, str]:
    return {
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": tracing.endpoint,
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": tracing.headers,
        # Milliseconds between exports; the default of 5000 loses the spans of a worker that is killed.
        "OTEL_BSP_SCHEDULE_DELAY": "500",
        "TRACEPARENT": tracing.traceparent,
    }
