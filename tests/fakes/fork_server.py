"""A fork server of the real code that imports nothing of vLLM and whose engines run a few lines of Python.

A fake of vLLM's imports only: fork, adoption, environment, output and end are the real ones.
argv: mode, the channel's descriptor. Modes: `ok`, `unsafe`, `dies` (while importing), `silent` (never says ready).
"""

import os
import sys
import time
import types

from runtime.engine.fork import server

mode = sys.argv.pop(1)


def _main() -> None:
    exec(sys.argv[1], {"sys": sys, "os": os, "time": time})  # noqa: S102  (the test is the author of this code)


vllm = types.ModuleType("vllm.entrypoints.cli.main")
vllm.main = _main  # type: ignore[attr-defined]  # stands in for vLLM's command line
system_utils = types.ModuleType("vllm.utils.system_utils")
system_utils.get_mp_context = None  # type: ignore[attr-defined]  # patched, not called
torch = types.ModuleType("torch")
torch.cuda = types.SimpleNamespace(is_initialized=lambda: mode == "unsafe")  # type: ignore[attr-defined]  # fake CUDA
for name in ("vllm", "vllm.entrypoints", "vllm.entrypoints.cli", "vllm.utils"):
    sys.modules[name] = types.ModuleType(name)
sys.modules |= {"vllm.entrypoints.cli.main": vllm, "vllm.utils.system_utils": system_utils, "torch": torch}
sys.modules["vllm.utils"].system_utils = system_utils  # type: ignore[attr-defined]  # as an import would set it

if mode == "dies":
    sys.exit("no")
if mode == "silent":
    time.sleep(600)
server.main((), int(sys.argv[1]))
