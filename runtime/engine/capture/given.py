"""What a service's own arguments say about its batches, and whether they leave the capture sizes to us."""

from collections.abc import Mapping
from dataclasses import dataclass

from runtime.cache.arguments import argument_inputs
from runtime.cache.compile_inputs import compile_inputs
from runtime.contract import EngineSpec

DEFAULT_SEQS = 256
"""The `max-num-seqs` of vLLM 0.32 for a server on GPUs below 70 GiB and on A100; on larger ones 1024."""

_THEIRS: Mapping[str, str] = {
    "cudagraph_capture_sizes": "the service gives its own (--cudagraph-capture-sizes)",
    "max_cudagraph_capture_size": "the service gives its own largest size (--max-cudagraph-capture-size)",
    "compilation_config": "the service has a compilation config of its own",
    "performance_mode": "the service's performance mode chooses them",
    "speculative_config": "with speculative decoding vLLM makes them multiples of the draft's length",
}


@dataclass(frozen=True, slots=True)
class Given:
    """`why_not`: why no sizes may be given, None where they may. `max_num_seqs`: the limit given, else vLLM's least."""

    max_num_seqs: int
    why_not: str | None = None


def given(spec: EngineSpec) -> Given:
    """Read a spec; its arguments in any spelling that vLLM takes."""
    if spec.platform == "cpu":
        return Given(DEFAULT_SEQS, "a CPU captures no graphs")
    try:
        said = argument_inputs(spec.args, compile_inputs())
    except RecursionError:  # JSON of a thousand brackets: vLLM will say so
        return Given(DEFAULT_SEQS, "the service's arguments cannot be read")
    limit = said.get("max_num_seqs", "")
    seqs = max(int(limit), 1) if limit.isdigit() else DEFAULT_SEQS
    return Given(seqs, _why_not(said))


def _why_not(said: Mapping[str, str]) -> str | None:
    if said.get("enforce_eager") == "true":
        return "eager, the service's choice, captures no graphs"
    if said.get("optimization_level") == "0":
        return "-O0, the service's choice, captures no graphs"
    return next((why for name, why in _THEIRS.items() if name in said), None)
