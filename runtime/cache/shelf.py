"""The compile caches of one host: what engines find of what was compiled before, and where they leave their own.

A start gets a private directory for its fingerprint. It is filled from an earlier start of the same replica that was
proven, else from the nearest store that has a bundle, else it is empty and what the engine compiles becomes a bundle.
Whatever fails here, the start goes on without: a cache saves time and decides nothing.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from runtime.cache.blame import Blame, judge_failure
from runtime.cache.faults import BundleFault
from runtime.cache.fingerprint import Fingerprint
from runtime.cache.inputs import fingerprint_of
from runtime.cache.locks_open import open_lock
from runtime.cache.quarantine import Quarantine
from runtime.cache.restore import Restored, restore
from runtime.cache.roots import Root
from runtime.cache.signing import SigningKey
from runtime.cache.start_cache import StartCache
from runtime.cache.stores.base import BundleRef, StoreFault
from runtime.cache.stores.directory import DirectoryStore
from runtime.cache.stores.nearest import fetch_nearest
from runtime.cache.stores.open import open_store, open_stores
from runtime.cache.trust import TrustPolicy
from runtime.cache.turn import Turn, holder_name, take_turn
from runtime.contract import CacheUse, EngineSpec, Failure

FETCH_S = 120.0
"""The longest wait for a bundle: longer, and compiling anew would have been done."""


class Shelf:
    """One host's stores, trust, signing key and quarantine, below `root`.

    `stores`: URLs that bundles are taken from, besides the host's own. `publish_to`: one that its bundles go to, too.
    Raises BadStoreUrl, BundleFault (BAD_KEY) where the host's key cannot be had, and OSError.
    """

    def __init__(
        self,
        root: Path,
        *,
        clock: Callable[[], datetime],
        version: str,
        stores: Sequence[str] = (),
        publish_to: str | None = None,
        policy: TrustPolicy | None = None,
    ) -> None:
        self._root, self._clock, self._version = root, clock, version
        (root / "store").mkdir(parents=True, exist_ok=True, mode=0o700)
        self._own = DirectoryStore(root / "store", wall=clock)
        self._signer = SigningKey.load_or_make(root / "signing-key.pem")
        self._trust = (policy or TrustPolicy()).trusting(self._signer.public)
        urls = [str(root / "store"), *stores, *([publish_to] if publish_to else [])]
        self._stores = open_stores(urls)
        self._publish_to = open_store(publish_to) if publish_to else None
        self._lock_url = publish_to or str(root / "store")
        self._quarantine = Quarantine(root / "quarantine.json")
        self._failed: dict[str, int] = {}

    async def begin(
        self, spec: EngineSpec, environ: Mapping[str, str], args: Sequence[str], caches: Path
    ) -> StartCache:
        """A directory below `caches` for one start. `environ`, `args`: what each start of the spec has."""
        try:
            fingerprint = await asyncio.to_thread(fingerprint_of, spec, environ=environ, args=args)
        except (ValueError, OSError) as error:
            root = Root(caches / "unkeyed", "")
            await asyncio.to_thread(root.empty)
            return StartCache(root, CacheUse(note=f"no fingerprint, so no bundle: {error}"))
        root = Root(caches / fingerprint.key[:16], fingerprint.key)
        if await asyncio.to_thread(root.is_proven):
            return await self._made(root, CacheUse(key=fingerprint.key, origin="own"), fingerprint)
        await asyncio.to_thread(root.remove)
        return await self._fetched(root, fingerprint)

    async def publish(self, cache: StartCache, *, golden: str | None, compile_s: float | None) -> CacheUse:
        """Make a bundle of what a start compiled that has answered its golden prompt. Never raises."""
        if not cache.worth_publishing:
            await cache.end_turn()
            return cache.use
        try:
            return await self._published(cache, golden, compile_s)
        except (BundleFault, StoreFault, OSError) as error:
            return cache.noted(f"not published: {error}")
        finally:
            await cache.end_turn()

    def blame(self, cache: StartCache, failure: Failure, seconds: float) -> str | None:
        """Judge a start that failed with this cache; why it is put aside, None if it is not."""
        digest = cache.use.digest or ("own" if cache.use.origin else None)
        before = self._failed.get(cache.root.key, 0)
        judgement = judge_failure(digest, failure, seconds, before)
        self._failed[cache.root.key] = before + 1
        if judgement.blame is not Blame.QUARANTINE:
            return None
        cache.root.unprove()
        if cache.use.digest is not None:
            with contextlib.suppress(OSError):
                self._quarantine.add(cache.use.digest, judgement.why, self._clock())
        return judgement.why

    def note_success(self, cache: StartCache) -> None:
        """A start with this cache was proven: what failed before it was something else."""
        self._failed.pop(cache.root.key, None)

    async def close(self) -> None:
        """Let go of the stores."""
        for store in (*self._stores, self._own, *([self._publish_to] if self._publish_to else [])):
            await store.close()

    async def _fetched(self, root: Root, fingerprint: Fingerprint) -> StartCache:
        quarantined = frozenset(row.digest for row in self._quarantine.rows(self._clock()))
        file = root.path.with_name(f".{root.path.name}.bundle")
        use = CacheUse(key=fingerprint.key)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            got = await fetch_nearest(
                self._stores, root.key, file, within_s=FETCH_S, quarantined=quarantined, keep_in=self._own
            )
            notes = [str(fault) for fault in got.faults]
            if got.ref is not None:
                return await self._restored(root, fingerprint, file, got.ref, str(got.place), notes)
            left = [row.digest for row in self._quarantine.rows(self._clock())] and await self._left_alone(root.key)
            use = use.model_copy(update={"note": "; ".join(notes)})
            return await self._made(root, use, fingerprint, quarantined=bool(left))
        except (StoreFault, OSError) as error:
            return await self._made(root, use.model_copy(update={"note": str(error)}), fingerprint)
        finally:
            file.unlink(missing_ok=True)

    async def _restored(
        self, root: Root, fingerprint: Fingerprint, file: Path, ref: BundleRef, place: str, notes: list[str]
    ) -> StartCache:
        use = CacheUse(key=root.key)
        try:
            done: Restored = await asyncio.to_thread(
                restore,
                file,
                root.path,
                trust=self._trust,
                expected_key=root.key,
                expected_digest=ref.digest,
                # What a power cut tears is not used again: a proof counts for one boot.
                durable=False,
            )
        except BundleFault as fault:
            if fault.permanent:
                with contextlib.suppress(OSError):
                    self._quarantine.add(ref.digest, str(fault), self._clock())
            note = "; ".join([*notes, f"bundle {ref.digest[:12]} of {place} refused: {fault}"])
            return await self._made(
                root, use.model_copy(update={"note": note}), fingerprint, quarantined=fault.permanent
            )
        found = {"origin": place, "digest": ref.digest, "size_bytes": done.bundle.size_bytes, "note": "; ".join(notes)}
        return await self._made(root, use.model_copy(update=found), fingerprint)

    async def _left_alone(self, key: str) -> bool:
        """Whether there is a bundle of `key` that is only left alone because it is quarantined."""
        with contextlib.suppress(StoreFault):
            ref = await self._own.newest(key)
            return ref is not None and self._quarantine.holds(ref.digest, self._clock()) is not None
        return False

    async def _made(
        self, root: Root, use: CacheUse, fingerprint: Fingerprint, *, quarantined: bool = False
    ) -> StartCache:
        """The start's cache; where nothing was found, with the turn to publish, if it is ours."""
        await asyncio.to_thread(root.make)
        turn = await self._turn(root.key) if use.origin is None else None
        before = await asyncio.to_thread(root.artifacts)
        return StartCache(root, use, fingerprint=fingerprint, before=before, turn=turn, quarantined=quarantined)

    async def _turn(self, key: str) -> Turn | None:
        """Ours if nobody else makes the bundle. Nobody is waited for: who compiles meanwhile is ready no later."""
        with contextlib.suppress(StoreFault, OSError):
            lock = open_lock(self._lock_url, key)
            got = await take_turn(self._publish_to or self._own, lock, key, holder_name(), wait_s=0.0, wall=self._clock)
            if isinstance(got, Turn):
                return await got.__aenter__()
        return None

    async def _published(self, cache: StartCache, golden: str | None, compile_s: float | None) -> CacheUse:
        draft = self._root / "drafts"
        await asyncio.to_thread(draft.mkdir, parents=True, exist_ok=True)
        packed = await asyncio.to_thread(
            cache.pack, draft, signer=self._signer, version=self._version, at=self._clock(), golden=golden,
            compile_s=compile_s,
        )  # fmt: skip
        try:
            ref = await self._own.publish(cache.root.key, packed.path, packed.digest)
            if self._publish_to is not None and cache.turn is not None:
                await cache.turn.publish(packed.path, packed.digest)
        finally:
            packed.path.unlink(missing_ok=True)
        return cache.published(ref.digest)
