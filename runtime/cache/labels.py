"""What a store says of a bundle beside its names: enough to list a store without fetching all of it.

Nobody signs it: it is for people who look, and decides nothing. What is proven stands in the manifest.
"""

import json
from collections.abc import Mapping

from runtime.cache.manifest import Manifest

_MOST_CHARS = 300


def labels(manifest: Manifest, signed_by: str | None) -> dict[str, str]:
    """The metadata to publish with a bundle. `signed_by`: the id of the key that vouches for it."""
    made = manifest.provenance
    compile_s = None if made.compile_s is None else f"{made.compile_s:g}"
    found = {
        "model": model_of(manifest.inputs),
        "arguments": arguments_of(manifest.inputs),
        "platform": manifest.inputs.get("platform"),
        "vllm": made.vllm,
        "made_by": made.made_by,
        "made_at": made.made_at.isoformat(timespec="seconds"),
        "compile_s": compile_s,
        "signed_by": signed_by,
    }
    return {name: value[:_MOST_CHARS] for name, value in found.items() if value}


def model_of(inputs: Mapping[str, str]) -> str | None:
    """What a fingerprint knows of its model: its URL, or architecture and size (`LlamaForCausalLM 32×4096`)."""
    if url := inputs.get("model.url"):
        return url
    names = _json(inputs.get("model.config.architectures"))
    name = str(names[0]) if isinstance(names, list) and names else None
    layers, hidden = (inputs.get(f"model.config.{key}") for key in ("num_hidden_layers", "hidden_size"))
    return f"{name} {layers}×{hidden}" if name and layers and hidden else name


def arguments_of(inputs: Mapping[str, str]) -> str:
    """The engine arguments that count, in one line."""
    prefix = "argument."
    found = (f"{name.removeprefix(prefix)}={value}" for name, value in inputs.items() if name.startswith(prefix))
    return " ".join(sorted(found))


def _json(text: str | None) -> object:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None
