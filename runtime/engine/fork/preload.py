"""What a fork server imports before its first fork, so that no engine pays for it.

Seen on vLLM 0.32: the modules that the API server, EngineCore and Worker of a start imported and that were not there
yet (`tests/engine/test_fork.py` fails when a start imports much more than this brought). Only importing is allowed
here: whatever reads a model, an engine's own environment or a device belongs to the engine.
"""

MODULES = (
    # First, and by this name: what follows takes its `get_mp_context` from there.
    "runtime.engine.fork.child",
    "vllm.entrypoints.cli.main",
    "vllm.entrypoints.cli.serve",
    "vllm.entrypoints.cli.openai",
    "vllm.entrypoints.cli.launch",
    "vllm.entrypoints.cli.benchmark.main",
    "vllm.entrypoints.cli.collect_env",
    "vllm.entrypoints.cli.download_kernels",
    "vllm.entrypoints.cli.preload",
    "vllm.entrypoints.cli.run_batch",
    "vllm.entrypoints.cli.snapshot",
    "vllm.entrypoints.launchers.api_server.entry",
    "vllm.v1.engine.async_llm",
    "vllm.v1.engine.core",
    "vllm.v1.executor.multiproc_executor",
    "vllm.v1.worker.gpu_model_runner",
    "vllm.model_executor.models.llama",
    "torch._dynamo",
    "torch._inductor.compile_fx",
    "torch._functorch._aot_autograd.autograd_cache",
)
