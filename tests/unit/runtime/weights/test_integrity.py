import json
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.contract import FailureCause
from runtime.ready.fault import Fault
from runtime.weights.integrity import ModelFacts, Needs, check_model, prove_model
from runtime.weights.safetensors import MAX_HEADER_BYTES, BadFileError, tensor_names
from tests.fakes.model import make_model, safetensors_bytes

WHOLE = safetensors_bytes({"a": b"12345678", "b": b"1234"})


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return make_model(tmp_path / "model")


def sharded(model: Path) -> Path:
    (model / "model.safetensors").unlink()
    (model / "m-1.safetensors").write_bytes(safetensors_bytes({"a": b"1" * 10}))
    (model / "m-2.safetensors").write_bytes(safetensors_bytes({"b": b"2" * 20}))
    index = {"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    return model


def check(model: Path, needs: Needs = Needs()) -> ModelFacts:  # noqa: B008  (frozen)
    return check_model(model, needs, model.parent / "digests.json", threading.Event())


def test_a_whole_model(model: Path) -> None:
    facts = check(model)
    assert facts.weight_bytes == (model / "model.safetensors").stat().st_size
    assert facts.digest is not None
    assert facts.digest.startswith("sha256:")


def test_a_whole_model_in_shards(model: Path) -> None:
    facts = check(sharded(model))
    assert facts.weight_bytes == sum(path.stat().st_size for path in model.glob("m-*"))


def remove(name: str) -> Callable[[Path], None]:
    return lambda model: (model / name).unlink()


def write(name: str, data: bytes) -> Callable[[Path], None]:
    def change(model: Path) -> None:
        (model / name).write_bytes(data)

    return change


def truncate(model: Path) -> None:
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-3])


@pytest.mark.parametrize(
    ("break_it", "file", "words"),
    [
        pytest.param(remove("config.json"), "config.json", "is missing", id="no config"),
        pytest.param(write("config.json", b"{"), "config.json", "is not JSON", id="broken config"),
        pytest.param(write("config.json", b"[]"), "config.json", "is not a JSON object", id="config of another kind"),
        pytest.param(remove("tokenizer.json"), "tokenizer.json", "no other tokenizer", id="no tokenizer"),
        pytest.param(remove("model.safetensors"), "model.safetensors", "no other weights", id="no weights"),
        pytest.param(truncate, "model.safetensors", "its header says", id="cut short"),
        pytest.param(write("model.safetensors", WHOLE + b"x"), "model.safetensors", "its header says", id="too long"),
        pytest.param(write("model.safetensors", b"abc"), "model.safetensors", "too few", id="almost empty"),
        pytest.param(
            write("model.safetensors.index.json", b'{"weight_map": {}}'),
            "model.safetensors.index.json",
            "has no weight_map",
            id="empty index",
        ),
        pytest.param(
            write("model.safetensors.index.json", b'{"weight_map": {"w": "gone.safetensors"}}'),
            "gone.safetensors",
            "is missing (model.safetensors.index.json names it)",
            id="missing shard",
        ),
        pytest.param(
            write("model.safetensors.index.json", b'{"weight_map": {"other": "model.safetensors"}}'),
            "model.safetensors",
            "lacks tensor other",
            id="tensor not in its shard",
        ),
    ],
)
def test_an_incomplete_model_names_the_file(
    model: Path, break_it: Callable[[Path], None], file: str, words: str
) -> None:
    break_it(model)
    with pytest.raises(Fault) as caught:
        check(model)
    assert caught.value.cause is FailureCause.MODEL_INCOMPLETE
    assert caught.value.numbers == {"file": str(model / file)}
    assert words in str(caught.value)
    assert "copy the model directory again" in str(caught.value)


def test_a_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(Fault, match="does not exist on this host") as caught:
        check(tmp_path / "nowhere")
    assert caught.value.cause is FailureCause.MODEL_MISSING


@pytest.mark.parametrize(
    ("args", "needs"),
    [
        ((), Needs()),
        (("--load-format", "dummy"), Needs(weights=False)),
        (("--load-format=dummy",), Needs(weights=False)),
        (("--tokenizer", "x"), Needs(tokenizer=False)),
        (("--skip_tokenizer_init",), Needs(tokenizer=False)),
        (("--load-format", "auto", "--tokenizer-mode", "slow"), Needs()),
    ],
)
def test_needs_of_arguments(args: tuple[str, ...], needs: Needs) -> None:
    assert Needs.of(args) == needs


def test_dummy_weights_need_no_file(model: Path) -> None:
    (model / "model.safetensors").unlink()
    assert check(model, Needs(weights=False)).weight_bytes == 0


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.gguf"])
def test_other_weights_are_only_counted(model: Path, name: str) -> None:
    (model / "model.safetensors").unlink()
    (model / name).write_bytes(b"12345")
    assert check(model).weight_bytes == 5


async def test_a_url_is_not_looked_at(tmp_path: Path) -> None:
    assert await prove_model("s3://bucket/x", Needs(), tmp_path / "digests.json") == ModelFacts(None, None)


async def test_a_directory_is_proven_in_a_thread(model: Path) -> None:
    assert await prove_model(str(model), Needs(), model.parent / "digests.json") == check(model)


def test_tensor_names(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(WHOLE)
    assert tensor_names(path) == {"a", "b"}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (struct.pack("<Q", MAX_HEADER_BYTES + 1), "its header alone"),
        (struct.pack("<Q", 100) + b"{}", "its header alone"),
        (struct.pack("<Q", 2) + b"xx", "unreadable"),
        (struct.pack("<Q", 2) + b"[]", "not an object"),
        (struct.pack("<Q", 7) + b'{"a":1}', "no data_offsets for tensor a"),
        (struct.pack("<Q", 26) + b'{"a":{"data_offsets":[0]}}', "no data_offsets for tensor a"),
    ],
)
def test_what_is_no_safetensors_file(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    with pytest.raises(BadFileError, match=words):
        tensor_names(path)
