"""What an engine did with a compile cache, from its own evidence: its log, and what it left in the directory. Pure.

That files were restored proves nothing: an engine that looks for another key compiles beside them and says no word of
it. So a verdict rests on what the engine loaded, what it compiled, and what artifacts are new at its end.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from runtime.contract import Verdict

_LOADED = re.compile(
    r"Directly load AOT compilation from path"
    # CUDA, per compile range; from the source of vLLM 0.32 (`compilation/compiler_interface.py`), not seen.
    r"|Directly load the compiled graph\(s\) for compile range"
)
_COMPILED = re.compile(r"saved AOT compiled function to|Compiling a graph for compile range")
_FAILED = re.compile(r"Compiling model again due to a load failure from \S+, reason: (?P<reason>.*)")

_KV_CACHE = re.compile(r"\bKV cache size: (?P<tokens>[\d,]+) tokens")
"""vLLM 0.32 (`v1/core/kv_cache_utils.py`); with several engine cores the smallest counts."""

_ARTIFACT = re.compile(
    r"^torch_compile_cache/(?:torch_aot_compile/[0-9a-f]{64}|[0-9a-f]{10})/rank_[^/]+/[^/]+"
    r"|^triton_cache/[^/]+"
    r"|^(?:deep_gemm|flashinfer|tilelang)/[^/]+(?:/[^/]+)?"
)
"""Below these, one directory or file is one compiled thing, and its name is its key."""


@dataclass(slots=True)
class Evidence:
    """What one start showed so far. `before` and `after`: the artifacts of its cache directory, by `artifacts`.

    `kv_tokens`: how many tokens its KV cache holds; None: it has not said.
    """

    loaded: int = 0
    compiled: int = 0
    load_failure: str | None = None
    kv_tokens: int | None = None
    before: frozenset[str] = field(default_factory=frozenset)
    after: frozenset[str] = field(default_factory=frozenset)

    def line(self, text: str) -> None:
        """Take one line of the engine's log."""
        if failed := _FAILED.search(text):
            self.load_failure = failed["reason"].strip() or "no reason given"
        self.loaded += bool(_LOADED.search(text))
        self.compiled += bool(_COMPILED.search(text))
        if found := _KV_CACHE.search(text):
            tokens = int(found["tokens"].replace(",", ""))
            self.kv_tokens = tokens if self.kv_tokens is None else min(tokens, self.kv_tokens)

    @property
    def new(self) -> frozenset[str]:
        """Artifacts that were not there before."""
        return self.after - self.before


def artifacts(paths: Iterable[str]) -> frozenset[str]:
    """The compiled things among the files of a cache root, given by their relative paths."""
    return frozenset(found[0] for path in paths if (found := _ARTIFACT.match(path)))


def judge(evidence: Evidence, *, restored: bool, quarantined: bool = False) -> tuple[Verdict, str]:
    """The verdict and, in a sentence, what it rests on.

    `restored`: a bundle, or the cache of an earlier start of this replica, lay in the directory. `quarantined`: one was
    there to be had and was left alone.
    """
    new = len(evidence.new)
    did = f"{evidence.loaded} loaded, {evidence.compiled} compiled, {new} new in the directory"
    if not restored:
        return (Verdict.QUARANTINED, f"left alone: {did}") if quarantined else (Verdict.ABSENT, did)
    if evidence.load_failure is not None:
        did += f"; a load failed: {evidence.load_failure}"
    if not evidence.loaded and not evidence.compiled and not new and evidence.load_failure is None:
        return Verdict.ABSENT, "nothing was compiled and nothing asked of the cache (eager mode)"
    if not evidence.loaded:
        where = ""
        if evidence.before and new:
            where = f"; it looked elsewhere than where {min(evidence.before)} lies"
        return Verdict.RECOMPILED, did + where
    return (Verdict.PARTLY if evidence.compiled or new else Verdict.USED), did
