"""Starts with vLLM's startup plan, by a fake of the CUDA worker that takes any plan it finds, as the real one does."""

from collections.abc import Mapping
from pathlib import Path

from runtime.contract import EngineSpec, Verdict
from tests.unit.runtime.cache.starting import Machine


class Gpu(Machine):
    """A host whose services say that they run on CUDA."""

    env: Mapping[str, str] = {}

    @property
    def spec(self) -> EngineSpec:
        return super().spec.model_copy(update={"platform": "cuda", "env": dict(self.env)})

    async def says(self) -> str:
        """What a start's engine says of a plan."""
        record = await self.start()
        assert record.outcome == "ready"
        said = [line for line in (self.root / "0" / "log").read_text().splitlines() if "startup plan" in line]
        return " ".join(said[-1].partition("] ")[2].split()[:2]) if said else ""


def plans(machine: Machine) -> list[str]:
    return sorted(path.name for path in machine.caches().glob("*/startup_plan/*"))


async def test_the_start_that_compiles_makes_none_the_next_makes_one_and_those_after_take_it(tmp_path: Path) -> None:
    gpu = Gpu(tmp_path / "host")
    assert await gpu.says() == ""
    assert plans(gpu) == []
    assert await gpu.says() == "Saved startup"
    assert plans(gpu) == ["made-with.json", "startup_plan_0123456789abcdef.json"]
    assert await gpu.says() == "Applying persisted"
    await gpu.close()


async def test_a_plan_of_a_start_that_compiled_all_the_same_is_removed(tmp_path: Path) -> None:
    gpu = Gpu(tmp_path / "host")
    await gpu.says()
    gpu.artifact().write_bytes(b"not what was saved")
    assert await gpu.says() == "Saved startup"
    assert plans(gpu) == []
    await gpu.close()


async def test_a_service_that_decides_itself_is_left_alone(tmp_path: Path) -> None:
    gpu = Gpu(tmp_path / "host")
    gpu.env = {"VLLM_ENABLE_STARTUP_PLAN": "0"}
    await gpu.says()
    assert await gpu.says() == ""
    await gpu.close()


async def test_a_cpu_has_none(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "host")
    await machine.start()
    record = await machine.start()
    assert record.cache is not None
    assert record.cache.verdict is Verdict.USED
    assert plans(machine) == []
    await machine.close()
