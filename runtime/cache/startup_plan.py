"""vLLM's startup plan, only where it holds: the KV cache's size as an earlier start measured it, so that none measures.

vLLM keeps a plan by a key that leaves out what the size depends on most, and would apply one at another
`--gpu-memory-utilization` (0.32: `v1/worker/startup_plan.py`, by `CacheConfig.compute_hash`); and what a start measures
that compiles is less by the compiler's own memory. So a plan counts only for the very arguments it was made with, and
only a start that finds compiled code makes or takes one. It travels in bundles beside that code.

Untested on a GPU; on a CPU vLLM knows no plan.
"""

import contextlib
import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from runtime.contract import Verdict

ENABLE_ENV = "VLLM_ENABLE_STARTUP_PLAN"
DIRECTORY = "startup_plan"
"""Below the cache root, by vLLM."""
_MADE_WITH = "made-with.json"


def prepare(root: Path, arguments: Sequence[str], *, compiled: bool) -> Mapping[str, str]:
    """Before a start with these engine arguments in the cache root `root`: the variables that have it take a plan.

    None where it is going to compile (not `compiled`). A plan of other arguments, or of nobody knows which, is removed.
    Where it cannot be, none is taken.
    """
    directory = root / DIRECTORY
    try:
        if _made_with(directory) != _digest(arguments):
            _remove(directory)
    except OSError:
        return {}
    return {ENABLE_ENV: "1"} if compiled else {}


def settle(root: Path, arguments: Sequence[str], verdict: Verdict) -> None:
    """After a start's golden prompt: others may take its plan, or, where it did compile, nobody. Never raises."""
    directory = root / DIRECTORY
    with contextlib.suppress(OSError):  # a plan that does not say what it was made with is taken by nobody
        if verdict is not Verdict.USED:
            _remove(directory)
        elif directory.is_dir():
            draft = directory / f"{_MADE_WITH}.draft"
            draft.write_text(json.dumps({"arguments": _digest(arguments)}))
            draft.replace(directory / _MADE_WITH)


def _made_with(directory: Path) -> str | None:
    """The digest of the arguments of the plan there; None where none is told."""
    try:
        told = json.loads((directory / _MADE_WITH).read_bytes())["arguments"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return told if isinstance(told, str) else None


def _digest(arguments: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(list(arguments)).encode()).hexdigest()


def _remove(directory: Path) -> None:
    """What says that it may be taken goes first."""
    with contextlib.suppress(FileNotFoundError):
        (directory / _MADE_WITH).unlink(missing_ok=True)
        shutil.rmtree(directory)
