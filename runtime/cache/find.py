"""Find a bundle for a cache root: from the nearest store that has one which this host takes, restored and verified."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from runtime.cache.faults import BundleCause, BundleFault
from runtime.cache.restore import Restored, restore
from runtime.cache.roots import Root
from runtime.cache.start_cache import PassedOver
from runtime.cache.stores.base import BundleRef, Store
from runtime.cache.stores.nearest import Fetched, fetch_nearest
from runtime.cache.threads import in_thread
from runtime.cache.trust import TrustPolicy
from runtime.contract import CacheUse

FETCH_S = 120.0
"""The longest search, all stores together: longer, and compiling anew would have been done."""

_OURS_TO_REFUSE = frozenset({BundleCause.UNSIGNED, BundleCause.UNTRUSTED, BundleCause.UNKNOWN_FORMAT})
"""By this host's policy or version; another may take them, and this one too, once either is changed."""


@dataclass(frozen=True, slots=True)
class Found:
    """What the start begins with: `bundle`, the file that was restored, if any was, and what was passed over."""

    use: CacheUse
    bundle: Path | None = None
    passed: PassedOver = field(default_factory=PassedOver)


async def find(
    stores: Sequence[Store],
    root: Root,
    file: Path,
    *,
    trust: TrustPolicy,
    quarantined: frozenset[str] | set[str],
    within_s: float = FETCH_S,
) -> Found:
    """Fetch to `file` and restore to `root`, which is empty. A bundle that is refused sends it on to the next store.

    A disk without room ends the search, with nothing found and the directory as it was. What was fetched stays only
    where it was restored: the engine, which now compiles, may need the room. Raises OSError.
    """
    search = _Search(root, file, trust, frozenset(quarantined))
    until = asyncio.get_running_loop().time() + within_s
    left = list(stores)
    while left and (within := until - asyncio.get_running_loop().time()) > 0:
        got = await fetch_nearest(left, root.key, file, within_s=within, quarantined=search.unwanted)
        search.passed(got)
        if got.ref is None:
            break
        try:
            restored = await in_thread(partial(_restored, root, file, got.ref, trust))
        except BundleFault as fault:
            search.refused(got, got.ref, fault)
            file.unlink(missing_ok=True)
            if not fault.permanent:
                break
        else:
            return search.found(got, got.ref, restored)
        left = left[[store.place for store in left].index(str(got.place)) + 1 :]
    return search.nothing()


class _Search:
    """What a search has met so far."""

    def __init__(self, root: Root, file: Path, trust: TrustPolicy, quarantined: frozenset[str]) -> None:
        self.root, self.file, self.trust, self.quarantined = root, file, trust, quarantined
        self._notes: list[str] = []
        self._useless: set[str] = set()
        self._ours: set[str] = set()
        self._left_alone: set[str] = set()
        self._silent: set[str] = set()

    @property
    def unwanted(self) -> frozenset[str]:
        """Not to be fetched (again): put aside, or refused already, at another store."""
        return self.quarantined | self._useless | self._ours

    def passed(self, got: Fetched) -> None:
        self._notes += map(str, got.faults)
        left_alone = got.left_alone & self.quarantined
        self._notes += (f"bundle {digest[:12]} left alone: it is quarantined here" for digest in sorted(left_alone))
        self._left_alone |= left_alone
        self._useless |= got.damaged
        self._silent |= got.silent

    def refused(self, got: Fetched, ref: BundleRef, fault: BundleFault) -> None:
        self._notes.append(f"bundle {ref.digest[:12]} of {got.place} refused: {fault}")
        if fault.permanent:
            (self._ours if fault.cause in _OURS_TO_REFUSE else self._useless).add(ref.digest)

    def found(self, got: Fetched, ref: BundleRef, restored: Restored) -> Found:
        size = restored.bundle.size_bytes
        use = self._use().model_copy(update={"origin": got.place, "digest": ref.digest, "size_bytes": size})
        return Found(use, self.file, self._passed_over())

    def nothing(self) -> Found:
        return Found(self._use(), None, self._passed_over())

    def _use(self) -> CacheUse:
        return CacheUse(key=self.root.key, note="; ".join(self._notes))

    def _passed_over(self) -> PassedOver:
        useless = frozenset(self._useless | self._left_alone)
        return PassedOver(useless, useless | frozenset(self._ours), bool(self._left_alone), frozenset(self._silent))


def _restored(root: Root, file: Path, ref: BundleRef, trust: TrustPolicy, stop: threading.Event) -> Restored:
    return restore(
        file,
        root.path,
        trust=trust,
        expected_key=root.key,
        expected_digest=ref.digest,
        # What a power cut tears is not used again: a proof counts for one boot.
        durable=False,
        stop=stop,
    )
