"""One start's turn at publishing: find the bundle, wait for who is making it, or make it and keep the lock alive."""

import asyncio
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType

from runtime.cache.locks import Lock, LockUnsupported, Seen
from runtime.cache.publisher import Follow, GoWithout, Hold, LockRecord, TakeOver, Terms, decide, released
from runtime.cache.stores.base import BundleRef, Store, StoreCause, StoreFault

LOOK_EVERY_S = 5.0
"""A follower looks for the bundle so often: it is done when the bundle is there, not when the lock is free."""

RENEWALS = 3
"""Looks at a lock that refused our heartbeat, before it counts as lost."""
MOST_LOOKS = 10_000
"""A lock that is lost at each look, as a store may lie, must not be looked at for ever."""

Wall = Callable[[], datetime]
Sleep = Callable[[float], Awaitable[None]]
MayWait = Callable[[LockRecord], float]
"""How many seconds from now on a start may wait for the holder of this record; asked at each look."""


def _now() -> datetime:
    return datetime.now(UTC)


def holder_name() -> str:
    """A name for this process as a lock's holder, never used before: a successor on the same host is another."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


@dataclass(frozen=True, slots=True)
class Found:
    """There is a bundle: restore it."""

    ref: BundleRef


@dataclass(frozen=True, slots=True)
class Without:
    """Start without a bundle and publish none. `why`: a sentence for the start's record.

    `holder`: who makes it, and was not waited for (any longer); None: the store or its lock failed.
    """

    why: str
    holder: str | None = None


class Turn:
    """Ours: compile, pass the golden prompt, then `publish`. An async context that keeps the lock until its end.

    `record`: the lock as we hold it; None where the store keeps no lock, and every turn is granted.
    """

    def __init__(
        self,
        store: Store,
        lock: Lock | None,
        key: str,
        record: LockRecord | None,
        terms: Terms,
        wall: Wall,
        sleep: Sleep,
    ) -> None:
        self.record = record
        self.store = store
        self._lock = lock
        self.key = key
        self._me = record.holder if record is not None else None
        self._terms = terms
        self._wall = wall
        self._sleep = sleep
        self._renewing = asyncio.Lock()
        self._beating: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Turn":
        if self.record is not None:
            self._beating = asyncio.create_task(self._beat(), name=f"publisher-{self.key[:12]}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
        await self.release()

    async def publish(self, file: Path, digest: str, metadata: Mapping[str, str] | None = None) -> BundleRef | None:
        """Publish what passed its golden prompt. None: the turn was lost to another in the meantime, publish nothing.

        Raises StoreFault. The token and who published are added to `metadata`.
        """
        if self._lock is None:
            return await self.store.publish(self.key, file, digest, metadata)
        if not await self.renew() or self.record is None:
            return None
        said = {"token": str(self.record.token), "publisher": str(self._me)}
        return await self.store.publish(self.key, file, digest, {**(metadata or {}), **said})

    async def take(self, seen: Seen | None) -> bool:
        """Write our record over what was seen. False: another was quicker. Raises StoreFault."""
        return self._lock is None or self.record is None or await self._lock.write(self.record, seen)

    async def renew(self) -> bool:
        """Write a heartbeat. False: it is no longer our turn. Raises StoreFault."""
        if self._lock is None:
            return True
        async with self._renewing:  # the heartbeat and `publish` may want it at once
            tried: LockRecord | None = None
            for _ in range(RENEWALS):
                seen = await self._ours()
                if seen is None:
                    self.record = None
                    return False
                if seen.record == tried:  # it was written, and the answer was lost
                    self.record = tried
                    return True
                now = self._wall()
                decision = decide(now, seen.record, str(self._me), now, self._terms)
                if not isinstance(decision, Hold | TakeOver):
                    return False
                tried = decision.record
                if await self._lock.write(tried, seen):
                    self.record = tried
                    return True
        return False

    async def _ours(self) -> Seen | None:
        """The lock as it is, if it is still ours. A greater token is what we wrote when an answer was lost."""
        if self._lock is None or self.record is None:
            return None
        seen = await self._lock.read()
        mine = seen is not None and seen.record.holder == self._me and seen.record.token >= self.record.token
        return seen if mine else None

    async def _beat(self) -> None:
        while True:
            await self._sleep(self._terms.renew_every_s)
            try:
                if not await self.renew():
                    return
            except StoreFault:
                continue  # two may be lost before the lock expires; `publish` finds out if it did

    async def release(self) -> None:
        """Give the lock up, if it is still ours. Not given up, it expires by itself: the next one only waits longer."""
        with suppress(StoreFault):
            seen = await self._ours()
            if self._lock is not None and seen is not None:
                await self._lock.write(released(seen.record, self._wall()), seen)
        self.record = None


async def take_turn(
    store: Store,
    lock: Lock | None,
    key: str,
    me: str,
    *,
    wait_s: float | MayWait,
    quarantined: frozenset[str] = frozenset(),
    terms: Terms | None = None,
    look_every_s: float = LOOK_EVERY_S,
    wall: Wall = _now,
    sleep: Sleep = asyncio.sleep,
) -> Found | Turn | Without:
    """What this start does about the bundle of `key`. `wait_s` ≥ 0: how long it may wait for another's, in all or anew.

    `me`: see `holder_name`. `quarantined`: digests that count as not there. A store or lock that fails is no reason
    not to start: the answer is Without.
    """
    terms = terms or Terms()
    begun = wall()
    try:
        for _ in range(MOST_LOOKS):
            ref = await _newest(store, key, quarantined)
            if ref is not None:
                return Found(ref)
            if lock is None:
                return Turn(store, None, key, None, terms, wall, sleep)
            seen = await lock.read()
            record = seen.record if seen is not None else None
            match decide(wall(), record, me, _wait_until(wait_s, record, me, begun, wall()), terms):
                case TakeOver(ours) | Hold(ours):
                    turn = await _begin(Turn(store, lock, key, ours, terms, wall, sleep), seen, quarantined)
                    if turn is not None:
                        return turn
                case Follow(until):
                    await sleep(min(max(0.0, (until - wall()).total_seconds()), look_every_s))
                case GoWithout(holder):
                    waited_s = round((wall() - begun).total_seconds())
                    return Without(f"{holder} is making the bundle, and {waited_s} s are over", holder)
        return Without(f"the lock changed at each of {MOST_LOOKS} looks")
    except LockUnsupported:
        return Turn(store, None, key, None, terms, wall, sleep)
    except StoreFault as fault:
        return Without(str(fault))


def _wait_until(
    wait_s: float | MayWait, record: LockRecord | None, me: str, begun: datetime, now: datetime
) -> datetime:
    if not callable(wait_s):
        return begun + timedelta(seconds=wait_s)
    if record is None or record.holder in (None, me):
        return now
    return now + timedelta(seconds=wait_s(record))


async def _begin(turn: Turn, seen: Seen | None, quarantined: frozenset[str]) -> Found | Turn | None:
    """The turn, if the lock could be written. None: another was quicker."""
    if not await turn.take(seen):
        return None
    try:
        ref = await _newest(turn.store, turn.key, quarantined)  # published between our look and our lock
    except BaseException:
        await turn.release()
        raise
    if ref is None:
        return turn
    await turn.release()
    return Found(ref)


async def _newest(store: Store, key: str, quarantined: frozenset[str]) -> BundleRef | None:
    """The bundle to use. A store that is not there yet has none: the first to publish makes it."""
    try:
        ref = await store.newest(key)
    except StoreFault as fault:
        if fault.cause is StoreCause.ABSENT:
            return None
        raise
    return None if ref is None or ref.digest in quarantined else ref
