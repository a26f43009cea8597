import json
import struct
from contextlib import nullcontext
from pathlib import Path

import pytest

from runtime.weights.examine import LARGE_SHARD_BYTES, examine, served
from runtime.weights.finding import Code
from runtime.weights.here import layout_of, ranks_of
from runtime.weights.needs import Needs
from runtime.weights.prepare.convert import Item, shards
from runtime.weights.prepare.run import PrepareError, write_digests
from runtime.weights.prepare.sharded import refuse_loss, root_cause
from tests.fakes.model import make_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A whole model with digests: nothing is amiss."""
    made = make_model(tmp_path / "model")
    write_digests(made, {})
    assert examine(made, Needs()) == ()
    return made


def codes(model: Path, dtype: str | None = None, needs: Needs = Needs()) -> list[tuple[str, Code]]:  # noqa: B008  (frozen)
    found = examine(model, needs, dtype)
    assert all(str(model) in each.message for each in found), "a finding names its place"
    return [(each.level, each.code) for each in found]


def sparse(path: Path, size: int, dtype: str = "U8") -> None:
    """A safetensors file with one tensor of `size` bytes that takes no room on the disk."""
    shape = [size // {"U8": 1, "F32": 4, "BF16": 2}[dtype]]
    text = json.dumps({"w": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + size)


def test_an_incomplete_model_is_one_error(model: Path) -> None:
    (model / "config.json").unlink()
    assert codes(model) == [("error", Code.INCOMPLETE)]


def test_a_rubbish_list(model: Path) -> None:
    (model / "SHA256SUMS").write_text("x")
    assert codes(model) == [("error", Code.INCOMPLETE)]


def test_no_digests(model: Path) -> None:
    (model / "pilotlight-digests.json").unlink()
    assert codes(model) == [("note", Code.NO_DIGESTS)]


def test_pickle_only_and_pickle_beside(model: Path) -> None:
    (model / "pytorch_model.bin").write_bytes(b"x")
    assert codes(model) == [("note", Code.DUPLICATE_WEIGHTS)]
    (model / "model.safetensors").unlink()
    assert codes(model) == [("warning", Code.PICKLE_ONLY)]


@pytest.mark.parametrize(
    ("stored", "config", "asked", "found"),
    [
        ("F32", {"dtype": "bfloat16"}, None, True),
        ("F32", {"torch_dtype": "float16"}, None, True),
        ("F32", {"dtype": "float32"}, None, True),  # vLLM's auto serves float32 in bfloat16
        ("F32", {"dtype": "float32"}, "float32", False),
        ("BF16", {"dtype": "bfloat16"}, None, False),
        ("BF16", {"dtype": "bfloat16"}, "float16", True),
        ("BF16", {}, None, False),
        ("BF16", {"dtype": 7}, None, False),
        ("U8", {"dtype": "bfloat16"}, None, False),
        ("F32", {"dtype": "bfloat16", "quantization_config": {}}, None, False),
    ],
)
def test_stored_in_another_dtype_than_served(
    model: Path, stored: str, config: dict[str, object], asked: str | None, found: bool
) -> None:
    sparse(model / "model.safetensors", 4096, stored)
    (model / "config.json").write_text(json.dumps(config))
    assert (("warning", Code.OTHER_DTYPE) in codes(model, asked)) is found


def test_served_dtype_by_other_names(model: Path) -> None:
    assert served(model, "half") == "float16"
    assert served(model, "auto") is None
    (model / "config.json").write_text('{"torch_dtype": "float"}')
    assert served(model, "auto") == "bfloat16"


def test_one_large_shard(model: Path) -> None:
    sparse(model / "model.safetensors", LARGE_SHARD_BYTES + 1)
    assert ("warning", Code.ONE_LARGE_SHARD) in codes(model)


def test_uneven_shards(model: Path) -> None:
    (model / "model.safetensors").unlink()
    for number, size in enumerate((10_000, 100, 100, 100), start=1):
        sparse(model / f"model-{number:05d}-of-00004.safetensors", size)
    assert ("note", Code.UNEVEN_SHARDS) in codes(model)


def test_layouts(model: Path) -> None:
    assert (layout_of(model), ranks_of(model)) == ("safetensors", 0)
    for rank in (0, 1):
        for part in (0, 1):
            (model / f"model-rank-{rank}-part-{part}.safetensors").write_bytes(b"")
    assert (layout_of(model), ranks_of(model)) == ("sharded", 2)


def items(*sizes: int) -> list[Item]:
    return [Item(str(number), "f", "U8", (size,), size) for number, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "limit", "expected"),
    [
        pytest.param((5, 5), 100, [[5, 5]], id="all in one"),
        pytest.param((5, 5, 5, 5), 10, [[5, 5], [5, 5]], id="even"),
        pytest.param((1,) * 10, 4, [[1] * 3, [1] * 4, [1] * 3], id="as even as can be"),
        pytest.param((50, 1, 1), 10, [[50], [1, 1]], id="one larger than a file"),
        pytest.param((1, 50, 1), 10, [[1], [50], [1]], id="and others around it"),
        pytest.param((0, 0), 10, [[0, 0]], id="empty tensors"),
        pytest.param((), 10, [[]], id="no tensor"),
    ],
)
def test_shards(sizes: tuple[int, ...], limit: int, expected: list[list[int]]) -> None:
    assert [[item.size_bytes for item in part] for part in shards(items(*sizes), limit)] == expected


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        ("", None),
        ("INFO all well\n", None),
        (
            "(Worker pid=7) ERROR 11-30 03:51:14 [x.py:953] ValueError: Available memory is less than desired.\n"
            "Exception: WorkerProc initialization failed due to an exception in a background process.\n"
            "RuntimeError: Engine core initialization failed. See root cause above.\n",
            "ValueError: Available memory is less than desired",
        ),
        ("RuntimeError: Engine core initialization failed. See root cause above.\n", None),
    ],
)
def test_the_root_cause_in_vllms_log(log: str, cause: str | None) -> None:
    assert root_cause(log) == cause


@pytest.mark.parametrize(
    ("saved", "dtype", "args", "refused"),
    [
        pytest.param(4000, None, (), False, id="all of it"),
        pytest.param(3000, None, (), True, id="a quarter is lost"),
        pytest.param(2000, "bfloat16", (), False, id="served in half the bytes"),
        pytest.param(1000, "bfloat16", (), True, id="half of that is lost"),
        pytest.param(1000, "bfloat16", ("--quantization", "fp8"), False, id="quantized"),
        pytest.param(100, "bfloat16", ("--quantization=fp8",), True, id="quantized, and lost"),
    ],
)
def test_what_vllm_saved_must_be_the_weights(
    model: Path, tmp_path: Path, saved: int, dtype: str | None, args: tuple[str, ...], refused: bool
) -> None:
    source, draft = model / "model.safetensors", tmp_path / "draft"
    sparse(source, 4000, "F32")
    draft.mkdir()
    sparse(draft / "model-rank-0-part-0.safetensors", saved)
    with pytest.raises(PrepareError, match="cannot save them") if refused else nullcontext():
        refuse_loss(model, (source,), draft, dtype, args)
