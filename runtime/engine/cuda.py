"""vLLM on an NVIDIA GPU: its flags, its lines and spans.

Untested on a GPU: written from the source of vLLM 0.32 (`v1/worker/gpu_worker.py`, `v1/worker/gpu_model_runner.py`,
`compilation/monitor.py`, `compilation/backends.py`) and tested on lines written after it. With several GPUs the
first worker that speaks counts.
"""

from collections.abc import Mapping

from runtime.contract import EngineSpec, Mark, Stage
from runtime.engine.capture.steps import BUCKET_ARGS
from runtime.engine.platforms import COMMON_CHECKS, COMMON_LINES, LineRule, SpanCheck, SpanEdge, SpanRule, rule

_LINES: tuple[LineRule, ...] = (
    *COMMON_LINES,
    rule(r"Model loading took ", ends=(Stage.WEIGHT_LOAD, Stage.WEIGHT_CONVERT), mark=Mark.T5),
    rule(r"Starting torch\.compile", begins=(Stage.COMPILE,)),
    # A warm start announces no compile: it begins where the first graph was asked of the cache.
    rule(r"Directly load the compiled graph\(s\) .* took (?P<took>[\d.]+) s", begins=(Stage.COMPILE,)),
    rule(r"torch\.compile took [\d.]+ s in total", ends=(Stage.COMPILE,), begins=(Stage.MEMORY_PROFILE,), mark=Mark.T6),
    rule(
        r"Initial profiling/warmup run took (?P<took>[\d.]+) s", ends=(Stage.COMPILE,), begins=(Stage.MEMORY_PROFILE,)
    ),
    rule(r"Available KV cache memory: ", ends=(Stage.MEMORY_PROFILE,)),
    rule(r"Capturing CUDA graphs \(", begins=(Stage.GRAPH_CAPTURE,)),
    rule(r"Graph capturing finished in ", ends=(Stage.GRAPH_CAPTURE,)),
)

# vLLM logs no edge of KV cache allocation and kernel warm-up here; only its spans tell them apart.
_SPANS: tuple[SpanRule, ...] = (
    SpanRule("Allocate KV cache", "begin", begins=(Stage.KV_CACHE,)),
    SpanRule("Allocate KV cache", "end", ends=(Stage.KV_CACHE,)),
    SpanRule("Capture model", "begin", begins=(Stage.GRAPH_CAPTURE,), ends=(Stage.WARM_UP,)),
    SpanRule("Capture model", "end", ends=(Stage.GRAPH_CAPTURE,)),
    SpanRule("Warmup (GPU)", "begin", begins=(Stage.WARM_UP,)),
    SpanRule("Warmup (GPU)", "end", ends=(Stage.WARM_UP,)),
)

_CHECKS: tuple[SpanCheck, ...] = (
    *COMMON_CHECKS,
    SpanCheck((Stage.DEVICE_INIT,), SpanEdge("Worker init", "begin"), SpanEdge("Loading (GPU)", "begin")),
    SpanCheck.whole(Stage.KV_CACHE, "Allocate KV cache"),
    SpanCheck.whole(Stage.GRAPH_CAPTURE, "Capture model"),
)


class Cuda:
    """The CUDA build of vLLM."""

    lines = _LINES
    spans = _SPANS
    checks = _CHECKS

    def args(self, spec: EngineSpec) -> tuple[str, ...]:
        """Steps counted finely enough to choose capture sizes. vLLM takes the GPUs that CUDA_VISIBLE_DEVICES shows."""
        del spec
        return BUCKET_ARGS

    def env(self, spec: EngineSpec) -> Mapping[str, str]:
        """Nothing of our own."""
        del spec
        return {}
