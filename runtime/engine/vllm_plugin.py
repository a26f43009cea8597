"""vLLM's general plugin: says that a process has done its imports. Inert unless PILOTLIGHT_STAGES=1.

vLLM calls it once in the API server, in EngineCore and in each Worker, and in helper processes, which count as
`other`. Its entry point is `vllm.general_plugins: pilotlight`; vLLM loads it unless VLLM_PLUGINS leaves it out.
"""

import multiprocessing
import sys

from runtime.engine.marker import emit, role_of


def register() -> None:
    """Print the `plugin` marker of this process."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    emit("plugin", role_of(multiprocessing.current_process().name, getattr(spec, "name", "")))
