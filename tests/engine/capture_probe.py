"""Asks the installed vLLM, in a process of its own: its capture sizes, and whether it takes our arguments."""

import json
import sys
from types import SimpleNamespace

from vllm.config import CUDAGraphMode, VllmConfig
from vllm.config.observability import ObservabilityConfig
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.utils.argparse_utils import FlexibleArgumentParser


def own(max_num_seqs: int) -> list[int]:
    """What `VllmConfig` would capture on CUDA: its own method, on an object with what it reads."""
    compilation = SimpleNamespace(
        cudagraph_mode=CUDAGraphMode.FULL_AND_PIECEWISE,
        max_cudagraph_capture_size=None,
        cudagraph_capture_sizes=None,
        post_init_cudagraph_sizes=lambda: None,
    )
    VllmConfig._set_cudagraph_sizes(
        SimpleNamespace(
            model_config=SimpleNamespace(enforce_eager=False),
            compilation_config=compilation,
            uniform_decode_query_len=1,
            scheduler_config=SimpleNamespace(max_num_seqs=max_num_seqs, max_num_batched_tokens=8192),
            speculative_config=None,
            performance_mode="balanced",
        )
    )
    sizes: list[int] = compilation.cudagraph_capture_sizes or []
    return sizes


given = json.load(sys.stdin)
read = AsyncEngineArgs.from_cli_args(AsyncEngineArgs.add_cli_args(FlexibleArgumentParser()).parse_args(given["args"]))
buckets = ObservabilityConfig(custom_histogram_buckets=read.custom_histogram_buckets).custom_histogram_buckets
told = {"own": {seqs: own(seqs) for seqs in given["seqs"]}, "sizes": read.cudagraph_capture_sizes, "buckets": buckets}
print(json.dumps(told))
