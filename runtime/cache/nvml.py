"""NVIDIA GPUs as the driver's management library (NVML) tells of them, without CUDA and without a Python package.

NVML makes no CUDA context, so a host that asked it can still fork engines. The functions and sizes below are those of
NVML's own documentation (nvml.h); only ones that exist since driver 450 are used.
"""

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, cast

LIBRARY = "libnvidia-ml.so.1"
_TEXT_BYTES = 96  # NVML_DEVICE_NAME_V2_BUFFER_SIZE, the largest buffer asked for here
_NOT_FOUND = 6  # NVML_ERROR_NOT_FOUND: no MIG device has this number
_GIB = 2**30


class NvmlError(RuntimeError):
    """The driver is there and does not answer; `str()` names the call and its code."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device that engines may use: a GPU, or a MIG device of one.

    `architecture`: compute capability (`9.0`). `memory_gib`: rounded, as equal boards differ by a few MiB.
    """

    name: str
    architecture: str
    memory_gib: int


@dataclass(frozen=True, slots=True)
class Gpus:
    """All devices in the driver's order; `driver` is its version, `cuda` the newest CUDA that it runs (`13.0`)."""

    devices: tuple[Gpu, ...]
    driver: str
    cuda: str


class Library(Protocol):
    """A loaded NVML; its functions return 0 or an error code."""

    def __getattr__(self, name: str) -> Callable[..., int]: ...


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def load() -> Library | None:
    """The library; None where no NVIDIA driver is installed."""
    try:
        return cast("Library", ctypes.CDLL(LIBRARY))
    except OSError:
        return None


def read_gpus(library: Library) -> Gpus:
    """What the driver shows this process. Raises NvmlError."""
    _call(library, "nvmlInit_v2")
    try:
        cuda = _number(library, "nvmlSystemGetCudaDriverVersion_v2")
        return Gpus(
            devices=tuple(_devices(library)),
            driver=_text(library, "nvmlSystemGetDriverVersion"),
            cuda=f"{cuda // 1000}.{cuda % 1000 // 10}",
        )
    finally:
        library.nvmlShutdown()


def _devices(library: Library) -> Iterator[Gpu]:
    for index in range(_number(library, "nvmlDeviceGetCount_v2")):
        handle = ctypes.c_void_p()
        _call(library, "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        major, minor = ctypes.c_int(), ctypes.c_int()
        _call(library, "nvmlDeviceGetCudaComputeCapability", handle, ctypes.byref(major), ctypes.byref(minor))
        for device in [*_mig_devices(library, handle)] or [handle]:
            yield Gpu(
                name=_text(library, "nvmlDeviceGetName", device),
                architecture=f"{major.value}.{minor.value}",
                memory_gib=_memory_gib(library, device),
            )


def _mig_devices(library: Library, handle: ctypes.c_void_p) -> Iterator[ctypes.c_void_p]:
    """The slices of a GPU in MIG mode, which is then no device itself; nothing where it is not, or knows no MIG."""
    current, pending = ctypes.c_uint(), ctypes.c_uint()
    if library.nvmlDeviceGetMigMode(handle, ctypes.byref(current), ctypes.byref(pending)) or not current.value:
        return
    for index in range(_number(library, "nvmlDeviceGetMaxMigDeviceCount", handle)):
        device = ctypes.c_void_p()
        code = library.nvmlDeviceGetMigDeviceHandleByIndex(handle, ctypes.c_uint(index), ctypes.byref(device))
        if code == 0:
            yield device
        elif code != _NOT_FOUND:
            raise NvmlError(f"nvmlDeviceGetMigDeviceHandleByIndex answered {code}")


def _memory_gib(library: Library, handle: ctypes.c_void_p) -> int:
    memory = _Memory()
    _call(library, "nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
    return round(int(memory.total) / _GIB)


def _text(library: Library, name: str, *args: Any) -> str:
    buffer = ctypes.create_string_buffer(_TEXT_BYTES)
    _call(library, name, *args, buffer, ctypes.c_uint(_TEXT_BYTES))
    return buffer.value.decode(errors="replace")


def _number(library: Library, name: str, *args: Any) -> int:
    value = ctypes.c_uint()
    _call(library, name, *args, ctypes.byref(value))
    return value.value


def _call(library: Library, name: str, *args: Any) -> None:
    code = getattr(library, name)(*args)
    if code:
        raise NvmlError(
            f"{name} of the NVIDIA driver answered {code}: does nvidia-smi work here? "
            "(a container needs the NVIDIA runtime; a driver that was updated under it, a new container)"
        )
