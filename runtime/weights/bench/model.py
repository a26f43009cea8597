"""What the bench's processes say to each other, as JSON lines."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Load:
    """One load to do: vLLM's load format, its `LoadConfig` fields, and by how many processes at once.

    `model` is a directory or URL. `device`: where the weights go, `cpu` or `cuda`. `env`: set in the processes.
    """

    model: str
    load_format: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    ranks: int = 1
    device: str = "cpu"
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Loaded:
    """What one load took. With several ranks: the slowest's seconds, the sum of the others.

    `seconds`: from nothing to every byte copied to where the engine would hold it. `bytes`: of the tensors that the
    loader handed out. `major_faults`: page faults that waited for storage. `peak_bytes`: by how much
    resident memory grew at most, file pages that are mapped included. `error`: what went wrong, None where nothing did.
    """

    seconds: float = 0.0
    bytes: int = 0
    tensors: int = 0
    major_faults: int = 0
    peak_bytes: int = 0
    error: str | None = None
