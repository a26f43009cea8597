"""The compiled code of one start: found before its engine begins, judged, published, and blamed where at fault."""

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import datetime

from runtime.cache import startup_plan
from runtime.cache.start_cache import StartCache
from runtime.contract import CacheUse, EngineSpec, Failure, Mark, Stage
from runtime.engine.argv import engine_arguments
from runtime.engine.cache_kind import forget_compiled
from runtime.engine.dirs import EngineDirs
from runtime.engine.launch import Launcher
from runtime.engine.recorder import Recorder
from runtime.engine.recycle import given, recycle

PUBLISH_S = 30.0
"""How long a start that is to be recycled may publish first; a bundle of 100 MB takes seconds."""


class CompiledCode:
    """One start's. `find` first; where nobody keeps any code nothing is found, and the rest does nothing."""

    def __init__(self, launcher: Launcher, recorder: Recorder, awaited: Callable[[], bool | None]) -> None:
        """`awaited`: whether a request waits for the start now; None: nobody can tell."""
        self._launcher, self._recorder, self._awaited = launcher, recorder, awaited
        self._cache: StartCache | None = None
        self._whose: tuple[EngineDirs, EngineSpec] | None = None
        self._plan_for: tuple[str, ...] | None = None
        self._plan: Mapping[str, str] = {}
        self._publishing: asyncio.Task[None] | None = None

    @property
    def environment(self) -> Mapping[str, str] | None:
        """Where the engine's caches lie; None: where it puts them itself."""
        return {**self._cache.environment, **self._plan} if self._cache is not None else None

    async def find(self, spec: EngineSpec, dirs: EngineDirs, begun: datetime, no_fork: str | None) -> None:
        """Look in the replica's own directory, then in the stores; `no_fork`: why the engine will be no fork."""
        self._whose = dirs, spec
        self._recorder.begin(Stage.CACHE_RESTORE, begun)
        self._cache = await self._launcher.find_cache(spec, dirs, awaited=self._awaited, told=self._waits)
        self._recorder.end(Stage.CACHE_RESTORE, self._recorder.clock())
        if self._cache is not None:
            await self._take_plan(self._cache, spec)
            kind = self._launcher.kind_with(spec, cached=self._cache.found, no_fork=no_fork)
            self._recorder.change(cache=self._cache.use, kind=kind)

    def _waits(self, note: str) -> None:
        self._recorder.change(cache=CacheUse(note=note))

    def line(self, text: str) -> None:
        """Take one line of the engine's output."""
        if self._cache is not None:
            self._cache.line(text)

    async def proven(self) -> None:
        """The engine has answered its golden prompt: the verdict."""
        if self._cache is not None:
            use = await self._cache.proven(self._recorder.seconds(Stage.COMPILE))
            if self._plan_for is not None and use.verdict is not None:
                await asyncio.to_thread(startup_plan.settle, self._cache.root.path, self._plan_for, use.verdict)
            self._recorder.change(cache=use)

    async def recycled(self, *, before: bool) -> str | None:
        """Why the engine, now proven, is begun anew with what it compiled; None: it serves as it is.

        What it compiled has then been offered to the stores. `before`: this start is itself such a second one.
        """
        shelf, cache = self._launcher.shelf, self._cache
        if shelf is None or cache is None or self._whose is None:
            return None
        spec = self._whose[1]
        why = recycle(
            size_given=given(spec.platform, spec.args, spec.env),
            verdict=cache.use.verdict,
            compiles=cache.compiles,
            kv_tokens=cache.kv_tokens,
            restored_kv_tokens=await shelf.restored_kv_tokens(cache),
            recycled_before=before,
            awaited=self._awaited(),
        )
        if why is None:
            return None
        self._recorder.change(cache=cache.noted(f"to be recycled: {why}"))
        self.publish()
        with contextlib.suppress(TimeoutError):  # the second start has the replica's own directory, if no store's
            async with asyncio.timeout(PUBLISH_S):
                await self.published()
        await self.close()
        return why

    def publish(self) -> None:
        """Offer what was compiled to the stores, beside the first requests: some megabytes, in a thread."""
        if self._cache is not None:
            self._publishing = asyncio.create_task(self._publish(self._cache))

    async def published(self) -> None:
        """Wait until stores were offered it."""
        if self._publishing is not None:
            await asyncio.shield(self._publishing)

    async def blame(self, failure: Failure) -> None:
        """Whether what lay in the cache is to blame, so that the next start does without."""
        begun, shelf = self._recorder.reached(Mark.T4), self._launcher.shelf
        if self._cache is None or shelf is None or begun is None:
            return
        if why := await shelf.blame(self._cache, failure, (failure.at - begun).total_seconds()):
            self._recorder.change(cache=self._cache.noted(f"put aside: {why}"))
            if self._whose is not None:
                with contextlib.suppress(OSError):  # the next start then merely counts as a quicker kind
                    forget_compiled(*self._whose)

    async def abandon(self, *, begun: bool) -> None:
        """The start came to nothing; `begun`: an engine may have written."""
        if self._cache is not None:
            await self._cache.close(begun=begun)

    async def close(self) -> None:
        """The replica has ended: nothing of this is at work any more."""
        if self._publishing is not None:
            self._publishing.cancel()
            await asyncio.gather(self._publishing, return_exceptions=True)
        if self._cache is not None:
            await self._cache.close()

    async def _take_plan(self, cache: StartCache, spec: EngineSpec) -> None:
        """Only CUDA's worker knows plans; a service that says itself whether it wants them is left alone."""
        if spec.platform == "cuda" and startup_plan.ENABLE_ENV not in spec.env:
            self._plan_for = engine_arguments(spec, 1, None)
            self._plan = await asyncio.to_thread(
                startup_plan.prepare, cache.root.path, self._plan_for, compiled=cache.found
            )

    async def _publish(self, cache: StartCache) -> None:
        shelf, tokens = self._launcher.shelf, self._recorder.record.golden_tokens
        if shelf is not None:
            golden = None if tokens is None else hashlib.sha256(json.dumps(tokens).encode()).hexdigest()
            compile_s = self._recorder.seconds(Stage.COMPILE)
            self._recorder.change(cache=await shelf.publish(cache, golden=golden, compile_s=compile_s))
