"""Has an engine run on asyncio's own event loop: libuv keeps an io_uring mapped, which CRIU cannot dump.

Runs inside each of the engine's processes before vLLM is imported; imports only the standard library.
"""

import asyncio
import os
import sys
from types import ModuleType

from runtime.ready.gate_seal_env import SNAPSHOT_ENV


def plain_loop() -> None:
    """From now on `uvloop` is asyncio in this process, where it is begun for an image of it."""
    if os.environ.get(SNAPSHOT_ENV) != "1":
        return
    stand_in = ModuleType("uvloop", "asyncio by uvloop's name")
    stand_in.run = asyncio.run  # type: ignore[attr-defined]  # a module made here
    stand_in.new_event_loop = asyncio.new_event_loop  # type: ignore[attr-defined]  # likewise
    stand_in.install = _nothing  # type: ignore[attr-defined]  # likewise
    stand_in.Loop = asyncio.SelectorEventLoop  # type: ignore[attr-defined]  # likewise
    stand_in.EventLoopPolicy = asyncio.DefaultEventLoopPolicy  # type: ignore[attr-defined]  # likewise
    sys.modules["uvloop"] = stand_in


def _nothing() -> None:
    """What uvloop would install is there already."""
