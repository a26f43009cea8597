"""MODEL, arguments and environment, as a service gives them → the engine of a start, and its fingerprint.

The same spec, arguments and environment that a host's start has: whatever it adds, it adds here too.
"""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Literal

from runtime.cache.cli.failures import Refused
from runtime.cache.fingerprint import Fingerprint
from runtime.cache.inputs import fingerprint_of
from runtime.contract import EngineSpec
from runtime.engine.argv import engine_arguments, import_environment
from runtime.weights.integrity import is_url

SERVICE = "build/variant"
"""Neither it nor the served name enters a fingerprint."""


def platform_of(choice: str) -> Literal["cpu", "cuda"]:
    """`auto`: cuda where its driver's own tool is installed, as `pilotlight up` has it."""
    return "cuda" if choice == "cuda" or (choice == "auto" and shutil.which("nvidia-smi")) else "cpu"


def spec_of(
    model: str, args: tuple[str, ...], env: dict[str, str], platform: str, *, timeout_s: float = 1800.0
) -> EngineSpec:
    """The engine that a host would start. Raises Refused."""
    if not is_url(model):
        directory = Path(model).expanduser().absolute()
        if not directory.is_dir():
            raise Refused(f"{model}: no such model directory: copy the model there or correct the path")
        model = str(directory)
    spec = EngineSpec(
        service=SERVICE,
        served_names=(SERVICE,),
        model=model,
        args=args,
        env=env,
        platform=platform_of(platform),
        start_timeout_s=timeout_s,
    )
    try:
        _started(spec)
    except ValueError as error:
        raise Refused(str(error)) from error
    return spec


async def fingerprint(spec: EngineSpec) -> Fingerprint:
    """What a start of `spec` on this machine is keyed by. Raises StructureError, MachineError, NvmlError."""
    environ, args = _started(spec)
    return await asyncio.to_thread(fingerprint_of, spec, environ=environ, args=args)


def _started(spec: EngineSpec) -> tuple[dict[str, str], tuple[str, ...]]:
    """What `Launcher.find_cache` has of it."""
    return import_environment(spec, os.environ), engine_arguments(spec, 1, None)[2:]
