"""Lets vLLM load the compiled artifact that it saved on a CPU; inert where vLLM loads it by itself.

vLLM 0.32 calls `finalize_loading` on what it loaded (`compilation/decorators.py`, `_try_load_aot_compiled_fn`), which
only its own wrapper of CUDA graphs has. On a CPU the backend is plain inductor, the loaded function is an ordinary one,
the call fails and every start compiles anew ("Compiling model again due to a load failure"). An ordinary function has
nothing to finalize: it is whole once loaded.
"""

import functools
from collections.abc import Callable
from typing import Any


def repair_aot_load() -> None:
    """From now on this process loads saved artifacts. May be called twice."""
    import torch.compiler  # noqa: PLC0415  (only engines have torch)

    load = torch.compiler.load_compiled_function
    if getattr(load, "repaired", False):
        return

    @functools.wraps(load)
    def repaired_load(*args: Any, **kwargs: Any) -> Any:
        function = load(*args, **kwargs)
        artifacts = getattr(function, "_artifacts", None)
        compiled = getattr(artifacts, "compiled_fn", None)
        if artifacts is not None and callable(compiled) and not hasattr(compiled, "finalize_loading"):
            artifacts.compiled_fn = _finalizable(compiled)
        return function

    repaired_load.repaired = True  # type: ignore[attr-defined]  # a mark on a function
    torch.compiler.load_compiled_function = repaired_load


def _finalizable(compiled: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(compiled)
    def whole(*args: Any, **kwargs: Any) -> Any:
        return compiled(*args, **kwargs)

    whole.finalize_loading = lambda _config: None  # type: ignore[attr-defined]  # what vLLM calls
    return whole
