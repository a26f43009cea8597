"""The compile cache of one start, from its first moment to the bundle that is made of it."""

import asyncio
import contextlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runtime.cache import layout
from runtime.cache.fingerprint import Fingerprint
from runtime.cache.roots import Root
from runtime.cache.threads import in_thread
from runtime.cache.turns import Turns
from runtime.cache.verdict import Evidence, judge
from runtime.contract import CacheUse, Verdict


@dataclass(frozen=True, slots=True)
class PassedOver:
    """Digests that a start found and did not use.

    `useless`: of no use to anybody (damaged, of another fingerprint, put aside here after a crash). `refused`: those,
    and what only this host does not take (its trust policy, its version). `quarantined`: some were put aside here.
    `silent`: places of stores that did not answer.
    """

    useless: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    quarantined: bool = False
    silent: frozenset[str] = frozenset()


class StartCache:
    """What a start was given, the evidence of what the engine does with it, and what is said of both (`use`).

    `scratch`: a directory of this start alone, gone with `close`. `bundle`: the file in it that was restored, if any.
    `turns`: at publishing, held until `close`. `service` and `engine`: whose start it is, and a name for its arguments
    and environment; None: nothing is learned of it.
    """

    def __init__(
        self,
        root: Root,
        use: CacheUse,
        scratch: Path,
        *,
        service: str | None = None,
        engine: str = "",
        fingerprint: Fingerprint | None = None,
        before: frozenset[str] = frozenset(),
        bundle: Path | None = None,
        passed: PassedOver | None = None,
        turns: Turns | None = None,
    ) -> None:
        self.root, self.use, self.scratch, self.fingerprint, self.bundle = root, use, scratch, fingerprint, bundle
        self.service, self.engine, self.passed = service, engine, passed or PassedOver()
        self.turns = turns or Turns()
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
    def kv_tokens(self) -> int | None:
        """How many tokens the engine's KV cache holds; None: it has not said."""
        return self._evidence.kv_tokens

    @property
    def compiles(self) -> bool:
        """Whether the engine, now proven, keeps compiled code at all."""
        return bool(self._evidence.after)

    @property
    def worth_offering(self) -> bool:
        """Whether it was proven, and holds anything compiled that stores may lack."""
        return self.fingerprint is not None and self.use.verdict is not None and bool(self._evidence.after)

    @property
    def suspect(self) -> str | None:
        """What a failure may come of: a digest, `own` for the directory itself; None where nothing compiled was used.

        Also what this very start has compiled, once it serves with it.
        """
        return self.use.digest or self.use.published or ("own" if self.found or self.use.verdict else None)

    @property
    def unchanged(self) -> Path | None:
        """The restored bundle, where it is all that the directory holds."""
        return self.bundle if self.use.verdict is Verdict.USED else None

    def line(self, text: str) -> None:
        """A line of the engine's log."""
        self._evidence.line(text)

    async def proven(self, compile_s: float | None) -> CacheUse:
        """The golden prompt is answered: the verdict. The directory may be used again by this replica."""
        self._evidence.after = await in_thread(lambda _: self.root.artifacts())
        verdict, why = judge(self._evidence, restored=self.found, quarantined=self.passed.quarantined)
        with contextlib.suppress(OSError):  # unproven, it is merely not used again
            await in_thread(lambda _: self.root.prove())
        self.use = self.use.model_copy(update={"verdict": verdict, "evidence": why, "compile_s": compile_s})
        return self.use

    def noted(self, note: str, **update: object) -> CacheUse:
        """Something about it that the record should say, and what else changes of it."""
        notes = "; ".join(filter(None, (self.use.note, note)))
        self.use = self.use.model_copy(update={"note": notes, **update})
        return self.use

    async def close(self, *, begun: bool = True) -> None:
        """Nothing more is made of it: its scratch goes, and its turns are given back. Idempotent.

        Not `begun`: no engine ever saw the directory.
        """
        await self.turns.give_back()
        if not begun and self.use.origin == "own":
            with contextlib.suppress(OSError):
                await in_thread(lambda _: self.root.prove())
        await asyncio.to_thread(shutil.rmtree, self.scratch, ignore_errors=True)
