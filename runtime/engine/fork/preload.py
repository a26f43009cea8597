"""What a fork server imports before its first fork, so that no engine pays for it.

Seen on vLLM 0.32, by what `sys.modules` of the API server, EngineCore and Worker had gained at the end of a start. Only
importing is allowed here: whatever reads a model, an engine's own environment or a device belongs to the engine.
"""

FIRST = (
    # By this name, and torch with it: what follows takes its `get_mp_context` from there.
    "runtime.engine.fork.child",
    "runtime.engine.vllm_plugin",
    "vllm.entrypoints.cli.main",
)
_COMMAND_LINE = (
    "vllm.entrypoints.cli.serve",
    "vllm.entrypoints.cli.openai",
    "vllm.entrypoints.cli.launch",
    "vllm.entrypoints.cli.benchmark.main",
    "vllm.entrypoints.cli.collect_env",
    "vllm.entrypoints.cli.download_kernels",
    "vllm.entrypoints.cli.preload",
    "vllm.entrypoints.cli.run_batch",
    "vllm.entrypoints.cli.snapshot",
)
_API_SERVER = (
    "vllm.entrypoints.launchers.api_server.entry",
    "vllm.entrypoints.launchers.run_batch",
    "vllm.v1.engine.async_llm",
    "vllm.renderers.hf",
    "vllm.entrypoints.serve.instrumentator.metrics",
    "vllm.entrypoints.serve.instrumentator.offline_docs",
    "vllm.entrypoints.serve.lora.api_router",
    "vllm.entrypoints.serve.profile.api_router",
    "vllm.entrypoints.serve.tokenize.api_router",
    "vllm.entrypoints.serve.elastic_ep.api_router",
    "vllm.entrypoints.serve.utils.fingerprint",
    "vllm.entrypoints.openai.models.api_router",
    "vllm.entrypoints.openai.chat_completion.api_router",
    "vllm.entrypoints.openai.completion.api_router",
    "vllm.entrypoints.openai.responses.api_router",
    "vllm.entrypoints.anthropic.api_router",
    "vllm.entrypoints.cohere.api_router",
    "vllm.entrypoints.generate.api_router",
    "vllm.entrypoints.generate.structured_decisions.api_router",
    "vllm.entrypoints.generate.generative_scoring.api_router",
    "vllm.entrypoints.scale_out.render.api_router",
    "vllm.entrypoints.scale_out.derender.api_router",
    "vllm.entrypoints.scale_out.token_in_token_out.api_router",
    "model_hosting_container_standards.sagemaker",
    "vllm.plugins.lora_resolvers.hf_hub_resolver",
    "uvicorn.protocols.http.httptools_impl",
    "uvicorn.protocols.websockets.websockets_sansio_impl",
    "uvicorn.lifespan.on",
)
_ENGINE = (
    "setproctitle",
    "vllm.v1.engine.core",
    "vllm.v1.core.sched.scheduler",
    "vllm.v1.executor.multiproc_executor",
    "vllm.v1.worker.gpu_model_runner",
    "vllm.model_executor.models.llama",
    "vllm.model_executor.layers.quantization.online.base",
    "vllm.compilation.backends",
    "vllm.compilation.caching",
    "torch._dynamo.backends.cudagraphs",
    "torch._dynamo.backends.distributed",
    "torch._dynamo.backends.inductor",
    "torch._dynamo.backends.tvm",
    "torch._inductor.compile_fx",
    "torch._inductor.hooks",
    "torch._inductor.codegen.memory_planning",
    "torch._functorch._aot_autograd.autograd_cache",
    "torch._functorch._aot_autograd.subclass_codegen",
    "torch.fx.experimental.validator",
)
_PLATFORM = {
    "cpu": (
        "vllm.v1.worker.cpu_worker",
        "vllm.v1.worker.cpu_model_runner",
        "vllm.v1.attention.backends.cpu_attn",
    ),
    "cuda": ("vllm.v1.worker.gpu_worker", "vllm.v1.attention.backends.flash_attn"),
}


def modules(platform: str) -> tuple[str, ...]:
    """The modules to import on `platform` (`cpu`, `cuda`), in this order."""
    return (*FIRST, *_COMMAND_LINE, *_API_SERVER, *_ENGINE, *_PLATFORM[platform])
