"""Offer a proven bundle to each store that has none for its key. One publisher at a time, by the store's own lock.

The turn is taken only now, after the golden prompt, and not when the start began: nobody waits for another's bundle
(who compiles meanwhile is ready no later), so there is nothing to hold over a start, nothing to be left by one that is
killed, and no round trip before the engine begins.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from runtime.cache.locks import Lock
from runtime.cache.stores.base import Store
from runtime.cache.turn import Turn, Without, holder_name, take_turn


@dataclass(frozen=True, slots=True)
class Target:
    """A store that bundles go to, and its lock for a key. `own`: this host's, which nobody else reads."""

    store: Store
    lock: Callable[[str], Lock | None]
    own: bool = False


@dataclass(frozen=True, slots=True)
class Made:
    """A bundle's file, its digest, and what stores say of it to who lists them."""

    file: Path
    digest: str
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Offered:
    """What came of it: the bundle, if any store took it, and why stores did not."""

    digest: str | None = None
    notes: list[str] = field(default_factory=list)


async def offer(
    targets: Sequence[Target],
    key: str,
    make: Callable[[], Awaitable[Made]],
    *,
    useless: Callable[[Target], frozenset[str]],
    wall: Callable[[], datetime],
) -> Offered:
    """Publish what `make` returns (asked once, and only if needed) to each of `targets` that has no bundle of `key`.

    `useless`: digests that count as not there. What fails at one store is noted and keeps none of the others.
    """
    offered = Offered()
    made: Made | None = None
    for target in targets:
        try:
            lock = target.lock(key)
            taken = await take_turn(
                target.store, lock, key, holder_name(), wait_s=0.0, quarantined=useless(target), wall=wall
            )
            if isinstance(taken, Without):
                offered.notes.append(f"not published: {taken.why}")
            if not isinstance(taken, Turn):
                continue
            async with taken:
                made = made or await make()
                if await taken.publish(made.file, made.digest, made.metadata) is None:
                    offered.notes.append(f"not published: another took the turn at {target.store.place}")
                else:
                    offered.digest = made.digest
        except Exception as error:  # whatever it is, the engine serves: it is said, and the next start tries again
            offered.notes.append(f"not published: {error or type(error).__name__}")
    return offered
