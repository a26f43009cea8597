"""Build one variant: an engine compiles and answers, a second one proves the bundle of it, then that is published.

Both are started as a host starts its engines, so the key is the one that a host's start asks for. The second start has
the bundle restored to another directory, and must load it and give the same answer: what a user's start will do.
"""

import contextlib
import hashlib
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

from runtime.cache.cli.bundles import prove
from runtime.cache.cli.failures import Refused
from runtime.cache.cli.matrix import Variant
from runtime.cache.cli.reference import fetched
from runtime.cache.cli.terminal import Line
from runtime.cache.cli.wanted import SERVICE, fingerprint
from runtime.cache.locks import Lock
from runtime.cache.stores.base import BundleRef, Store, StoreCause, StoreFault
from runtime.cache.stores.directory import DirectoryStore
from runtime.cache.trust import TrustPolicy
from runtime.cache.turn import Found, Turn, Without, holder_name, take_turn
from runtime.contract import EngineSpec, StageEvent, StartRecord, Verdict
from runtime.engine.launch import Launcher
from runtime.engine.spans import SpanReceiver
from runtime.engine.start import EngineDirs, EngineStart, StartFailed

Result = Literal["built", "exists", "failed"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one variant. `compile_s`: seconds that a start with the bundle saves. `verdict`: of the proof."""

    variant: str
    result: Result
    key: str | None = None
    digest: str | None = None
    verdict: str | None = None
    compile_s: float | None = None
    size_bytes: int | None = None
    seconds: float = 0.0
    why: str | None = None

    def as_json(self) -> dict[str, object]:
        """For programs."""
        return asdict(self)


@dataclass(slots=True)
class Workshop:
    """Where variants are built and where they go.

    `launcher` has a shelf below `work`, without stores, so nothing compiled elsewhere is found by it. `lock`: of the
    store, by key. `wait_s`: how long another's work on the same key is waited for.
    """

    work: Path
    logs: Path
    launcher: Launcher
    spans: SpanReceiver | None
    store: Store
    lock: Callable[[str], Lock | None]
    trust: TrustPolicy
    line: Line
    clock: Callable[[], datetime]
    force: bool = False
    proof: bool = True
    wait_s: float = 1800.0
    done: dict[str, str] = field(default_factory=dict)


class Failed(Exception):
    """A variant that came to nothing; `str()` says why and what to do."""


async def build(shop: Workshop, variant: Variant, spec: EngineSpec) -> Outcome:
    """Build `variant`, whose engine is `spec`. Never raises but when it is cancelled: what fails is in the outcome."""
    begun = shop.clock()
    key = None
    try:
        key = (await fingerprint(spec)).key
        if key in shop.done:
            return Outcome(variant.name, "exists", key, why=f"the same key as {shop.done[key]}")
        shop.done[key] = variant.name
        found = await _built(shop, variant, spec, key)
    except (Failed, Refused, StoreFault, ValueError, OSError) as error:
        found = Outcome(variant.name, "failed", key, why=str(error))
    except StartFailed as failed:
        tail = "".join(f"\n  {line}" for line in failed.failure.tail[-6:])
        found = Outcome(variant.name, "failed", key, why=f"{failed}{tail}")
    finally:
        shutil.rmtree(_place(shop), ignore_errors=True)
    took = (shop.clock() - begun).total_seconds()
    return Outcome(**{**asdict(found), "seconds": round(took, 3)})


async def _built(shop: Workshop, variant: Variant, spec: EngineSpec, key: str) -> Outcome:
    async with _turn(shop, key) as got:
        if isinstance(got, BundleRef):
            return Outcome(variant.name, "exists", key, got.digest, size_bytes=got.size_bytes)
        shop.launcher.want(spec)
        made = await _start(shop, variant, spec, "compile")
        bundle = await _bundle(shop, key, made)
        verdict = None
        if shop.proof:
            verdict = _approved(made, await _start(shop, variant, spec, "proof"))
        file = _place(shop) / bundle.name
        await DirectoryStore(_store(shop)).fetch(bundle, file)
        shop.line.show(f"{variant.name}: publishing to {shop.store.place}")
        ref = await got.publish(file, bundle.digest, bundle.metadata)
        if ref is None:
            raise Failed(f"{shop.store.place}: another builds this key and took the turn: it publishes, look with `ls`")
    return Outcome(variant.name, "built", key, ref.digest, verdict, made.cache.compile_s, ref.size_bytes)


@contextlib.asynccontextmanager
async def _turn(shop: Workshop, key: str) -> AsyncIterator[BundleRef | Turn]:
    """Our turn to build `key`, or the bundle that is there and that is taken. Raises Failed."""
    ignored = frozenset(ref.digest for ref in await _there(shop, key)) if shop.force else frozenset()
    while True:
        shop.line.show(f"{key[:12]}: looking at {shop.store.place}")
        got = await take_turn(
            shop.store, shop.lock(key), key, holder_name(), wait_s=shop.wait_s, quarantined=ignored, wall=shop.clock
        )
        match got:
            case Turn():
                async with got:
                    yield got
                return
            case Without(why):
                raise Failed(f"{shop.store.place}: {why}")
            case Found(ref):
                if await _taken(shop, ref):
                    yield ref
                    return
                ignored |= {ref.digest}


async def _there(shop: Workshop, key: str) -> tuple[BundleRef, ...]:
    try:
        return await shop.store.list(key)
    except StoreFault as fault:
        if fault.cause is StoreCause.ABSENT:
            return ()
        raise


async def _taken(shop: Workshop, ref: BundleRef) -> bool:
    """Whether a host with our trust policy would use what is there; if not, a good one goes over it."""
    place = _place(shop)
    place.mkdir(parents=True, exist_ok=True)
    try:
        found = await fetched(shop.store, ref, place, shop.line)
    except StoreFault as fault:
        if fault.cause in (StoreCause.CORRUPT, StoreCause.ABSENT):
            return False
        raise
    return (await prove(found, shop.trust, shop.line)).verified is not None


async def _start(shop: Workshop, variant: Variant, spec: EngineSpec, what: str) -> StartRecord:
    """One start of `spec` in a directory of its own, warmed up, bundled, stopped again. Raises StartFailed."""
    base, log = _place(shop) / what, shop.logs / f"{hashlib.sha256(variant.name.encode()).hexdigest()[:8]}-{what}.log"
    log.unlink(missing_ok=True)

    def staged(event: StageEvent) -> None:
        shop.line.show(f"{variant.name}: {what}: {event.stage} {event.elapsed_ms / 1000:.1f} s")

    start = EngineStart(
        spec=spec,
        start_id=f"build-{what}",
        replica=f"{SERVICE}/0",
        dirs=EngineDirs(cache=base / "cache", log=log, run=base / "run"),
        asked_at=shop.clock(),
        why="pilotlight cache build",
        spans=shop.spans,
        on_change=lambda _: None,
        on_stage=staged,
        clock=shop.clock,
        launcher=shop.launcher,
    )
    shop.line.show(f"{variant.name}: {what}")
    try:
        engine = await start.run()
        try:
            # First every shape, which may compile more, then the bundle of all of it.
            await engine.warm(spec)
            start.admit(shop.clock())
            record = await start.published()
        finally:
            await engine.stop(0.0)
    finally:
        await start.close()
    log.unlink(missing_ok=True)  # that of a start which failed stays, to be read
    with contextlib.suppress(OSError):
        shop.logs.rmdir()
    return record


async def _bundle(shop: Workshop, key: str, made: StartRecord) -> BundleRef:
    """What the first start left in the shelf. Raises Failed where that is nothing."""
    if made.cache.key != key:
        raise Failed(f"the start was keyed {made.cache.key}, expected was {key}: {made.cache.note or 'report this'}")
    ref = await DirectoryStore(_store(shop)).newest(key)
    if ref is None:
        why = made.cache.note or f"the engine compiled nothing ({made.cache.evidence}): leave this variant out"
        raise Failed(f"no bundle could be made: {why}")
    return ref


def _approved(made: StartRecord, proof: StartRecord) -> str:
    """The verdict of the proof. Raises Failed where the bundle is not what it was made to be."""
    cache = proof.cache
    if cache.verdict is not Verdict.USED:
        told = "; ".join(filter(None, (cache.evidence, cache.note)))
        raise Failed(f"not published: an engine with the bundle did not just load it, verdict {cache.verdict} ({told})")
    if proof.golden_tokens != made.golden_tokens:
        raise Failed("not published: an engine with the bundle answers the golden prompt otherwise than without")
    return cache.verdict.value


def _place(shop: Workshop) -> Path:
    return shop.work / "variant"


def _store(shop: Workshop) -> Path:
    return shop.work / "shelf" / "store"
