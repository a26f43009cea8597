"""Every way in which vLLM can read weights, by name: its arguments, what it needs, and how to get that.

Pure. A way that cannot be used here is named with the reason, never left out in silence.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Layout = Literal["safetensors", "sharded", "tensorizer", "any"]
"""What the files must be: a checkpoint; one file for each rank (`prepare --tensor-parallel`); one `.tensors` file."""

CONCURRENCIES = (1, 2, 4, 8, 16, 32)
"""Readers that the streamer is tried with."""

STREAMER_VERSION = "runai-model-streamer>=0.17,<0.18"


@dataclass(frozen=True, slots=True)
class Loader:
    """One way. `options` become `--model-loader-extra-config`, `flags` stand as they are.

    `module` must be importable, from the package `package`. `cuda`: works on NVIDIA GPUs only. `url`: reads URLs, too.
    """

    name: str
    load_format: str
    flags: tuple[str, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    module: str | None = None
    package: str | None = None
    cuda: bool = False
    url: bool = False
    layout: Layout = "safetensors"

    def args(self, options: Mapping[str, object] | None = None) -> tuple[str, ...]:
        """Arguments of vLLM; `options` are added to the loader's own."""
        whole = {**self.options, **(options or {})}
        extra = (f"--model-loader-extra-config={json.dumps(whole, sort_keys=True)}",) if whole else ()
        named = () if self.load_format == "auto" else (f"--load-format={self.load_format}",)
        return (*named, *self.flags, *extra)


def _strategy(name: str) -> Loader:
    return Loader(name, "safetensors", flags=(f"--safetensors-load-strategy={name}",))


def streamer(concurrency: int) -> Loader:
    """`runai_streamer` with so many readers at the same time."""
    return Loader(
        f"runai_streamer-{concurrency}",
        "runai_streamer",
        options={"concurrency": concurrency},
        module="runai_model_streamer",
        package=STREAMER_VERSION,
        url=True,
    )


PLAIN = Loader("default", "auto", layout="any")
"""What vLLM does when nothing is said; the last resort, for it needs nothing but the files."""

PEER = Loader("modelexpress", "modelexpress", module="modelexpress", package="modelexpress", cuda=True, layout="any")

LOADERS: tuple[Loader, ...] = (
    PLAIN,
    *(_strategy(name) for name in ("lazy", "eager", "prefetch")),
    Loader("threads-8", "safetensors", options={"enable_multithread_load": True, "num_threads": 8}),
    *(streamer(concurrency) for concurrency in CONCURRENCIES),
    Loader("fastsafetensors", "fastsafetensors", module="fastsafetensors", package="fastsafetensors", cuda=True),
    Loader("instanttensor", "instanttensor", module="instanttensor", package="instanttensor", cuda=True),
    Loader("tensorizer", "tensorizer", module="tensorizer", package="tensorizer", layout="tensorizer"),
    Loader("sharded_state", "sharded_state", layout="sharded"),
    Loader(
        "runai_streamer_sharded",
        "runai_streamer_sharded",
        module="runai_model_streamer",
        package=STREAMER_VERSION,
        url=True,
        layout="sharded",
    ),
    PEER,
)

BY_NAME: Mapping[str, Loader] = {loader.name: loader for loader in LOADERS}


@dataclass(frozen=True, slots=True)
class Here:
    """What there is to load with. `modules`: which of the loaders' modules can be imported.

    `layout`: what the files are. `peer_server`: the address of a ModelExpress server, None where there is none.
    """

    modules: frozenset[str]
    cuda: bool
    url: bool
    layout: Layout
    peer_server: str | None = None


def why_not(loader: Loader, here: Here) -> str | None:
    """Why `loader` cannot be used here, with what would make it possible; None: it can."""
    if loader.cuda and not here.cuda:
        return "needs an NVIDIA GPU"
    if loader.module is not None and loader.module not in here.modules:
        return f"not installed: pip install '{loader.package}'"
    if here.url and not loader.url:
        return "reads no URL"
    if loader is PEER and here.peer_server is None:
        return "no ModelExpress server: set MODEL_EXPRESS_URL"
    if loader.layout == "sharded" and here.layout != "sharded":
        return "needs one file for each rank: pilotlight weights prepare --tensor-parallel N"
    if loader.layout == "tensorizer" and here.layout != "tensorizer":
        return "needs a .tensors file: serialize the model with vLLM's tensorize_vllm_model"
    if loader.layout in {"safetensors", "any"} and here.layout in {"sharded", "tensorizer"}:
        return f"the files are {here.layout}, not a checkpoint"
    return None
