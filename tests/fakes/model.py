"""A model directory that passes the model check, a few hundred bytes large, for the fake engine."""

import json
import struct
import sys
from pathlib import Path
from typing import Any

FAKE_ENGINE = Path(__file__).with_name("engine.py")


def fake_command() -> tuple[str, ...]:
    """`command` of a Launcher for the fake engine."""
    return (sys.executable, str(FAKE_ENGINE))


def safetensors_bytes(tensors: dict[str, bytes]) -> bytes:
    """A safetensors file of one-dimensional U8 tensors."""
    header: dict[str, Any] = {}
    end = 0
    for name, data in tensors.items():
        header[name] = {"dtype": "U8", "shape": [len(data)], "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(tensors.values())


def make_model(directory: Path, *, seed: int = 0, **ways: object) -> Path:
    """Write a whole model; `ways` go to fake.json. Another seed has another digest and other answers."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text('{"architectures": ["FakeForCausalLM"]}')
    (directory / "tokenizer.json").write_text("{}")
    (directory / "model.safetensors").write_bytes(safetensors_bytes({"w": bytes([seed % 256]) * 64}))
    if ways:
        (directory / "fake.json").write_text(json.dumps(ways))
    return directory
