"""The machine as far as compiled code depends on it: processor, and on `cuda` the GPUs, their driver and CUDA.

Everything here stays as it is for the life of a process, so it is read once.
"""

import functools
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from runtime.cache import nvml

IMAGE_ENV = "PILOTLIGHT_IMAGE"
IMAGE_FILE = Path("/etc/pilotlight/image")
"""Where the image's digest is told: the variable first (the pod's spec knows it), then the file."""

_VECTOR = re.compile(
    r"avx\w*|amx\w*|sse\w*|ssse3|pni|fma4?|f16c|bmi\d|abm|popcnt|movbe|v?aes|v?pclmulqdq|sha_ni|gfni|adx|lahf_lm|cx16"
)
"""Flags of an x86 processor that a compiler for `native` turns into instructions. The rest (mitigations, timers,
virtualization, privileged instructions) differs between machines that run the same code."""

_DIGEST = re.compile(r"(?:[\w.:/-]+@)?(sha256:[0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Machine:
    """What of this machine enters a fingerprint. `gpus` None: no NVIDIA driver, or not asked for.

    `processors`: how many an engine may use, and how many threads each core has; a CPU kernel is generated for their
    number. `image`: digest of the container image, None if nobody told.
    """

    architecture: str
    instructions: str
    processors: str
    image: str | None = None
    gpus: nvml.Gpus | None = None
    toolkit: str | None = None


class MachineError(ValueError):
    """What was told of this machine cannot be right; `str()` says what and how to mend it."""


def this_machine(engine: Literal["cpu", "cuda"], environ: Mapping[str, str] = os.environ) -> Machine:
    """Describe this machine for one platform. Raises MachineError, and NvmlError where a GPU does not answer."""
    architecture, instructions, processors = _processor()
    return Machine(
        architecture=architecture,
        instructions=instructions,
        processors=processors,
        image=image_digest(environ),
        gpus=_gpus() if engine == "cuda" else None,
        toolkit=_toolkit(environ) if engine == "cuda" else None,
    )


def machine_inputs(machine: Machine, engine: Literal["cpu", "cuda"], visible: str | None = None) -> dict[str, str]:
    """Its inputs; `visible` is the engine's CUDA_VISIBLE_DEVICES, which matters where the GPUs differ."""
    found = {"machine.architecture": machine.architecture, "machine.instructions": machine.instructions}
    if machine.image:
        found["image"] = machine.image
    if engine == "cpu":
        return {**found, "machine.processors": machine.processors}
    if machine.toolkit:
        found["cuda.toolkit"] = machine.toolkit
    if machine.gpus is None:
        return {**found, "gpu": "none"}
    return {**found, "gpu.driver": machine.gpus.driver, "cuda.driver": machine.gpus.cuda, **_devices(machine, visible)}


def _devices(machine: Machine, visible: str | None) -> dict[str, str]:
    """Equal GPUs count once, however many: their number is the business of the parallel sizes."""
    devices = machine.gpus.devices if machine.gpus else ()
    kinds = sorted({(gpu.architecture, gpu.name, f"{gpu.memory_gib} GiB") for gpu in devices})
    if not kinds:
        return {"gpu": "none"}
    found = {
        "gpu.architecture": ", ".join(dict.fromkeys(kind[0] for kind in kinds)),
        "gpu.name": ", ".join(dict.fromkeys(kind[1] for kind in kinds)),
        "gpu.memory": ", ".join(dict.fromkeys(kind[2] for kind in kinds)),
    }
    return {**found, "gpu.visible": visible or "all"} if len(kinds) > 1 else found


def image_digest(environ: Mapping[str, str] = os.environ, file: Path = IMAGE_FILE) -> str | None:
    """The image that this runs in, as `sha256:…`; a tag would name another one tomorrow. Raises MachineError."""
    told, where = environ.get(IMAGE_ENV, ""), IMAGE_ENV
    if not told and file.is_file():
        told, where = file.read_text(encoding="utf-8", errors="replace"), str(file)
    if not told.strip():
        return None
    found = _DIGEST.fullmatch(told.strip())
    if found is None:
        wanted = "[name@]sha256:<64 hex digits>"
        raise MachineError(f"{where} names no image digest: {told.strip()[:100]!r} (wanted: {wanted})")
    return found[1]


@functools.cache
def _processor() -> tuple[str, str, str]:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    return platform.machine(), instructions(text), processors()


def instructions(cpuinfo: str) -> str:
    """The instruction set out of the text of /proc/cpuinfo, the same for equal processors on other hosts.

    On a machine with unlike cores only what all of them have counts. ARM lists `Features`, all of which count.
    """
    flags = [set(line.partition(":")[2].split()) for line in cpuinfo.splitlines() if line.startswith("flags")]
    if flags:
        return " ".join(sorted(flag for flag in set.intersection(*flags) if _VECTOR.fullmatch(flag)))
    features = [set(line.partition(":")[2].split()) for line in cpuinfo.splitlines() if line.startswith("Features")]
    return " ".join(sorted(set.intersection(*features))) if features else "unknown"


def processors() -> str:
    """How many processors this process may use, and threads a core: what vLLM binds its threads by."""
    usable = os.sched_getaffinity(0)
    cores = {_siblings(number) for number in usable}
    return f"{len(usable)} on {len(cores)} cores"


def _siblings(number: int) -> str:
    try:
        return Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(number)


@functools.cache
def _gpus() -> nvml.Gpus | None:
    library = nvml.load()
    return nvml.read_gpus(library) if library else None


def _toolkit(environ: Mapping[str, str]) -> str | None:
    """The CUDA toolkit whose compiler DeepGEMM and FlashInfer call: the text of its own version file."""
    home = Path(environ.get("CUDA_HOME") or environ.get("CUDA_PATH") or "/usr/local/cuda")
    try:
        text = (home / "version.json").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r'"cuda"\s*:\s*\{[^}]*"version"\s*:\s*"([\d.]+)"', text)
    return found[1] if found else "unknown"
