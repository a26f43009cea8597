"""What of a model enters its compiled code: configuration, custom code, and names, types and shapes of its tensors.

Not the weights' values: a compiled graph takes them as arguments, so two fine-tunes of one architecture share it (seen
on real vLLM, docs/concepts/fingerprint.md). Only where the compiler is told to freeze them into the code do they count
(`frozen`). A file that is not known to be without effect counts by its content.
"""

import hashlib
import json
import zipfile
from collections.abc import Iterable
from pathlib import Path
from types import MappingProxyType

from runtime.weights.safetensors import BadFileError, read_header

NAMES = frozenset({"_name_or_path", "transformers_version"})
"""Keys of config.json that transformers drops or writes itself before vLLM hashes it (seen on real vLLM)."""

NO_EFFECT = MappingProxyType(
    {
        "tokenizer.json": "text to tokens, before the graph",
        "special_tokens_map.json": "text to tokens, before the graph",
        "added_tokens.json": "text to tokens, before the graph",
        "vocab.json": "text to tokens, before the graph",
        "merges.txt": "text to tokens, before the graph",
        "tekken.json": "text to tokens, before the graph",
        "chat_template.json": "messages to text, before the graph",
        "generation_config.json": "defaults of sampling, after the graph",
        "trainer_state.json": "left over from training",
        "all_results.json": "left over from training",
        "train_results.json": "left over from training",
        "eval_results.json": "left over from training",
    }
)
"""JSON files that vLLM does not read for the model's configuration, and why that is so."""

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".ckpt", ".npz", ".tensors")
_MOST_TEXT = 120
_EDGE_BYTES = 2**20
_MOST_KNOWN = 1024
_known: dict[tuple[str, int, int, int], str] = {}


class StructureError(ValueError):
    """The model directory cannot be read as a model; `str()` names the file and what to do."""


def structure_inputs(model: Path, *, frozen: bool = False) -> dict[str, str]:
    """`model.…` inputs of a model directory. `frozen`: the weights' content counts as well (reads all of it).

    Raises StructureError.
    """
    try:
        files = sorted(_files(model))
        found = {**_config(model), **_documents(model, files), "model.tensors": tensors_digest(files)}
        return {**found, "model.weights": _contents(model, files)} if frozen else found
    except OSError as error:
        place = error.filename or model
        raise StructureError(f"{place} cannot be read ({error.strerror}): copy the model again") from error


def _files(model: Path) -> Iterable[Path]:
    """The directory's own files and one level below it (`1_Pooling/config.json`), hidden ones left out."""
    for path in model.iterdir():
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from (inner for inner in path.iterdir() if inner.is_file() and not inner.name.startswith("."))
        else:
            yield path


def _config(model: Path) -> dict[str, str]:
    """Each key of config.json by itself, so that a difference can be named."""
    path = model / "config.json"
    if not path.exists():
        return {}  # Mistral's own format has params.json, which counts as a document
    return {f"model.config.{_name(key)}": _short(value) for key, value in _object(path).items() if key not in NAMES}


def _name(key: str) -> str:
    return key if key.isprintable() and len(key) < 200 else "sha256:" + hashlib.sha256(key.encode()).hexdigest()


def _short(value: object) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= _MOST_TEXT else "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _documents(model: Path, files: Iterable[Path]) -> dict[str, str]:
    """Other JSON and all Python code, by content. An index only says which shard holds a tensor."""
    found = {}
    for path in files:
        name = path.relative_to(model).as_posix()
        if path.suffix == ".py":
            found[f"model.code.{name}"] = _digest(path)
        elif name == "tokenizer_config.json":
            found["model.tokenizer.model_max_length"] = _short(_object(path).get("model_max_length"))
        elif path.suffix == ".json" and name != "config.json" and not _without_effect(name):
            found[f"model.file.{name}"] = "sha256:" + hashlib.sha256(_canonical(path)).hexdigest()
    return found


def _without_effect(name: str) -> bool:
    return name in NO_EFFECT or name.endswith(".index.json")


def _canonical(path: Path) -> bytes:
    try:
        return json.dumps(json.loads(path.read_bytes()), sort_keys=True).encode()
    except (ValueError, RecursionError):
        return path.read_bytes()


def tensors_digest(files: Iterable[Path]) -> str:
    """sha256 over name, type and shape of each tensor, however they are spread over files; `none` without weights."""
    rows: list[str] = []
    for path in files:
        if path.suffix in _WEIGHTS:
            rows += _remembered(path).splitlines()
    return "sha256:" + hashlib.sha256("\n".join(sorted(rows)).encode()).hexdigest() if rows else "none"


def _remembered(path: Path) -> str:
    """Headers of a large model are tens of MB of JSON: parsed once for each state of a file."""
    found = path.stat()
    stamp = (str(path), found.st_size, found.st_mtime_ns, found.st_ino)
    if stamp not in _known:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[stamp] = "\n".join(_rows(path))
    return _known[stamp]


def _rows(path: Path) -> Iterable[str]:
    if path.suffix == ".safetensors":
        try:
            tensors = read_header(path).tensors
        except BadFileError as error:
            raise StructureError(f"{path} {error}: copy the model directory again, whole") from error
        return [json.dumps([name, each.dtype, each.shape]) for name, each in tensors.items()]
    if zipfile.is_zipfile(path):
        return _pickled(path)
    return [f"{path.name} {path.stat().st_size} {_edges(path)}"]


def _pickled(path: Path) -> Iterable[str]:
    """An archive of torch's: `data.pkl` names tensors, types and shapes, and is compared as bytes, never unpickled."""
    try:
        with zipfile.ZipFile(path) as archive:
            descriptions = [info for info in archive.infolist() if info.filename.endswith("/data.pkl")]
            return [f"pickle {hashlib.sha256(archive.read(info)).hexdigest()}" for info in descriptions] or [
                f"{path.name} {path.stat().st_size} {_edges(path)}"
            ]
    except (zipfile.BadZipFile, EOFError) as error:
        raise StructureError(f"{path} is a damaged archive ({error}): copy the model directory again, whole") from error


def _edges(path: Path) -> str:
    """A format that is not read here: its first and last MiB, where every format has its table of contents."""
    with path.open("rb") as file:
        head = file.read(_EDGE_BYTES)
        file.seek(max(0, path.stat().st_size - _EDGE_BYTES))
        return hashlib.sha256(head + file.read(_EDGE_BYTES)).hexdigest()


def _contents(model: Path, files: Iterable[Path]) -> str:
    facts = [f"{path.relative_to(model)} {_digest(path)}" for path in files if path.suffix in _WEIGHTS]
    return "sha256:" + hashlib.sha256("\n".join(facts).encode()).hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


def _object(path: Path) -> dict[str, object]:
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise StructureError(f"{path} is not JSON ({error}): copy the model directory again, whole") from error
    if not isinstance(value, dict):
        raise StructureError(f"{path} is not a JSON object: copy the model directory again, whole")
    return value
