"""vLLM's general plugin: says that a process has done its imports, collects garbage again, and repairs AOT loading.

Inert unless PILOTLIGHT_STAGES=1, so that a vLLM that is not ours stays as it is.

vLLM calls it once in the API server, in EngineCore and in each Worker, and in helper processes, which count as
`other`. Its entry point is `vllm.general_plugins: pilotlight`; vLLM loads it unless VLLM_PLUGINS leaves it out.
"""

import gc
import multiprocessing
import os
import sys

from runtime.engine.aot import repair_aot_load
from runtime.engine.marker import STAGES_ENV, emit, role_of
from runtime.engine.snapshot.worker import let_workers_seal
from runtime.ready.gate_seal_env import SNAPSHOT_ENV


def register() -> None:
    """Print the `plugin` marker of this process, collect garbage again (serve.py), repair the loading of artifacts."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    emit("plugin", role_of(multiprocessing.current_process().name, getattr(spec, "name", "")))
    if os.environ.get(STAGES_ENV) == "1":
        gc.freeze()
        gc.enable()
        repair_aot_load()
        if os.environ.get(SNAPSHOT_ENV) == "1":
            let_workers_seal()
