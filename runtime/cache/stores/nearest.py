"""Fetch a bundle from the nearest store that has it; a store that fails is passed over, and said."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runtime.cache.stores.base import BundleRef, Progress, Store, StoreCause, StoreFault
from runtime.cache.stores.patience import FIX


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came. `ref` None: nothing did, and the start goes on without. `place`: the store it came from.

    `faults`: what each store that was passed over, or could not keep a copy, had to say, in order.
    """

    ref: BundleRef | None
    place: str | None
    faults: tuple[StoreFault, ...]


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
    faults: list[StoreFault] = []
    found: tuple[Store, BundleRef] | None = None
    asking = "nobody"
    try:
        async with asyncio.timeout(within_s):
            for store in stores:
                asking = store.place
                ref = await _from(store, key, into, quarantined, progress, faults)
                if ref is not None:
                    found = store, ref
                    break
            if found is not None and keep_in is not None and keep_in.place != found[0].place:
                asking = keep_in.place
                await _copy(keep_in, found[1], into, faults)
    except TimeoutError:
        faults.append(StoreFault(StoreCause.STALLED, asking, f"the {within_s:g} s for all stores are over", FIX))
    if found is None:
        return Fetched(None, None, tuple(faults))
    return Fetched(found[1], found[0].place, tuple(faults))


async def _from(
    store: Store,
    key: str,
    into: Path,
    quarantined: frozenset[str],
    progress: Progress | None,
    faults: list[StoreFault],
) -> BundleRef | None:
    try:
        ref = await store.newest(key)
        if ref is None or ref.digest in quarantined:
            return None
        await store.fetch(ref, into, progress)
    except StoreFault as fault:
        faults.append(fault)
        return None
    return ref


async def _copy(store: Store, ref: BundleRef, file: Path, faults: list[StoreFault]) -> None:
    try:
        await store.publish(ref.key, file, ref.digest, ref.metadata)
    except StoreFault as fault:
        faults.append(fault)
