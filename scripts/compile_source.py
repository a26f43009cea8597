"""Whether vLLM's source leaves the field of an engine argument out of its compile key, and where.

Each configuration class of vLLM has a `compute_hash`, in one of three forms: all fields but a set named
`ignored_factors`; a list of the fields that count; or nothing at all. They are read as text, never run.
"""

import ast
import functools
import inspect
import textwrap
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

from vllm.config import VllmConfig

RENAMED = MappingProxyType({"kv_cache_dtype": "cache_dtype", "lora_target_modules": "target_modules"})
"""Engine arguments whose configuration field has another name."""

OUTSIDE = MappingProxyType(
    {
        "aggregate_engine_logging": "how the log is written",
        "disable_log_stats": "how the log is written",
        "enable_log_requests": "how the log is written",
        "log_level": "how the log is written",
        "log_config_file": "how the log is written",
        "logging_config": "how the log is written",
        "fail_on_environ_validation": "whether unknown variables end the start",
        "shutdown_timeout": "how long the server waits at its end",
        "scheduling_policy": "the order of waiting requests (SchedulerConfig.policy)",
        "mm_hasher_algorithm": "names of cached media",
        "kv_events_config": "whom changes of the KV cache are told",
    }
)
"""Arguments with no field of their name in a hashed configuration: what they are for instead."""

VARIABLES_REACH_FURTHER = MappingProxyType(
    {
        "LOCAL_RANK": "a device's index stands in compiled code",
        "VLLM_ENABLE_CUDA_COMPATIBILITY": "chooses the driver's libraries, which compile PTX",
        "VLLM_CUDA_COMPATIBILITY_PATH": "chooses the driver's libraries, which compile PTX",
        "VLLM_TUNED_CONFIG_FOLDER": "chooses how kernels are generated",
        "VLLM_FLASHINFER_AUTOTUNE_SKIP_OPS": "chooses which kernels are tuned, and the choices are kept",
        "VLLM_ZENTORCH_WEIGHT_PREPACK": "changes the layout of weights, so what is traced",
        "VLLM_MODEL_REDIRECT_PATH": "puts another model in the place of the one named",
    }
)
"""Variables that vLLM leaves out of its key and that we let count, and why."""

REACH_FURTHER = MappingProxyType(
    {
        "async_scheduling": "chooses how many batches are in flight and which model runner is used",
        "disable_cascade_attn": "chooses the attention path on a GPU",
        "distributed_executor_backend": "chooses which processes compile",
        "enable_chunked_prefill": "changes the token budget of a step, whose size is compiled",
        "enable_prefix_caching": "changes the cache mode of hybrid (mamba) models, which is compiled",
        "hf_overrides": "rewrites the model's configuration, which is compiled",
        "convert": "changes the head of the model",
        "hf_config_path": "replaces the model's configuration, which is compiled",
        "config_format": "chooses the file that the model's configuration is read from",
        "kv_sharing_fast_prefill": "changes which layers run, on models that share their KV cache",
        "kv_transfer_config": "brings a connector that may ask for another KV cache layout",
        "ec_transfer_config": "brings a connector's code into the model runner",
        "pooler_config": "changes the head of the model",
        "scheduler_cls": "names code of the user's",
        "worker_cls": "names code of the user's, which may compile anything",
        "worker_extension_cls": "names code of the user's, which may compile anything",
        "logits_processors": "names code of the user's",
        "mm_encoder_tp_mode": "changes the encoder, which may be compiled",
        "limit_mm_per_prompt": "may switch the multimodal path off, which changes the text model's graph",
        "data_parallel_rank": "stands in the path of each artifact (rank_R_DP)",
        "data_parallel_start_rank": "stands in the path of each artifact (rank_R_DP)",
        "data_parallel_size_local": "decides the rank that stands in the path of each artifact",
        "device_ids": "a device's index stands in compiled code",
        "disable_custom_all_reduce": "chooses the all-reduce that the compiler's passes fuse",
        "data_parallel_external_lb": "decides the rank that stands in the path of each artifact",
        "data_parallel_hybrid_lb": "decides the rank that stands in the path of each artifact",
        "enable_flashinfer_autotune": "decides whether kernels are tuned, and the choices are kept with the artifacts",
        "enable_mamba_shared_prefix_checkpoint": "concerns hybrid (mamba) models, which were not probed",
        "prefix_match_unit": "concerns the block size of hybrid (mamba) models, which were not probed",
        "mm_processor_kwargs": "changes the sizes that reach a multimodal model's encoder",
        "specialize_active_lora": "decides for how many adapters code is specialized",
        "nnodes": "decides how ranks are spread over machines",
        "node_rank": "decides the ranks of this machine, which stand in the path of each artifact",
        "performance_mode": "chooses defaults of compiled sizes",
        "optimization_level": "chooses defaults of the compiler",
        "skip_mm_profiling": "changes what is run, so compiled, before the first request",
        "structured_outputs_config": "its hash is constant, but it may switch scheduling modes",
        "additional_config": "a platform plugin may read anything from it",
        "max_num_scheduled_tokens": "bounds the size of a step, which is compiled",
        "disable_hybrid_kv_cache_manager": "changes the groups of the KV cache of hybrid models",
        "numa_bind": "changes the threads that a CPU kernel is generated for",
        "numa_bind_cpus": "changes the threads that a CPU kernel is generated for",
        "numa_bind_nodes": "changes the threads that a CPU kernel is generated for",
        "model_loader_extra_config": "a loader may choose another layout of the weights",
        "profiler_config": "a profiler may wrap what is compiled",
        "enable_layerwise_nvtx_tracing": "puts hooks into the model's layers",
    }
)
"""Left out of vLLM's key under their own name, yet able to change it, or what is compiled, by another way.

Found by reading what the configuration classes and platforms do after they are built; on one small model on a CPU the
probe cannot see it. They stay inputs."""


@dataclass(frozen=True, slots=True)
class _Class:
    name: str
    fields: frozenset[str]
    hashed: frozenset[str]


def left_out(argument: str, front: bool) -> str:
    """Why the source says that `argument` is no part of the key; empty where it does not say so."""
    if argument in REACH_FURTHER:
        return ""
    if front:
        return "front end only"
    if argument in OUTSIDE:
        return OUTSIDE[argument]
    name = RENAMED.get(argument, argument)
    owners = [found for found in _classes() if name in found.fields]
    if not owners or any(name in found.hashed for found in owners):
        return ""
    return "left out by " + ", ".join(sorted(found.name for found in owners))


@functools.cache
def _classes() -> tuple[_Class, ...]:
    found: dict[str, _Class] = {}
    for field in fields(VllmConfig):
        for kind in _types(field.type):
            found.setdefault(kind.__name__, _read(kind))
            for inner in fields(kind):
                for nested in _types(inner.type):
                    found.setdefault(nested.__name__, _read(nested))
    return tuple(found.values())


def _types(annotation: Any) -> tuple[type[Any], ...]:
    options = getattr(annotation, "__args__", (annotation,))
    ours = (kind for kind in options if hasattr(kind, "__dataclass_fields__"))
    return tuple(kind for kind in ours if kind.__module__.startswith("vllm."))


def _read(kind: type[Any]) -> _Class:
    names = frozenset(vars(kind).get("__annotations__", {})) | {field.name for field in fields(kind)}
    method = vars(kind).get("compute_hash")
    if method is None:
        return _Class(kind.__name__, names, names)  # whoever holds it hashes it whole, for all we know
    tree = ast.parse(textwrap.dedent(inspect.getsource(method)))
    calls = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }
    if "get_hash_factors" in calls:
        # Some are taken out of the set only to be hashed in a way of their own: `self.pass_config.compute_hash()`.
        return _Class(kind.__name__, names, names - (_ignored(tree) - used))
    return _Class(kind.__name__, names, frozenset(used))


def _ignored(tree: ast.AST) -> frozenset[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and target.id == "ignored_factors" and isinstance(node.value, ast.Set):
                return frozenset(ast.literal_eval(node.value))
    return frozenset()
