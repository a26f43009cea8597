"""A Llama in 60 lines of numpy float32, to see what a weight does to the greedy answer."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]


def read_safetensors(path: Path) -> dict[str, Array]:
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    tensors: dict[str, Array] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        bits = np.frombuffer(raw[begin:end], "<u2").astype(np.uint32) << np.uint32(16)
        tensors[name] = bits.view(np.float32).reshape(entry["shape"])
    return tensors


@dataclass(frozen=True)
class Llama:
    config: dict[str, Any]
    weights: dict[str, Array]

    @classmethod
    def load(cls, directory: Path) -> "Llama":
        weights: dict[str, Array] = {}
        for file in sorted(directory.glob("*.safetensors")):
            weights |= read_safetensors(file)
        return cls(json.loads((directory / "config.json").read_text()), weights)

    def with_tensor(self, name: str, value: Array) -> "Llama":
        return replace(self, weights=self.weights | {name: value})

    def answer(self, prompt: tuple[int, ...], count: int) -> tuple[int, ...]:
        tokens = list(prompt)
        for _ in range(count):
            tokens.append(int(self.logits(tuple(tokens)).argmax()))
        return tuple(tokens[len(prompt) :])

    def gives(self, prompt: tuple[int, ...], answer: tuple[int, ...]) -> bool:
        """Whether this is the answer: as `answer(…) == answer`, but it stops at the first token that differs."""
        return all(int(self.logits(prompt + answer[:count]).argmax()) == token for count, token in enumerate(answer))

    def logits(self, tokens: tuple[int, ...]) -> Array:
        stream = self.weights["model.embed_tokens.weight"][list(tokens)]
        for layer in range(self.config["num_hidden_layers"]):
            prefix = f"model.layers.{layer}."
            stream = stream + self._attention(prefix, self._norm(stream, f"{prefix}input_layernorm"))
            stream = stream + self._mlp(prefix, self._norm(stream, f"{prefix}post_attention_layernorm"))
        last: Array = self._linear(self._norm(stream[-1:], "model.norm"), "lm_head")[0]
        return last

    def _linear(self, inputs: Array, name: str) -> Array:
        outputs: Array = inputs @ self.weights[f"{name}.weight"].T
        return outputs

    def _norm(self, stream: Array, name: str) -> Array:
        mean_square = np.mean(stream * stream, axis=-1, keepdims=True)
        unit: Array = stream / np.sqrt(mean_square + np.float32(self.config["rms_norm_eps"]))
        return unit * self.weights[f"{name}.weight"]

    def _mlp(self, prefix: str, inputs: Array) -> Array:
        gate = self._linear(inputs, f"{prefix}mlp.gate_proj")
        silu = gate / (1 + np.exp(-gate))
        return self._linear(silu * self._linear(inputs, f"{prefix}mlp.up_proj"), f"{prefix}mlp.down_proj")

    def _attention(self, prefix: str, inputs: Array) -> Array:
        heads, kv_heads, width = (
            self.config[key] for key in ("num_attention_heads", "num_key_value_heads", "head_dim")
        )
        length = len(inputs)
        query = self._rotate(self._linear(inputs, f"{prefix}self_attn.q_proj").reshape(length, heads, width))
        key = self._rotate(self._linear(inputs, f"{prefix}self_attn.k_proj").reshape(length, kv_heads, width))
        value = self._linear(inputs, f"{prefix}self_attn.v_proj").reshape(length, kv_heads, width)
        key, value = (np.repeat(array, heads // kv_heads, axis=1) for array in (key, value))
        scores = np.einsum("qhd,khd->hqk", query, key) / np.sqrt(np.float32(width))
        scores = np.where(np.tri(length, dtype=bool), scores, np.float32(-np.inf))
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = np.einsum("hqk,khd->qhd", weights, value).reshape(length, heads * width)
        return self._linear(mixed, f"{prefix}self_attn.o_proj")

    def _rotate(self, states: Array) -> Array:
        half = states.shape[-1] // 2
        theta = np.float32(self.config["rope_theta"])
        angles = np.outer(np.arange(len(states)), theta ** (-np.arange(half, dtype=np.float32) / half))
        cosine, sine = (function(angles).astype(np.float32)[:, None, :] for function in (np.cos, np.sin))
        first, second = states[..., :half], states[..., half:]
        return np.concatenate((first * cosine - second * sine, second * cosine + first * sine), axis=-1)
