"""The compile cache of one start, from its first moment to the bundle that is made of it."""

import asyncio
import contextlib
from collections.abc import Mapping
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from runtime.cache import layout
from runtime.cache.bundle import Packed, pack
from runtime.cache.fingerprint import Fingerprint
from runtime.cache.manifest import Provenance
from runtime.cache.roots import Root
from runtime.cache.signing import SigningKey
from runtime.cache.stores.base import StoreFault
from runtime.cache.turn import Turn
from runtime.cache.verdict import Evidence, judge
from runtime.contract import CacheUse


class StartCache:
    """What a start was given, the evidence of what the engine does with it, and what is said of both (`use`).

    `turn`: held by the start that makes the bundle of its fingerprint, until `end_turn`.
    """

    def __init__(
        self,
        root: Root,
        use: CacheUse,
        *,
        fingerprint: Fingerprint | None = None,
        before: frozenset[str] = frozenset(),
        turn: Turn | None = None,
        quarantined: bool = False,
    ) -> None:
        self.root, self.use, self.turn = root, use, turn
        self._fingerprint, self._quarantined = fingerprint, quarantined
        self._evidence = Evidence(before=before)

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that have an engine keep all its caches here."""
        return layout.environment(self.root.path)

    @property
    def found(self) -> bool:
        """Whether compiled code lay there at the start."""
        return self.use.origin is not None

    @property
    def worth_publishing(self) -> bool:
        """Whether the engine compiled something, and it is this start's turn."""
        return self.turn is not None and self._fingerprint is not None and bool(self._evidence.new)

    def line(self, text: str) -> None:
        """A line of the engine's log."""
        self._evidence.line(text)

    async def proven(self, compile_s: float | None) -> CacheUse:
        """The golden prompt is answered: the verdict. The directory may be used again by this replica."""
        self._evidence.after = await asyncio.to_thread(self.root.artifacts)
        verdict, why = judge(self._evidence, restored=self.found, quarantined=self._quarantined)
        with contextlib.suppress(OSError):  # unproven, it is merely not used again
            await asyncio.to_thread(self.root.prove)
        self.use = self.use.model_copy(update={"verdict": verdict, "evidence": why, "compile_s": compile_s})
        return self.use

    def pack(
        self, into: Path, *, signer: SigningKey, version: str, at: datetime, golden: str | None, compile_s: float | None
    ) -> Packed:
        """The bundle of the directory as it is. Raises BundleFault."""
        assert self._fingerprint is not None  # noqa: S101  (worth_publishing says so)
        made = Provenance(
            made_by=version,
            made_at=at,
            image=self._fingerprint.inputs.get("image"),
            vllm=_version("vllm"),
            torch=_version("torch"),
            golden=golden,
            compile_s=compile_s,
        )
        return pack(self.root.path, into, fingerprint=self._fingerprint, provenance=made, signer=signer)

    def published(self, digest: str) -> CacheUse:
        """It is in the store."""
        self.use = self.use.model_copy(update={"published": digest})
        return self.use

    def noted(self, note: str) -> CacheUse:
        """Something about it that the record should say."""
        self.use = self.use.model_copy(update={"note": "; ".join(filter(None, (self.use.note, note)))})
        return self.use

    async def end_turn(self) -> None:
        """Another may make the bundle."""
        turn, self.turn = self.turn, None
        if turn is not None:
            with contextlib.suppress(StoreFault):
                await turn.__aexit__(None, None, None)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
