"""Is an engine that has compiled ended before it serves, and begun anew with what it compiled? Pure.

On CUDA the compiler and its autotuning hold GPU memory while vLLM measures how much is left for the KV cache, so a
start that compiled has a smaller one than a start that found its code compiled, for as long as it lives. A second start
costs once what a start with a bundle costs.

- Never where the KV cache's size was given and not measured, nor where nothing was compiled.
- Never twice in a row.
- Never while a request waits: a larger KV cache makes no single answer sooner, and the second start makes it later.
- Known what a start of this engine with its code got: only if this one has clearly less.
- Not known: on CUDA yes, once; what the second start gets is then known, and decides from then on. On a CPU no.

Untested on a GPU.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from runtime.contract import Verdict

LESS = 0.03
"""The share of the KV cache that must be missing: two starts alike differ by less than 1 % on a GPU of their own, and
what a second start costs is not worth 3 % more requests at once."""

_GIVEN_ARGS = ("--kv-cache-memory-bytes", "--kv-cache-memory", "--num-gpu-blocks-override")
"""vLLM 0.32 (`engine/arg_utils.py`); argparse takes any unique beginning, but a project's own writing seldom does."""
_GIVEN_ENV = "VLLM_CPU_KVCACHE_SPACE"

_COMPILED = frozenset({Verdict.ABSENT, Verdict.RECOMPILED, Verdict.PARTLY, Verdict.QUARANTINED})


def given(platform: Literal["cpu", "cuda"], args: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether the KV cache's size was given; a CPU's always is, by the launcher where not by the service."""
    names = {arg.partition("=")[0].replace("_", "-") for arg in args}
    return platform == "cpu" or _GIVEN_ENV in env or not names.isdisjoint(_GIVEN_ARGS)


def recycle(
    *,
    size_given: bool,
    verdict: Verdict | None,
    compiles: bool,
    kv_tokens: int | None,
    restored_kv_tokens: int | None,
    recycled_before: bool,
    awaited: bool | None,
) -> str | None:
    """Why the engine is begun anew, in words; None: it serves as it is.

    `compiles`: whether it keeps compiled code at all (eager: no). `kv_tokens`: its KV cache; `restored_kv_tokens`: that
    of the last start of the same engine which found its code; None: not told. `recycled_before`: this start is itself
    the second one. `awaited`: whether a request waits; None: nobody can tell.
    """
    if size_given or recycled_before or awaited or verdict not in _COMPILED or not compiles:
        return None
    if kv_tokens is None:
        return None
    if restored_kv_tokens is None:
        return f"it compiled, and its KV cache ({kv_tokens:,} tokens) is what that left of the memory"
    if kv_tokens >= restored_kv_tokens * (1 - LESS):
        return None
    return f"its KV cache has {kv_tokens:,} tokens, with compiled code it has {restored_kv_tokens:,}"
