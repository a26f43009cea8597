"""What a start refuses before its engine begins: only what could not end well."""

from pathlib import Path

import pytest

from runtime.contract import FailureCause
from runtime.ready.fault import Fault
from runtime.weights.before import Seen, least_held_bytes, look
from runtime.weights.integrity import ModelFacts
from runtime.weights.memory import Memory
from runtime.weights.needs import ranks_of, words_of
from runtime.weights.place import read_place
from runtime.weights.preflight import Facts
from tests.fakes.model import safetensors_bytes
from tests.unit.runtime.weights.test_integrity import file

GIB = 2**30


@pytest.fixture
def wide(tmp_path: Path) -> ModelFacts:
    """400 bytes of float32 and 10 of int8."""
    tensors = {
        "a": {"dtype": "F32", "shape": [100], "data_offsets": [0, 400]},
        "b": {"dtype": "I8", "shape": [10], "data_offsets": [400, 410]},
    }
    path = tmp_path / "model.safetensors"
    path.write_bytes(file(tensors, bytes(410)))
    return ModelFacts("sha256:x", path.stat().st_size, (path,))


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        pytest.param((), 210, id="float32 is served in 16 bits"),
        pytest.param(("--dtype=bfloat16",), 210, id="as asked"),
        pytest.param(("--quantization", "fp8"), None, id="quantized as it loads"),
    ],
)
def test_the_least_that_weights_take(wide: ModelFacts, args: tuple[str, ...], expected: int | None) -> None:
    size = wide.weight_bytes or 0
    assert least_held_bytes(wide, words_of(args)) == (size // 8 if expected is None else expected)
    assert least_held_bytes(wide, words_of(("--dtype=float32",))) == size
    assert least_held_bytes(ModelFacts("etags:x", 100), []) == 50, "of a bucket's the dtypes are not known"


@pytest.mark.parametrize(
    ("free", "args", "on_host", "refused"),
    [
        (205, (), True, True),
        (215, (), True, False),
        (215, ("--dtype=float32",), True, True),
        (100, ("--quantization=fp8",), True, False),
        (450, (), False, False),
        (399, (), False, True),  # a loader must hold the largest tensor
    ],
)
def test_memory_is_refused_only_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, wide: ModelFacts, free: int, args: tuple[str, ...], on_host: bool, refused: bool
) -> None:
    monkeypatch.setattr("runtime.weights.machine.read_memory", lambda: Memory(free))
    seen = look(str(wide.weights[0].parent), wide, args, {}, on_host=on_host)
    if not refused:
        seen.refuse()
        return
    with pytest.raises(Fault, match=r"the start would fail: .* raise the memory limit") as caught:
        seen.refuse()
    assert (caught.value.cause, caught.value.permanent) == (FailureCause.NO_MEMORY, False)
    assert caught.value.numbers == {"finding": "host-memory"}


def test_a_full_disk_for_what_is_fetched(tmp_path: Path) -> None:
    full = read_place(tmp_path).__class__(tmp_path, "/", "ext4", "d", "ssd", on_root=True, total_bytes=1, free_bytes=1)
    seen = Seen(ModelFacts("etags:x", 5), Facts(5, Memory(GIB), None, None, scratch=full))
    with pytest.raises(Fault, match="left for what is fetched") as caught:
        seen.refuse()
    assert caught.value.cause is FailureCause.SPAWN_FAILED


def test_what_the_kernel_does_not_tell_stands_in_nobodys_way(monkeypatch: pytest.MonkeyPatch, wide: ModelFacts) -> None:
    def fails(_: object) -> None:
        raise OSError

    monkeypatch.setattr("runtime.weights.machine.read_place", fails)
    seen = look(str(wide.weights[0].parent), wide, (), {}, on_host=True)
    seen.refuse()
    assert seen.notes == ()


@pytest.mark.parametrize(
    ("args", "ranks"),
    [
        ((), 1),
        (("--tensor-parallel-size=4",), 4),
        (("-tp", "2", "--pipeline_parallel_size", "3"), 6),
        (("--tensor-parallel-size", "2", "--tensor-parallel-size=8"), 8),
        (("--data-parallel-size=2", "-tp=2"), 4),
        (("-tp", "two"), 1),
        (("-tp", "0"), 1),
    ],
)
def test_ranks(args: tuple[str, ...], ranks: int) -> None:
    assert ranks_of(args) == ranks


def test_headers_are_read_only_where_memory_is_tight(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors_bytes({"a": b"1" * 100}))
    proven = ModelFacts("sha256:x", path.stat().st_size, (path,))
    monkeypatch.setattr("runtime.weights.machine.read_memory", lambda: Memory(GIB))
    assert look(str(tmp_path), proven, (), {}, on_host=True).machine.largest_tensor_bytes == 0
    monkeypatch.setattr("runtime.weights.machine.read_memory", lambda: Memory(300))
    assert look(str(tmp_path), proven, (), {}, on_host=True).machine.largest_tensor_bytes == 100
