"""What differs between two fingerprints, for a person: one line an input, with both values and what it means."""

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from runtime.cache.compile_inputs import compile_inputs
from runtime.cache.fingerprint import Difference, Fingerprint, difference

SAME = "nothing differs: both have key {key}"

_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "argument.max_num_seqs": "sizes of compiled batches",
        "argument.max_num_batched_tokens": "sizes of compiled batches",
        "argument.cudagraph_capture_sizes": "sizes of captured graphs",
        "argument.max_cudagraph_capture_size": "sizes of captured graphs",
        "argument.max_model_len": "sizes of position tables in the compiled graph",
        "argument.dtype": "number format that the code is compiled for",
        "argument.kv_cache_dtype": "number format of the KV cache",
        "argument.block_size": "layout of the KV cache",
        "argument.quantization": "which kernels are compiled",
        "argument.tensor_parallel_size": "how tensors are cut: every shape changes",
        "argument.pipeline_parallel_size": "which layers a rank compiles",
        "argument.data_parallel_size": "ranks, which stand in the artifacts' paths",
        "argument.enable_expert_parallel": "how experts are spread: shapes change",
        "argument.compilation_config": "options of the compiler",
        "argument.optimization_level": "how much is compiled",
        "argument.enforce_eager": "whether anything is compiled",
        "argument.model_impl": "which implementation of the model is traced",
        "argument.attention_backend": "which attention kernels are called",
        "argument.speculative_config": "a draft model is compiled as well",
        "argument.revision": "vLLM hashes it, also for a local directory",
        "argument.generation_config": "vLLM hashes it, though it changes no graph",
        "argument.max_logprobs": "vLLM hashes it, though it changes no graph",
        "artifacts": "version of Pilotlight's own hand in what is compiled",
        "platform": "CPU or CUDA",
        "image": "another container image",
        "libc": "what compiled libraries link to",
        "python.abi": "which Python extensions load",
        "python.prefix": "traced source files are checked by path and content",
        "machine.architecture": "machine code of another processor family",
        "machine.instructions": "instructions that CPU kernels are compiled to",
        "machine.processors": "threads that CPU kernels are generated for",
        "gpu.architecture": "GPU code of another architecture",
        "gpu.name": "vLLM and inductor key by the device's name; kernels are tuned on it",
        "gpu.memory": "defaults of batch sizes depend on it",
        "gpu.driver": "the driver compiles PTX and may refuse newer code",
        "gpu.visible": "which of several unlike GPUs is used",
        "gpu": "no NVIDIA driver answered",
        "cuda.driver": "newest CUDA that the driver runs",
        "cuda.toolkit": "compiler that DeepGEMM and FlashInfer call",
        "model.tensors": "names, types or shapes of the tensors",
        "model.weights": "weights frozen into the code",
        "model.url": "another model",
        "variable.VLLM_CPU_OMP_THREADS_BIND": "threads that CPU kernels are generated for",
        "variable.OMP_NUM_THREADS": "threads that CPU kernels are generated for",
    }
)
_GROUPS: Mapping[str, str] = MappingProxyType(
    {
        "argument": "an engine argument that changes what is compiled",
        "variable": "a variable that changes what is compiled",
        "wheel": "another build of it compiles or is compiled against",
        "plugin": "code that is loaded into the engine",
        "compiler": "another C++ compiler",
        "python": "traced source files are checked by path and content",
        "model.config": "the model's configuration, which vLLM hashes whole",
        "model.code": "custom code of the model, which is traced",
        "model.file": "a file from which the model's configuration may be read",
        "model": "the model's shape",
    }
)
_DIGEST = re.compile(r"(sha256:[0-9a-f]{12})[0-9a-f]{52}")


def explain(first: Fingerprint, second: Fingerprint) -> str:
    """One line for each differing input; one line that says so where there is none."""
    lines = [_line(each) for each in difference(first, second)]
    return "\n".join(lines) if lines else SAME.format(key=first.key)


def explain_json(first: Fingerprint, second: Fingerprint) -> dict[str, Any]:
    """The same for a program: keys, whether they are the same, and each difference with both whole values."""
    return {
        "same": first.key == second.key,
        "keys": [first.key, second.key],
        "differences": [
            {"input": each.name, "first": each.first, "second": each.second, "meaning": meaning(each.name)}
            for each in difference(first, second)
        ],
    }


def _line(found: Difference) -> str:
    first, second = _shown(found.name, found.first), _shown(found.name, found.second)
    return f"{_title(found.name)} {first} ≠ {second}: {meaning(found.name)}"


def _title(name: str) -> str:
    group, _, rest = name.partition(".")
    if group == "argument":
        return _flag(rest)
    return rest if group in ("variable", "wheel", "plugin") else name.replace(".", " ", 1)


def _flag(name: str) -> str:
    base, _, part = name.partition(".")
    option = compile_inputs().options.get(base)
    if option is None:
        return name
    flag = next((text for text in option.flags if text.startswith("--")), option.flags[0])
    return f"{flag} ({part})" if part else flag


def _shown(name: str, value: str | None) -> str:
    if value is None:
        absent = {"argument": "(default)", "variable": "(unset)", "model": "(absent)"}
        return absent.get(name.partition(".")[0], "(none)")
    text = _DIGEST.sub(r"\1…", value)
    return text if text and text == text.strip() and text.isprintable() else json.dumps(text)


def meaning(name: str) -> str:
    """Why this input matters, in a few words."""
    parts = name.split(".")
    known = (_GROUPS.get(".".join(parts[:count])) for count in range(len(parts), 0, -1))
    return _MEANINGS.get(name) or next((text for text in known if text), "an input of what is compiled")
