"""The structural digest: what shapes the graph counts, the weights' values do not."""

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from demo.models import make_model
from runtime.cache import structure
from runtime.cache.structure import StructureError, structure_inputs


@pytest.fixture
def model(tmp_path: Path) -> Path:
    make_model(tmp_path / "model", seed=1, size="tiny")
    return tmp_path / "model"


def edit(path: Path, **changed: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))


def test_two_models_of_one_architecture_are_one(model: Path, tmp_path: Path) -> None:
    make_model(tmp_path / "other", seed=2, size="tiny")
    assert (model / "model.safetensors").read_bytes() != (tmp_path / "other" / "model.safetensors").read_bytes()
    assert structure_inputs(model) == structure_inputs(tmp_path / "other")


def test_the_same_model_in_more_files_is_one(model: Path, tmp_path: Path) -> None:
    make_model(tmp_path / "other", seed=1, size="tiny", shards=3)
    assert len(list((tmp_path / "other").glob("*.safetensors"))) == 3
    assert structure_inputs(model) == structure_inputs(tmp_path / "other")


def test_a_model_behind_links_is_one(model: Path, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    for path in model.iterdir():
        (tmp_path / "links" / path.name).symlink_to(path)
    assert structure_inputs(model) == structure_inputs(tmp_path / "links")


def test_another_size_is_another_and_says_where(model: Path, tmp_path: Path) -> None:
    make_model(tmp_path / "other", seed=1, size="wide")
    one, other = structure_inputs(model), structure_inputs(tmp_path / "other")
    assert one["model.tensors"] != other["model.tensors"]
    assert (one["model.config.hidden_size"], other["model.config.hidden_size"]) == ("128", "2048")


@pytest.mark.parametrize(
    ("file", "changed"),
    [
        ("config.json", {"rope_theta": 1.0}),
        ("config.json", {"eos_token_id": 7}),
        ("config.json", {"from_tomorrow": {"a": [1]}}),
        ("tokenizer_config.json", {"model_max_length": 64}),
        ("preprocessor_config.json", {"size": 1}),
        ("hf_quant_config.json", {"quant": "fp8"}),
        ("1_Pooling/config.json", {"pooling": 1}),
    ],
)
def test_what_vllm_reads_for_the_configuration_counts(model: Path, file: str, changed: dict[str, object]) -> None:
    before = structure_inputs(model)
    path = model / file
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        path.write_text("{}")
    edit(path, **changed)
    assert structure_inputs(model) != before


@pytest.mark.parametrize(
    ("file", "changed"),
    [
        ("config.json", {"_name_or_path": "elsewhere"}),
        ("config.json", {"transformers_version": "9"}),
        ("tokenizer_config.json", {"chat_template": "x"}),
        ("tokenizer.json", {"version": "2"}),
        ("generation_config.json", {"temperature": 0.1}),
        ("model.safetensors.index.json", {"metadata": 1}),
    ],
)
def test_what_changes_no_graph_does_not(model: Path, file: str, changed: dict[str, object]) -> None:
    before = structure_inputs(model)
    path = model / file
    if not path.exists():
        path.write_text("{}")
    edit(path, **changed)
    assert structure_inputs(model) == before


def test_layout_of_json_does_not_count(model: Path) -> None:
    before = structure_inputs(model)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(dict(reversed(config.items())), indent=7))
    assert structure_inputs(model) == before


def test_custom_code_counts_and_is_named(model: Path) -> None:
    (model / "modeling_mine.py").write_text("one")
    before = structure_inputs(model)
    (model / "modeling_mine.py").write_text("two")
    changed = {name for name, value in structure_inputs(model).items() if before.get(name) != value}
    assert changed == {"model.code.modeling_mine.py"}


def test_a_type_or_shape_in_the_weights_counts(model: Path) -> None:
    before = structure_inputs(model)
    path = model / "model.safetensors"
    data = path.read_bytes().replace(b'"BF16"', b'"F16" ', 1)
    path.write_bytes(data)
    assert structure_inputs(model)["model.tensors"] != before["model.tensors"]


def test_frozen_weights_count_by_content(model: Path, tmp_path: Path) -> None:
    make_model(tmp_path / "other", seed=2, size="tiny")
    one, other = structure_inputs(model, frozen=True), structure_inputs(tmp_path / "other", frozen=True)
    assert {name for name in one if one[name] != other[name]} == {"model.weights"}


def pickled(path: Path, description: bytes, data: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", description)
        archive.writestr("archive/data/0", data)


def test_of_a_pickle_the_description_counts_and_is_not_run(model: Path) -> None:
    (model / "model.safetensors").unlink()
    weights = model / "pytorch_model.bin"
    pickled(weights, b"cos\nsystem\n(S'touch pwned'\ntR.", b"1")
    one = structure_inputs(model)
    pickled(weights, b"cos\nsystem\n(S'touch pwned'\ntR.", b"2")
    assert structure_inputs(model) == one
    pickled(weights, b"another", b"2")
    assert structure_inputs(model) != one


@pytest.mark.parametrize("name", ["model.gguf", "old.bin", "x.tensors"])
def test_an_unread_format_counts_by_its_ends_and_size(model: Path, name: str) -> None:
    path = model / name
    path.write_bytes(b"a" * 3_000_000)
    one = structure_inputs(model)
    for change in (b"b" + b"a" * 2_999_999, b"a" * 2_999_999 + b"b", b"a" * 3_000_001):
        path.write_bytes(change)
        assert structure_inputs(model) != one


def test_headers_are_parsed_once_for_each_state_of_a_file(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    structure_inputs(model)
    monkeypatch.setattr(structure, "read_header", lambda path: pytest.fail(f"{path} was read again"))
    structure_inputs(model)


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("config.json", b"{", "is not JSON"),
        ("config.json", b"[]", "is not a JSON object"),
        ("model.safetensors", b"x" * 20, "copy the model directory again"),
        ("tokenizer_config.json", b"\xff", "is not JSON"),
    ],
)
def test_a_damaged_model_is_named(model: Path, file: str, content: bytes, says: str) -> None:
    (model / file).write_bytes(content)
    with pytest.raises(StructureError, match=says) as refused:
        structure_inputs(model)
    assert file in str(refused.value)


def test_a_missing_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(StructureError, match="nowhere cannot be read"):
        structure_inputs(tmp_path / "nowhere")


def test_a_link_to_nothing_is_named(model: Path) -> None:
    (model / "model.safetensors").unlink()
    (model / "model.safetensors").symlink_to(model / "gone")
    with pytest.raises(StructureError, match=r"model\.safetensors cannot be read"):
        structure_inputs(model)


def test_without_weights_there_is_still_a_structure(model: Path) -> None:
    (model / "model.safetensors").unlink()
    shutil.rmtree(model / ".cache", ignore_errors=True)
    assert structure_inputs(model)["model.tensors"] == "none"
