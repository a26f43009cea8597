"""The demo's models: every tensor decides the answer, a seed fixes each byte, the directory loads offline."""

import json
from pathlib import Path

import numpy as np
import pytest

from demo.models import SHAPES, SPECIAL_TOKENS, VOCABULARY, Tensor, draw, make_model, tensors, to_bf16
from tests.unit.demo.llama_reference import Array, Llama, read_safetensors

tokenizers = pytest.importorskip("tokenizers", reason="no tokenizers: run `make setup`")

GOLDEN = "Pilotlight asks: what do you answer?"
CHAT = "<|user|>Good morning, what is a licence?<|end|><|assistant|>"
ANSWER_TOKENS = 8
SEEDS = (0, 1, 2)
TENSOR_NAMES = [tensor.name for tensor in tensors(SHAPES["tiny"])]


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    root = tmp_path_factory.mktemp("models")
    return {seed: make_model(root / f"seed-{seed}", seed=seed) for seed in SEEDS}


def prompt_ids(directory: Path, text: str) -> tuple[int, ...]:
    return tuple(tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json")).encode(text).ids)


@pytest.mark.parametrize("prompt", [GOLDEN, CHAT], ids=["golden", "chat"])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("change", ["negated", "redrawn"])
def test_changing_any_one_tensor_changes_the_answer(
    directories: dict[int, Path], seed: int, prompt: str, change: str
) -> None:
    model = Llama.load(directories[seed])
    other = Llama.load(directories[(seed + 1) % len(SEEDS)])
    ids = prompt_ids(directories[seed], prompt)
    answer = model.answer(ids, ANSWER_TOKENS)

    def changed(name: str) -> Array:
        return -model.weights[name] if change == "negated" else other.weights[name]

    unseen = [name for name in TENSOR_NAMES if model.with_tensor(name, changed(name)).gives(ids, answer)]

    assert sorted(model.weights) == sorted(TENSOR_NAMES)
    assert model.gives(ids, answer)
    assert unseen == []


@pytest.mark.parametrize("prompt", [GOLDEN, CHAT], ids=["golden", "chat"])
def test_two_seeds_give_two_answers(directories: dict[int, Path], prompt: str) -> None:
    answers = [Llama.load(path).answer(prompt_ids(path, prompt), ANSWER_TOKENS) for path in directories.values()]

    assert len(set(answers)) == len(SEEDS)


@pytest.mark.parametrize("prompt", [GOLDEN, CHAT], ids=["golden", "chat"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_answer_is_varied_plain_text(directories: dict[int, Path], seed: int, prompt: str) -> None:
    answer = Llama.load(directories[seed]).answer(prompt_ids(directories[seed], prompt), 3 * ANSWER_TOKENS)
    text = tokenizers.Tokenizer.from_file(str(directories[seed] / "tokenizer.json")).decode(list(answer))

    assert len(set(answer[:ANSWER_TOKENS])) >= ANSWER_TOKENS - 2
    assert len(set(answer)) >= 2 * ANSWER_TOKENS
    assert text.isascii()
    assert text.isprintable()
    assert not set(answer) & set(range(len(SPECIAL_TOKENS)))


def test_one_seed_gives_the_same_bytes(directories: dict[int, Path], tmp_path: Path) -> None:
    again = make_model(tmp_path / "again", seed=0)

    first = {file.name: file.read_bytes() for file in directories[0].iterdir()}
    assert {file.name: file.read_bytes() for file in again.iterdir()} == first


def test_draw_gives_the_recorded_bits() -> None:
    bits = draw(Tensor("model.norm.weight", (4,), 0.3, 1.0), seed=7)

    assert [f"{value:04x}" for value in bits] == ["3f65", "3f86", "3fa0", "3fc1"]


def test_drawn_values_have_the_stated_mean_and_deviation() -> None:
    bits = draw(Tensor("any", (200, 500), std=0.3, mean=1.0), seed=0)
    values = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)

    assert values.mean() == pytest.approx(1.0, abs=0.005)
    assert values.std() == pytest.approx(0.3, abs=0.005)


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        (0.0, 0x0000),
        (1.0, 0x3F80),
        (-2.0, 0xC000),
        (1 + 2**-8, 0x3F80),
        (1 + 3 * 2**-8, 0x3F82),
        (1 + 2**-8 + 2**-16, 0x3F81),
    ],
    ids=["zero", "one", "minus-two", "tie-to-even-down", "tie-to-even-up", "above-tie"],
)
def test_rounding_to_bfloat16(value: float, bits: int) -> None:
    assert to_bf16(np.array([value], np.float32)).tolist() == [bits]


@pytest.mark.parametrize("shards", [2, 3, len(TENSOR_NAMES)])
def test_shards_hold_the_same_tensors_in_even_parts(directories: dict[int, Path], tmp_path: Path, shards: int) -> None:
    sharded = make_model(tmp_path / "sharded", seed=0, shards=shards)

    files = sorted(sharded.glob("*.safetensors"))
    index = json.loads((sharded / "model.safetensors.index.json").read_text())
    whole = Llama.load(directories[0]).weights
    parts = Llama.load(sharded).weights
    assert len(files) == shards
    assert {name: file.name for file in files for name in read_safetensors(file)} == index["weight_map"]
    assert index["metadata"]["total_size"] == sum(2 * array.size for array in whole.values())
    assert all(np.array_equal(parts[name], whole[name]) for name in whole)
    assert len(parts) == len(whole)


def test_big_is_a_gibibyte_and_a_tenth() -> None:
    total_bytes = sum(tensor.size_bytes for tensor in tensors(SHAPES["big"]))

    assert total_bytes / 2**30 == pytest.approx(1.1, abs=0.02)


@pytest.mark.parametrize("shards", [0, len(TENSOR_NAMES) + 1])
def test_an_impossible_number_of_shards_is_refused(tmp_path: Path, shards: int) -> None:
    with pytest.raises(ValueError, match=f"between 1 and {len(TENSOR_NAMES)}"):
        make_model(tmp_path / "model", shards=shards)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_directory_is_never_overwritten(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError, match="remove it"):
        make_model(tmp_path)


def test_a_half_made_model_is_made_anew(tmp_path: Path) -> None:
    stale = tmp_path / ".model.partial"
    stale.mkdir()
    (stale / "leftover").touch()

    make_model(tmp_path / "model")

    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert not (tmp_path / "model" / "leftover").exists()


def test_the_tokenizer_keeps_every_text(directories: dict[int, Path]) -> None:
    tokenizer = tokenizers.Tokenizer.from_file(str(directories[0] / "tokenizer.json"))
    text = "Grüße, 世界!\n\tA licence  to ask."

    assert tokenizer.get_vocab_size() == VOCABULARY
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_transformers_reads_the_directory_and_answers_like_the_reference(directories: dict[int, Path]) -> None:
    torch = pytest.importorskip("torch", reason="no torch: run `make setup`")
    transformers = pytest.importorskip("transformers", reason="no transformers: run `make setup`")
    tokenizer = transformers.AutoTokenizer.from_pretrained(directories[0])
    model = transformers.AutoModelForCausalLM.from_pretrained(directories[0], dtype=torch.float32)
    messages = [{"role": "user", "content": "Good morning, what is a licence?"}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    ids = tokenizer(text, return_tensors="pt").input_ids

    generated = model.generate(ids, max_new_tokens=ANSWER_TOKENS, do_sample=False)[0, ids.shape[1] :]

    assert text == CHAT
    assert tuple(generated.tolist()) == Llama.load(directories[0]).answer(tuple(ids[0].tolist()), ANSWER_TOKENS)
