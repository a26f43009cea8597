"""The compile caches of one host: what engines find of what was compiled before, and where they leave their own.

A start gets a private directory for its fingerprint. It is as an earlier start of the same replica was proven with it,
else filled from the nearest store that has a bundle which this host takes, else empty: then the start has the turn to
make one, or waits for who has it as long as that can save anything. Once it is proven, each store that has no bundle of
it is offered one. Whatever fails here, the start goes on without: a cache saves time and decides nothing.
"""

import contextlib
import os
import secrets
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path

from runtime.aside import aside
from runtime.cache.blame import Blame, judge_failure, judge_recompiled
from runtime.cache.bundle import Packed, pack
from runtime.cache.experience import Experience, engine_name
from runtime.cache.find import Found, find
from runtime.cache.fingerprint import Fingerprint
from runtime.cache.inputs import fingerprint_of
from runtime.cache.labels import labels
from runtime.cache.locks_memory import MemoryLocks
from runtime.cache.locks_open import open_lock
from runtime.cache.manifest import Provenance
from runtime.cache.offer import Made, offer
from runtime.cache.quarantine import Quarantine
from runtime.cache.restore import inspect
from runtime.cache.roots import Root
from runtime.cache.signing import SigningKey
from runtime.cache.start_cache import PassedOver, StartCache
from runtime.cache.stores.base import Store
from runtime.cache.stores.directory import DirectoryStore
from runtime.cache.stores.keep import Keep
from runtime.cache.stores.open import open_store, open_stores
from runtime.cache.stores.patience import Patience
from runtime.cache.threads import in_thread
from runtime.cache.trust import TrustPolicy
from runtime.cache.turns import Asked, Follower, Target, Turns, ask_turns
from runtime.contract import CacheUse, EngineSpec, Failure, Verdict

OWN_LOOK_S, LOOK_S = 0.25, 2.0
"""How often a start that waits looks for the bundle: in the host's own store, and in the one that it publishes to."""

SPARED_SHARE = 0.25
"""The share of a start's time limit that it may wait for another's bundle."""

MOST_FINDS = 3
"""Bundles that come while a start waits and are then refused; after so many it compiles."""

KEEP = Keep(per_key=2, max_bytes=20 * 2**30)
"""What the host's own store keeps: of each fingerprint one to fall back on, and no more disk than a model takes."""


class Shelf:
    """One host's stores, trust, signing key and quarantine, below `root`, which no other process writes to.

    `stores`: URLs that bundles are taken from after the host's own. `publish_to`: one that its bundles go to, too, and
    that is asked last. `patience`: the bounds of what is asked of a store. `signer`: in place of a key of its own.
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
        patience: Patience | None = None,
        signer: SigningKey | None = None,
    ) -> None:
        root = Path(os.path.abspath(root))
        self._clock, self._version = clock, version
        (root / "store").mkdir(parents=True, exist_ok=True, mode=0o700)
        self._scratch = root / "scratch"
        shutil.rmtree(self._scratch, ignore_errors=True)  # what a killed host left
        self._signer = signer or SigningKey.load_or_make(root / "signing-key.pem")
        self._trust = (policy or TrustPolicy()).trusting(self._signer.public)
        self._own = DirectoryStore(root / "store", wall=clock, patience=patience)
        self._stores: tuple[Store, ...] = (self._own, *open_stores(stores, patience=patience))
        self._targets = [Target(self._own, MemoryLocks().of, own=True, look_every_s=OWN_LOOK_S)]
        if publish_to is not None:
            target = Target(
                open_store(publish_to, patience=patience),
                partial(open_lock, publish_to, patience=patience),
                look_every_s=LOOK_S,
            )
            self._targets.append(target)
            self._stores = (*self._stores, target.store)
        self._quarantine = Quarantine(root / "quarantine.json")
        self._experience = Experience(root / "experience.json")
        self._failed: Counter[str] = Counter()
        self._recompiled: Counter[str] = Counter()

    async def begin(
        self,
        spec: EngineSpec,
        environ: Mapping[str, str],
        args: Sequence[str],
        caches: Path,
        *,
        awaited: Callable[[], bool | None] = lambda: None,
        told: Callable[[str], None] = lambda _: None,
    ) -> StartCache:
        """A directory below `caches` for one start. `environ`, `args`: what each start of the spec has.

        `awaited`: whether a request waits for it now (None: nobody can tell). `told` hears of a wait for a bundle that
        another start makes. Raises OSError where the directory cannot be had.
        """
        scratch = self._scratch / secrets.token_hex(8)
        try:
            fingerprint = await aside(fingerprint_of, spec, environ=environ, args=args)
        except Exception as error:  # also a driver that does not answer: only the bundle needs the key
            root = Root(caches / "unkeyed", "")
            await in_thread(lambda _: root.take())
            return StartCache(root, CacheUse(note=f"no fingerprint, so no bundle: {error}"), scratch)
        root = Root(caches / fingerprint.key[:16], fingerprint.key)
        try:
            own = await in_thread(lambda _: root.take())
            if own:
                found = Found(CacheUse(key=root.key, origin="own"))
                return await self._begun(spec, root, found, scratch, fingerprint)
            found = await self._found(root, scratch)
            turns = Turns()
            if found.bundle is None:
                known = await in_thread(lambda _: self._experience.known(spec.service))
                follower = Follower(known, awaited, told, spec.start_timeout_s * SPARED_SHARE)
                found, turns = await self._follow(root, scratch, found, follower)
            try:
                return await self._begun(spec, root, found, scratch, fingerprint, turns)
            except BaseException:
                await turns.give_back()
                raise
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise

    async def publish(self, cache: StartCache, *, golden: str | None, compile_s: float | None) -> CacheUse:
        """The start was admitted: offer what was compiled to each store that has no bundle of it. Never raises."""
        self._note_success(cache)
        try:
            if cache.worth_offering and cache.fingerprint is not None:
                await self._offered(cache, cache.fingerprint, golden, compile_s)
            with contextlib.suppress(OSError):
                await in_thread(lambda _: cache.root.remove_others())
            now = self._clock()
            await in_thread(lambda _: self._experience.learn(cache, compile_s, now))
        finally:
            await cache.close()
        return cache.use

    async def blame(self, cache: StartCache, failure: Failure, seconds: float) -> str | None:
        """Judge a start that failed with this cache, or its engine later; why it is put aside, None if it is not."""
        suspect = cache.suspect
        counted = suspect if suspect != "own" else cache.root.key
        before = self._failed[counted or ""]
        judgement = judge_failure(suspect, failure, seconds, before)
        if judgement.counts and counted is not None:
            self._failed[counted] = before + 1
        if judgement.blame is not Blame.QUARANTINE or suspect is None:
            return None
        with contextlib.suppress(OSError):
            await in_thread(lambda _: cache.root.unprove())
        if suspect != "own":
            await self._put_aside(suspect, judgement.why)
        return judgement.why

    async def restored_kv_tokens(self, cache: StartCache) -> int | None:
        """The KV cache that the last start of this very engine got which found its code compiled; None: not known."""
        service = cache.service
        if service is None:
            return None
        return await in_thread(lambda _: self._experience.kv_tokens(service, cache.engine))

    async def close(self) -> None:
        """Let go of the stores."""
        for store in self._stores:
            await store.close()

    async def _found(self, root: Root, scratch: Path) -> Found:
        """A bundle for `root`, restored to it."""
        try:
            quarantined = await in_thread(lambda _: {row.digest for row in self._quarantine.rows(self._clock())})
            await in_thread(lambda _: scratch.mkdir(parents=True, exist_ok=True, mode=0o700))
            return await find(self._stores, root, scratch / "bundle", trust=self._trust, quarantined=quarantined)
        except Exception as error:  # whatever a store does, the engine compiles and the start goes on
            await in_thread(lambda _: root.take())
            return Found(CacheUse(key=root.key, note=f"no bundle: {error or type(error).__name__}"))

    async def _follow(self, root: Root, scratch: Path, found: Found, follower: Follower) -> tuple[Found, Turns]:
        """Nothing was found: what is found once who makes it has published, or our turns to make it."""
        notes = [found.use.note]
        for _ in range(MOST_FINDS):
            asked = await self._ask(root.key, found.passed, follower)
            notes.append(asked.note)
            if not asked.found:
                break
            found = await self._found(root, scratch)
            notes.append(found.use.note)
            if found.bundle is not None:
                break
        note = "; ".join(dict.fromkeys(filter(None, notes)))
        return replace(found, use=found.use.model_copy(update={"note": note})), asked.turns

    async def _ask(self, key: str, passed: PassedOver, follower: Follower) -> Asked:
        return await ask_turns(
            [target for target in self._targets if target.store.place not in passed.silent],
            key,
            follower,
            useless=lambda target: passed.refused if target.own else passed.useless,
            unwanted=passed.refused,
            wall=self._clock,
        )

    async def _begun(
        self,
        spec: EngineSpec,
        root: Root,
        found: Found,
        scratch: Path,
        fingerprint: Fingerprint,
        turns: Turns | None = None,
    ) -> StartCache:
        before = await in_thread(lambda _: root.artifacts())
        return StartCache(
            *(root, found.use, scratch),
            service=spec.service,
            engine=engine_name(spec),
            fingerprint=fingerprint,
            before=before,
            bundle=found.bundle,
            passed=found.passed,
            turns=turns,
        )

    def _note_success(self, cache: StartCache) -> None:
        """What failed before with this cache was something else. Compiled in spite of it twice is a finding."""
        for name in (cache.use.digest, cache.root.key):
            self._failed.pop(name or "", None)
        digest = cache.use.digest
        if digest is None:
            return
        if cache.use.verdict is not Verdict.RECOMPILED:
            self._recompiled.pop(digest, None)
            return
        self._recompiled[digest] += 1
        judgement = judge_recompiled(self._recompiled[digest])
        if judgement.blame is Blame.FINDING:
            cache.noted(judgement.why)

    async def _put_aside(self, digest: str, why: str) -> None:
        with contextlib.suppress(OSError):
            await in_thread(lambda _: self._quarantine.add(digest, why, self._clock()))

    async def _offered(
        self, cache: StartCache, fingerprint: Fingerprint, golden: str | None, compile_s: float | None
    ) -> None:
        async def make() -> Made:
            if cache.unchanged is not None and cache.use.digest is not None:
                file = cache.unchanged
                head = await in_thread(lambda _: inspect(file, trust=self._trust))
                return Made(file, cache.use.digest, labels(head.manifest, head.signer.key_id))
            packed = await in_thread(lambda stop: self._packed(cache, fingerprint, golden, compile_s, stop))
            return Made(packed.path, packed.digest, labels(packed.manifest, self._signer.public.id))

        offered = await offer(
            self._targets,
            cache.root.key,
            make,
            useless=lambda target: cache.passed.refused if target.own else cache.passed.useless,
            wall=self._clock,
            turns=cache.turns,
        )
        if offered.digest is not None:
            with contextlib.suppress(Exception):  # too much is kept until the next time
                await self._own.gc(KEEP, self._clock())
        cache.noted("; ".join(offered.notes), published=offered.digest)

    def _packed(
        self,
        cache: StartCache,
        fingerprint: Fingerprint,
        golden: str | None,
        compile_s: float | None,
        stop: threading.Event,
    ) -> Packed:
        """The bundle of the directory as it is. Raises BundleFault, InterruptedError."""
        made = Provenance(
            made_by=self._version,
            made_at=self._clock(),
            image=fingerprint.inputs.get("image"),
            vllm=_version("vllm"),
            torch=_version("torch"),
            golden=golden,
            compile_s=compile_s,
        )
        cache.scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
        return pack(
            cache.root.path, cache.scratch, fingerprint=fingerprint, provenance=made, signer=self._signer, stop=stop
        )


def _version(name: str) -> str | None:
    try:
        return version_of(name)
    except PackageNotFoundError:
        return None
