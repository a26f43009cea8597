"""The machine: the same on equal machines, whatever their mitigations, serials and visible devices."""

import ctypes
from pathlib import Path
from typing import Any

import pytest

from runtime.cache.machine import (
    IMAGE_ENV,
    Machine,
    MachineError,
    image_digest,
    instructions,
    machine_inputs,
    this_machine,
)
from runtime.cache.nvml import Gpu, Gpus, NvmlError, read_gpus

XEON = "flags\t\t: fpu vme sse sse2 avx2 avx512f avx512_bf16 amx_tile amx_bf16 fma bmi2 {}\n"
DIGEST = "sha256:" + "0f" * 32
H200 = Gpu("NVIDIA H200", "9.0", 141)
A100 = Gpu("NVIDIA A100-SXM4-40GB", "8.0", 40)


def machine(*gpus: Gpu, **changed: Any) -> Machine:
    found = Gpus(tuple(gpus), driver="580.65.06", cuda="13.0") if gpus else None
    return Machine("x86_64", "avx2", "8 on 4 cores", gpus=found, **changed)


def test_of_the_flags_those_count_that_become_instructions() -> None:
    assert instructions(XEON.format("md_clear hypervisor")) == instructions(XEON.format("constant_tsc spec_ctrl") * 4)
    assert instructions(XEON.format("")) == "amx_bf16 amx_tile avx2 avx512_bf16 avx512f bmi2 fma sse sse2"


def test_a_missing_vector_unit_counts() -> None:
    assert instructions(XEON.format("")) != instructions(XEON.format("").replace("avx512_bf16 ", ""))


def test_on_unlike_cores_only_what_all_have_counts() -> None:
    assert instructions(XEON.format("gfni") + XEON.format("")) == instructions(XEON.format(""))


def test_arm_and_unknown_processors_are_told_apart() -> None:
    assert instructions("Features\t: asimd sve bf16 i8mm\n") == "asimd bf16 i8mm sve"
    assert instructions("nothing here") == "unknown"


def test_this_machine_is_read() -> None:
    found = machine_inputs(this_machine("cpu", {}), "cpu")
    assert set(found) == {"machine.architecture", "machine.instructions", "machine.processors"}
    assert found["machine.instructions"] not in ("", "unknown")


def test_the_number_of_equal_gpus_does_not_count_nor_which_is_visible() -> None:
    one, many = machine_inputs(machine(H200), "cuda", "0"), machine_inputs(machine(H200, H200, H200), "cuda", "1,2")
    assert one == many
    assert one["gpu.name"] == "NVIDIA H200"
    assert one["gpu.driver"] == "580.65.06"


def test_of_unlike_gpus_it_counts_which_is_visible() -> None:
    found = machine_inputs(machine(H200, A100), "cuda", "0")
    assert found == machine_inputs(machine(A100, H200), "cuda", "0")
    assert found != machine_inputs(machine(H200, A100), "cuda", "1")
    assert found["gpu.architecture"] == "8.0, 9.0"


def test_processors_count_on_the_cpu_only() -> None:
    assert "machine.processors" in machine_inputs(machine(), "cpu")
    assert "machine.processors" not in machine_inputs(machine(H200), "cuda")


def test_without_a_driver_it_says_so() -> None:
    assert machine_inputs(machine(), "cuda")["gpu"] == "none"


@pytest.mark.parametrize("told", [DIGEST, f"registry.invalid/a/b@{DIGEST}", f" {DIGEST}\n"])
def test_the_image_is_told_by_a_variable_or_a_file(told: str, tmp_path: Path) -> None:
    file = tmp_path / "image"
    assert image_digest({}, file) is None
    file.write_text(told)
    assert image_digest({}, file) == DIGEST
    assert image_digest({IMAGE_ENV: DIGEST.replace("0f", "1e")}, file) == DIGEST.replace("0f", "1e")
    assert machine_inputs(machine(image=DIGEST), "cpu")["image"] == DIGEST


@pytest.mark.parametrize("told", ["vllm:latest", "sha256:12", DIGEST + "0"])
def test_a_tag_is_no_image(told: str, tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=IMAGE_ENV):
        image_digest({IMAGE_ENV: told}, tmp_path / "none")


def test_the_toolkit_is_read_from_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "version.json").write_text(
        '{"cuda": {"name": "CUDA SDK", "version": "12.9.1"}, "nvcc": {"version": "1"}}'
    )
    assert this_machine("cuda", {"CUDA_HOME": str(tmp_path)}).toolkit == "12.9.1"
    assert this_machine("cuda", {"CUDA_HOME": str(tmp_path / "none")}).toolkit is None


class FakeNvml:
    """NVML with some GPUs; those in `mig` are cut into that many slices. `fails` answers with an error."""

    def __init__(self, gpus: list[Gpu], mig: dict[int, int] | None = None, fails: str = "") -> None:
        self.gpus, self.mig, self.fails, self.open = gpus, mig or {}, fails, 0

    def __getattr__(self, name: str) -> Any:
        return (lambda *args: 999) if name == self.fails else getattr(self, f"_{name}")

    def _nvmlInit_v2(self) -> int:  # noqa: N802 - NVML's own name, as are those below
        self.open += 1
        return 0

    def _nvmlShutdown(self) -> int:  # noqa: N802
        self.open -= 1
        return 0

    def _nvmlSystemGetCudaDriverVersion_v2(self, out: Any) -> int:  # noqa: N802
        out._obj.value = 12090
        return 0

    def _nvmlSystemGetDriverVersion(self, buffer: Any, size: ctypes.c_uint) -> int:  # noqa: N802
        assert ctypes.sizeof(buffer) == size.value
        buffer.value = b"580.65.06"
        return 0

    def _nvmlDeviceGetCount_v2(self, out: Any) -> int:  # noqa: N802
        out._obj.value = len(self.gpus)
        return 0

    def _nvmlDeviceGetHandleByIndex_v2(self, index: ctypes.c_uint, out: Any) -> int:  # noqa: N802
        out._obj.value = 1000 + index.value
        return 0

    def _nvmlDeviceGetCudaComputeCapability(self, handle: ctypes.c_void_p, major: Any, minor: Any) -> int:  # noqa: N802
        text = self.gpus[(handle.value or 0) % 1000].architecture
        major._obj.value, minor._obj.value = (int(part) for part in text.split("."))
        return 0

    def _nvmlDeviceGetName(self, handle: ctypes.c_void_p, buffer: Any, size: ctypes.c_uint) -> int:  # noqa: N802
        value = handle.value or 0
        buffer.value = (self.gpus[value % 1000].name + (" MIG 1g.18gb" if value >= 2000 else "")).encode()
        return 0

    def _nvmlDeviceGetMemoryInfo(self, handle: ctypes.c_void_p, out: Any) -> int:  # noqa: N802
        out._obj.total = self.gpus[(handle.value or 0) % 1000].memory_gib * 2**30 - 300 * 2**20
        return 0

    def _nvmlDeviceGetMigMode(self, handle: ctypes.c_void_p, current: Any, pending: Any) -> int:  # noqa: N802
        current._obj.value = int((handle.value or 0) % 1000 in self.mig)
        return 0 if self.mig else 3  # NVML_ERROR_NOT_SUPPORTED

    def _nvmlDeviceGetMaxMigDeviceCount(self, handle: ctypes.c_void_p, out: Any) -> int:  # noqa: N802
        out._obj.value = 7
        return 0

    def _nvmlDeviceGetMigDeviceHandleByIndex(self, handle: ctypes.c_void_p, index: ctypes.c_uint, out: Any) -> int:  # noqa: N802
        gpu = (handle.value or 0) % 1000
        if index.value >= self.mig[gpu]:
            return 6  # NVML_ERROR_NOT_FOUND
        out._obj.value = 1000 * (2 + index.value) + gpu
        return 0


def test_gpus_are_read_from_the_driver() -> None:
    library = FakeNvml([H200, A100])
    assert read_gpus(library) == Gpus((H200, A100), driver="580.65.06", cuda="12.9")
    assert library.open == 0


def test_a_gpu_in_slices_is_its_slices() -> None:
    found = read_gpus(FakeNvml([H200, H200], mig={1: 2})).devices
    assert [gpu.name for gpu in found] == ["NVIDIA H200", "NVIDIA H200 MIG 1g.18gb", "NVIDIA H200 MIG 1g.18gb"]


@pytest.mark.parametrize(
    "call", ["nvmlInit_v2", "nvmlDeviceGetCount_v2", "nvmlDeviceGetName", "nvmlDeviceGetMigDeviceHandleByIndex"]
)
def test_a_driver_that_does_not_answer_is_named(call: str) -> None:
    library = FakeNvml([H200], mig={0: 1}, fails=call)
    with pytest.raises(NvmlError, match=rf"{call}.* answered 999"):
        read_gpus(library)
    assert library.open == 0
