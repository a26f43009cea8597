"""vLLM on a CPU: its flags, its lines and spans. Seen on vLLM 0.32 with the recordings under tests/data."""

from collections.abc import Mapping

from runtime.contract import EngineSpec, Mark, Stage
from runtime.engine.platforms import COMMON_CHECKS, COMMON_LINES, LineRule, SpanCheck, SpanEdge, SpanRule, rule

KV_CACHE_GIB = "1"
"""Without a figure vLLM takes most of the machine's memory for the KV cache; one GiB lets several engines live here."""

_LINES: tuple[LineRule, ...] = (
    *COMMON_LINES,
    # EngineCore speaks again once its workers have their weights.
    rule(r"Using \w+ KV cache layout", ends=(Stage.WEIGHT_LOAD, Stage.WEIGHT_CONVERT), mark=Mark.T5),
    rule(
        r"Warming up model for the compilation",
        ends=(Stage.WEIGHT_LOAD, Stage.WEIGHT_CONVERT),
        begins=(Stage.COMPILE,),
        mark=Mark.T5,
    ),
    rule(
        r"Initial profiling/warmup run took (?P<took>[\d.]+) s",
        ends=(Stage.COMPILE,),
        begins=(Stage.WARM_UP,),
        mark=Mark.T6,
    ),
    rule(r"Warming up done\.", ends=(Stage.COMPILE, Stage.WARM_UP), begins=(Stage.MEMORY_PROFILE,), mark=Mark.T6),
    rule(r"^(?:Explicitly|Auto) set \(", ends=(Stage.MEMORY_PROFILE,), begins=(Stage.KV_CACHE,)),
    rule(r"init engine \(profile, create kv cache, warmup model\) took ", ends=(Stage.KV_CACHE,)),
)

_CHECKS: tuple[SpanCheck, ...] = (
    *COMMON_CHECKS,
    SpanCheck(
        (Stage.INTERPRETER_WORKER, Stage.IMPORTS_WORKER),
        SpanEdge("Executor init", "begin"),
        SpanEdge("Worker init", "begin"),
    ),
    SpanCheck((Stage.DEVICE_INIT,), SpanEdge("Worker init", "begin"), SpanEdge("Loading (CPU)", "begin")),
    SpanCheck((Stage.COMPILE, Stage.WARM_UP), SpanEdge("Warmup (CPU)", "begin"), SpanEdge("Warmup (CPU)", "end")),
    SpanCheck.whole(Stage.KV_CACHE, "Allocate KV cache"),
)


class Cpu:
    """The CPU build of vLLM."""

    lines = _LINES
    spans: tuple[SpanRule, ...] = ()
    checks = _CHECKS

    def args(self, spec: EngineSpec) -> tuple[str, ...]:
        """Nothing: the build decides the device."""
        del spec
        return ()

    def env(self, spec: EngineSpec) -> Mapping[str, str]:
        """A bounded KV cache, and what vLLM sets for its workers before they import (`platforms/cpu.py`).

        A forked worker has imported by then, and torch reads the latter two at import: the key of its compile cache
        would be another than that of a spawned one.
        """
        del spec
        return {
            "VLLM_CPU_KVCACHE_SPACE": KV_CACHE_GIB,
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "TORCHINDUCTOR_CPP_DYNAMIC_THREADS": "1",
        }
