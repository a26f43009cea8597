"""Makes small random Llama models whose every tensor decides the answer.

    python -m demo.models OUT_DIR [--size tiny|big] [--seed N] [--shards N]

No download and no torch: each tensor is drawn from SHAKE-256 of (seed, tensor name), so one seed gives the same bytes
on every machine, and two seeds share nothing. The tokenizer is a byte-level BPE trained on this repository's LICENSE.

Why the scales below: with the usual 0.02 standard deviation a random model is nearly the identity on its embedding,
and a broken weight goes unseen. Here attention and MLP outputs are as large as the residual they are added to, and
attention logits spread over several units, so that negating any one tensor changes the greedy answer
(tests/unit/demo/test_models.py proves it tensor by tensor).
"""

import argparse
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod, sqrt
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Size = Literal["tiny", "wide", "big"]
Bf16 = npt.NDArray[np.uint16]

VOCABULARY = 512
SPECIAL_TOKENS = ("<s>", "</s>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
CHAT_TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
_CORPUS = Path(__file__).resolve().parent.parent / "LICENSE"


@dataclass(frozen=True, slots=True)
class Shape:
    """Dimensions of a Llama model. `hidden` is a multiple of `heads`, `heads` of `kv_heads`."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden // self.heads


SHAPES: dict[Size, Shape] = {
    "tiny": Shape(hidden=128, layers=2, heads=4, kv_heads=2, intermediate=256),  # 0.9 MB
    # As few layers to compile as tiny, and enough bytes to read for each token that an answer takes seconds on a CPU.
    "wide": Shape(hidden=2048, layers=2, heads=16, kv_heads=8, intermediate=8192),  # 0.25 GiB
    "big": Shape(hidden=2048, layers=12, heads=16, kv_heads=8, intermediate=5888),  # 1.1 GiB
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """One weight to draw: uniform with mean `mean` and standard deviation `std`."""

    name: str
    shape: tuple[int, ...]
    std: float
    mean: float = 0.0

    @property
    def size_bytes(self) -> int:
        """Bytes in the file, two for each bfloat16."""
        return 2 * prod(self.shape)


def tensors(shape: Shape) -> Iterator[Tensor]:
    """Every tensor of the model in file order, with the spread that makes it matter.

    `into(n, gain)`: the deviation of a matrix with n inputs of unit size whose outputs shall have size `gain`.
    """

    def into(inputs: int, gain: float) -> float:
        return gain / sqrt(inputs)

    hidden, kv_width = shape.hidden, shape.kv_heads * shape.head_dim
    yield Tensor("model.embed_tokens.weight", (VOCABULARY, hidden), 1.0)
    for layer in range(shape.layers):
        prefix = f"model.layers.{layer}."
        yield Tensor(f"{prefix}input_layernorm.weight", (hidden,), 0.3, 1.0)
        # q·k/√d has deviation 1.4² ≈ 2: attention chooses, yet does not freeze on one position.
        yield Tensor(f"{prefix}self_attn.q_proj.weight", (hidden, hidden), into(hidden, 1.4))
        yield Tensor(f"{prefix}self_attn.k_proj.weight", (kv_width, hidden), into(hidden, 1.4))
        yield Tensor(f"{prefix}self_attn.v_proj.weight", (kv_width, hidden), into(hidden, 1.6))
        yield Tensor(f"{prefix}self_attn.o_proj.weight", (hidden, hidden), into(hidden, 1.6))
        yield Tensor(f"{prefix}post_attention_layernorm.weight", (hidden,), 0.3, 1.0)
        yield Tensor(f"{prefix}mlp.gate_proj.weight", (shape.intermediate, hidden), into(hidden, 1.5))
        yield Tensor(f"{prefix}mlp.up_proj.weight", (shape.intermediate, hidden), into(hidden, 1.5))
        yield Tensor(f"{prefix}mlp.down_proj.weight", (hidden, shape.intermediate), into(shape.intermediate, 1.4))
    yield Tensor("model.norm.weight", (hidden,), 0.3, 1.0)
    yield Tensor("lm_head.weight", (VOCABULARY, hidden), into(hidden, 4.0))


def draw(tensor: Tensor, seed: int) -> Bf16:
    """The tensor's bfloat16 bits for this seed, the same on every machine."""
    stream = hashlib.shake_256(f"pilotlight/{seed}/{tensor.name}".encode()).digest(tensor.size_bytes)
    # 16 random bits → uniform on (−√3, √3), which has deviation 1.
    unit = (np.frombuffer(stream, "<u2").astype(np.float32) + np.float32(0.5)) / np.float32(32768) - np.float32(1)
    values = unit * np.float32(sqrt(3) * tensor.std) + np.float32(tensor.mean)
    return to_bf16(values).reshape(tensor.shape)


def to_bf16(values: npt.NDArray[np.float32]) -> Bf16:
    """Round finite float32 to bfloat16 bits, ties to even."""
    bits = values.view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype("<u2")


def make_model(path: Path, *, seed: int = 0, size: Size = "tiny", shards: int = 1) -> Path:
    """Write a model directory that vLLM loads offline, and return it.

    The directory appears whole or not at all. Raises FileExistsError if `path` exists and ValueError if `shards` is
    not between 1 and the number of tensors.
    """
    shape = SHAPES[size]
    wanted = list(tensors(shape))
    if not 1 <= shards <= len(wanted):
        raise ValueError(f"shards must be between 1 and {len(wanted)}, not {shards}")
    if path.exists():
        raise FileExistsError(f"{path} exists: remove it, or name a directory that does not")
    partial = path.with_name(f".{path.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    silent = _write_tokenizer(partial)
    _write_configs(partial, shape)
    _write_weights(partial, _split(wanted, shards), lambda tensor: _silence(tensor, draw(tensor, seed), silent))
    partial.rename(path)
    return path


def _silence(tensor: Tensor, bits: Bf16, silent: list[int]) -> Bf16:
    """Zero the output rows of tokens that the model should not say: a logit of 0 never wins against 200 others."""
    if tensor.name == "lm_head.weight":
        bits[silent] = 0
    return bits


def _write_tokenizer(directory: Path) -> list[int]:
    """Train and write the tokenizer; return the ids that are not plain text (specials, single raw bytes)."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: PLC0415 — comes with [cpu]

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL_TOKENS),
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator([_CORPUS.read_text(encoding="utf-8")], trainer)
    tokenizer.save(str(directory / "tokenizer.json"))
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "pad_token": "</s>",
        "chat_template": CHAT_TEMPLATE,
        "model_max_length": 2048,
    }
    _write_json(directory / "tokenizer_config.json", tokenizer_config)
    texts = [str(tokenizer.decode([index], skip_special_tokens=True)) for index in range(VOCABULARY)]
    return [index for index, text in enumerate(texts) if len(text.strip()) < 2 or not text.isascii()]


def _write_configs(directory: Path, shape: Shape) -> None:
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "intermediate_size": shape.intermediate,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "bos_token_id": 0,
        "eos_token_id": 1,
    }
    _write_json(directory / "config.json", config)
    _write_json(directory / "generation_config.json", {"bos_token_id": 0, "eos_token_id": 1})


def _split(wanted: list[Tensor], shards: int) -> list[list[Tensor]]:
    """Consecutive parts of about equal bytes, none empty."""
    total = sum(tensor.size_bytes for tensor in wanted)
    parts: list[list[Tensor]] = [[] for _ in range(shards)]
    written = 0
    current = 0
    for index, tensor in enumerate(wanted):
        left = len(wanted) - index
        due = min(shards - 1, written * shards // total)
        if parts[current] and (due > current or left < shards - current):
            current += 1
        parts[current].append(tensor)
        written += tensor.size_bytes
    return parts


def _write_weights(directory: Path, parts: list[list[Tensor]], bits: Callable[[Tensor], Bf16]) -> None:
    if len(parts) == 1:
        _write_safetensors(directory / "model.safetensors", parts[0], bits)
        return
    places: dict[str, str] = {}
    for number, part in enumerate(parts, start=1):
        name = f"model-{number:05d}-of-{len(parts):05d}.safetensors"
        _write_safetensors(directory / name, part, bits)
        places.update(dict.fromkeys((tensor.name for tensor in part), name))
    total = sum(tensor.size_bytes for part in parts for tensor in part)
    index = {"metadata": {"total_size": total}, "weight_map": places}
    _write_json(directory / "model.safetensors.index.json", index)


def _write_safetensors(path: Path, part: list[Tensor], bits: Callable[[Tensor], Bf16]) -> None:
    """The safetensors format: header length (u64, little endian), JSON header, then the tensors one after another."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for tensor in part:
        end = offset + tensor.size_bytes
        header[tensor.name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for tensor in part:
            file.write(bits(tensor).tobytes())


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Command line of this module."""
    parser = argparse.ArgumentParser(description="Make a small random model that vLLM serves offline.")
    parser.add_argument("out", type=Path, help="the directory to make; must not exist")
    parser.add_argument("--size", choices=list(SHAPES), default="tiny", help="tiny 0.9 MB, wide 0.25 GiB, big 1.1 GiB")
    parser.add_argument("--seed", type=int, default=0, help="another seed, another model")
    parser.add_argument("--shards", type=int, default=1, help="number of weight files")
    arguments = parser.parse_args()
    try:
        made = make_model(arguments.out, seed=arguments.seed, size=arguments.size, shards=arguments.shards)
    except (FileExistsError, ValueError) as error:
        parser.error(str(error))
    print(f"{made}: {sum(file.stat().st_size for file in made.iterdir()):,} bytes")


if __name__ == "__main__":
    main()
