"""Fetch a bundle from the nearest store that has it; a store that fails is passed over, and said."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runtime.cache.stores.base import BundleRef, Progress, Store, StoreCause, StoreFault
from runtime.cache.stores.patience import FIX

_SILENT = frozenset({StoreCause.DENIED, StoreCause.STALLED, StoreCause.UNREACHABLE})


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came. `ref` None: nothing did, and the start goes on without. `place`: the store it came from.

    `faults`: what each store that was passed over, or could not keep a copy, had to say, in order. `left_alone`:
    quarantined digests that were to be had. `damaged`: digests whose bytes are not what their name says. `silent`:
    places of stores that do not answer now.
    """

    ref: BundleRef | None
    place: str | None
    faults: tuple[StoreFault, ...]
    left_alone: frozenset[str] = frozenset()
    damaged: frozenset[str] = frozenset()
    silent: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Passed:
    faults: list[StoreFault] = field(default_factory=list)
    left_alone: set[str] = field(default_factory=set)
    damaged: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)

    def fetched(self, ref: BundleRef | None, place: str | None) -> Fetched:
        sets = (frozenset(each) for each in (self.left_alone, self.damaged, self.silent))
        return Fetched(ref, place, tuple(self.faults), *sets)


async def fetch_nearest(
    stores: Sequence[Store],
    key: str,
    into: Path,
    *,
    within_s: float,
    quarantined: frozenset[str] = frozenset(),
    keep_in: Store | None = None,
    progress: Progress | None = None,
) -> Fetched:
    """Ask `stores` in order for the newest bundle of `key`, and copy the first that comes whole to `into`.

    `within_s` > 0 bounds it all. `quarantined`: digests never to be used here. `keep_in`: this host's own store, which
    gets a copy of what came from elsewhere, so that the next start on this host finds it near. Never raises StoreFault.
    """
    passed = _Passed()
    found: tuple[Store, BundleRef] | None = None
    asking = "nobody"
    try:
        async with asyncio.timeout(within_s):
            for store in stores:
                asking = store.place
                ref = await _from(store, key, into, quarantined, progress, passed)
                if ref is not None:
                    found = store, ref
                    break
            if found is not None and keep_in is not None and keep_in.place != found[0].place:
                asking = keep_in.place
                await _copy(keep_in, found[1], into, passed.faults)
    except TimeoutError:
        passed.silent.add(asking)
        passed.faults.append(StoreFault(StoreCause.STALLED, asking, f"the {within_s:g} s for all stores are over", FIX))
    return passed.fetched(None, None) if found is None else passed.fetched(found[1], found[0].place)


async def _from(
    store: Store,
    key: str,
    into: Path,
    quarantined: frozenset[str],
    progress: Progress | None,
    passed: _Passed,
) -> BundleRef | None:
    ref = None
    try:
        ref = await store.newest(key)
        if ref is not None and ref.digest in quarantined:
            passed.left_alone.add(ref.digest)
            return None
        if ref is not None:
            await store.fetch(ref, into, progress)
    except StoreFault as fault:
        passed.faults.append(fault)
        if fault.cause in _SILENT:
            passed.silent.add(store.place)
        if ref is not None and fault.cause is StoreCause.CORRUPT:
            passed.damaged.add(ref.digest)
        return None
    return ref


async def _copy(store: Store, ref: BundleRef, file: Path, faults: list[StoreFault]) -> None:
    try:
        await store.publish(ref.key, file, ref.digest, ref.metadata)
    except StoreFault as fault:
        faults.append(fault)
