"""What a worker does before an image of it is made, and first of all when it is restored. Runs inside the engine.

Its KV cache has nothing that another engine may know: its pages are given back to the kernel, which gives zeroed ones
when they are written again, so that they are in no image either (one GiB of zeros on a CPU by default).
"""

import ctypes
import mmap
from typing import Any, Final

from runtime.ready.gate_seal import WORKERS_SEAL, WORKERS_WAKE

_MADV_DONTNEED: Final = 4
_ARCH_PRCTL: Final = 158
"""Its number on x86_64 (arch/x86/entry/syscalls/syscall_64.tbl)."""
_ARCH_REQ_XCOMP_PERM: Final = 0x1023
_XTILEDATA: Final = 18
"""The kernel lets a process use AMX tiles only once it has asked (Documentation/arch/x86/xstate.rst)."""


def let_workers_seal() -> None:
    """Add both methods to vLLM's workers, which the gate calls by name."""
    from vllm.v1.worker.worker_base import WorkerBase  # noqa: PLC0415  (only engines have vLLM)

    setattr(WorkerBase, WORKERS_SEAL, _seal)
    setattr(WorkerBase, WORKERS_WAKE, _wake)


def _seal(worker: Any) -> int:
    """Give the KV cache's pages back; how many bytes."""
    given = {}
    for tensor in _tensors(worker.model_runner.kv_caches):
        if tensor.device.type == "cpu":
            storage = tensor.untyped_storage()
            given[storage.data_ptr()] = storage.nbytes()
    return sum(_give_back(address, size) for address, size in given.items())


def _wake(worker: Any) -> None:
    """Ask for AMX again where there is any: the permission is the kernel's and in no image. Else it says no."""
    del worker
    ctypes.CDLL(None).syscall(_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XTILEDATA)


def _tensors(caches: Any) -> list[Any]:
    if isinstance(caches, (list, tuple)):
        return [tensor for cache in caches for tensor in _tensors(cache)]
    return [caches] if hasattr(caches, "untyped_storage") else []


def _give_back(address: int, size: int) -> int:
    """The whole pages of a range of private memory."""
    begin = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    length = (address + size) // mmap.PAGESIZE * mmap.PAGESIZE - begin
    if length <= 0:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    madvise = libc.madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return length if madvise(begin, length, _MADV_DONTNEED) == 0 else 0
