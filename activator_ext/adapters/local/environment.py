"""Which environment variables of a file may reach an engine.

A list of what may pass, not of what may not: a variable decides what code a process loads, and the engine runs as the
user. The launcher sets its own variables on top.
"""

from collections.abc import Mapping

from activator_ext.adapters.local.documents import Word
from activator_ext.adapters.local.findings import Findings, quoted

ALLOWED_PREFIXES = (
    "VLLM_",
    "HF_",
    "TRANSFORMERS_",
    "TOKENIZERS_",
    "SAFETENSORS_",
    "OMP_",
    "MKL_",
    "KMP_",
    "TORCH_",
    "TORCHINDUCTOR_",
    "PYTORCH_",
    "TRITON_",
    "FLASHINFER_",
    "NCCL_",
    "CUDA_",
    "NVIDIA_",
    "RUNAI_STREAMER_",
    "AWS_ENDPOINT_URL",
)
"""vLLM's own, and those of the libraries below it and of the stores that it reads from."""
ALLOWED = frozenset(
    {
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_EC2_METADATA_DISABLED",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
    }
)

_LOADS_CODE = "it decides which code every process of the engine loads"
_LAUNCHER = "the launcher sets it itself"
_REFUSED: Mapping[str, str] = {
    "LD_*": _LOADS_CODE,
    "PYTHON*": _LOADS_CODE,
    "PATH": _LOADS_CODE,
    "CC": "it decides which program the engine runs as its compiler",
    "CXX": "it decides which program the engine runs as its compiler",
    "VLLM_CACHE_ROOT": "the launcher gives each replica a compile cache of its own: two sharing one corrupt it",
    "VLLM_SERVER_DEV_MODE": "it opens routes that command the engine without a password; the launcher alone may set it",
    "VLLM_HOST_IP": _LAUNCHER,
    "VLLM_PORT": _LAUNCHER,
    "VLLM_RPC_BASE_PATH": _LAUNCHER,
    "GLOO_SOCKET_IFNAME": _LAUNCHER,
    "NCCL_SOCKET_IFNAME": _LAUNCHER,
    "VLLM_DEBUG_LOG_API_SERVER_RESPONSE": "answers stay out of the engine's log",
    "VLLM_LOGGING_CONFIG_PATH": "requests and answers stay out of the engine's log",
    "VLLM_NO_USAGE_STATS": _LAUNCHER,
    "VLLM_DO_NOT_TRACK": _LAUNCHER,
    "VLLM_API_KEY": "the engine answers the portal only, which has no key for it",
    "OTEL_*": _LAUNCHER,
    "TRACEPARENT": _LAUNCHER,
    "PILOTLIGHT_*": _LAUNCHER,
}
"""Refused outright, allowed prefix or not; a name ending in * is a prefix."""

STORAGE_URI = "STORAGE_URI"
"""KServe's way for a custom container to ask for a model: read here, not passed on."""


def allowed(variables: Mapping[str, Word], findings: Findings) -> dict[str, str]:
    """What is passed on. A refused name is an error; any other that is not on the list a warning."""
    passed: dict[str, str] = {}
    for name, word in variables.items():
        why = _refusal(name)
        if why is not None:
            findings.error(*word.where, f"the variable {quoted(name)} is refused: {why}", "Remove it.")
        elif name.startswith(ALLOWED_PREFIXES) or name in ALLOWED:
            passed[name] = word.text
        elif name != STORAGE_URI:
            fix = (
                f"Passed are {', '.join(f'{prefix}*' for prefix in ALLOWED_PREFIXES)} and {', '.join(sorted(ALLOWED))}."
            )
            findings.warning(*word.where, f"the variable {quoted(name)} is not passed to an engine", fix)
    return passed


def _refusal(name: str) -> str | None:
    for pattern, why in _REFUSED.items():
        if name == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1])):
            return why
    return None
