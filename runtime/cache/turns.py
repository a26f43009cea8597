"""The turns at publishing that one start holds: asked for before its engine begins, given back when it is over.

A start that finds no bundle asks each store that it publishes to, its host's own first: so one compiles of those that
start at once, and the others wait for it as long as `following` lets them, or compile without a turn.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from runtime.cache.following import Known, may_wait
from runtime.cache.locks import Lock
from runtime.cache.publisher import LockRecord, Terms
from runtime.cache.stores.base import Store
from runtime.cache.turn import Found, Turn, Without, holder_name, take_turn

TERMS = Terms(ttl_s=30.0, skew_s=5.0)
"""A start's heartbeat comes every 10 s, so that a host that was killed is taken over from within 35 s, about as long as
a small compile. Two lost heartbeats are survived."""

GIVE_BACK_S = 2.0
"""A store that does not answer keeps no engine from ending: what is not given back expires by itself."""


@dataclass(frozen=True, slots=True)
class Target:
    """A store that bundles go to, and its lock for a key. `own`: this host's, which nobody else reads.

    `look_every_s`: how often a start that waits looks for the bundle; a request to an object store costs money.
    """

    store: Store
    lock: Callable[[str], Lock | None]
    own: bool = False
    look_every_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Follower:
    """What decides about a start's waiting: what is `known` of its service, and whether a request waits for it.

    `told` is called with a sentence whenever it changes whom the start waits for. `most_s`: what it can spare.
    """

    known: Known
    awaited: Callable[[], bool | None]
    told: Callable[[str], None]
    most_s: float


class Turns:
    """Turns that are kept alive. `begun_at`: since when all are held, which were to be had; None: not asked for."""

    def __init__(self) -> None:
        self.begun_at: datetime | None = None
        self._held: dict[str, Turn] = {}

    def __len__(self) -> int:
        return len(self._held)

    def of(self, store: Store) -> Turn | None:
        """Ours at `store`."""
        return self._held.get(store.place)

    async def keep(self, turn: Turn) -> None:
        """Hold it from now on."""
        self._held[turn.store.place] = await turn.__aenter__()

    async def give_back(self, store: Store | None = None) -> None:
        """Hold that of `store`, or none at all, any more. Idempotent.

        Takes `GIVE_BACK_S` at most; a lock that could not be given back expires by itself.
        """
        places = list(self._held) if store is None else [store.place]
        held = [turn for place in places if (turn := self._held.pop(place, None))]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GIVE_BACK_S):
                await asyncio.gather(*(turn.__aexit__(None, None, None) for turn in held))


@dataclass(slots=True)
class Asked:
    """What came of asking. `found`: another published meanwhile; nothing is held then. `note`: for the record."""

    turns: Turns
    found: bool = False
    note: str = ""


async def ask_turns(
    targets: Sequence[Target],
    key: str,
    follower: Follower,
    *,
    useless: Callable[[Target], frozenset[str]],
    unwanted: frozenset[str],
    wall: Callable[[], datetime],
) -> Asked:
    """Have the turn at each of `targets`, or wait for who has it. Never raises what a store or lock does.

    `useless`: digests that a bundle of ours would replace there. `unwanted`: those that this host does not take, though
    others may: where one stands nothing is published, and there is nothing to wait for.
    """
    asking = _Asking(follower, wall)
    asked = asking.asked
    try:
        for target in targets:
            taken = await take_turn(
                *(target.store, target.lock(key), key, holder_name()),
                wait_s=asking.more_s,
                quarantined=useless(target),
                terms=TERMS,
                look_every_s=target.look_every_s,
                wall=wall,
            )
            if not await asking.goes_on(taken, unwanted):
                break
    except BaseException as error:
        await asked.turns.give_back()
        if not isinstance(error, Exception):
            raise
        # Whatever a lock does, the engine compiles and the start goes on.
        asked.note = f"no turn to publish: {error or type(error).__name__}"
    if asked.found:
        await asked.turns.give_back()
    asked.turns.begun_at = wall()
    return asked


class _Asking:
    """One start's way from store to store."""

    def __init__(self, follower: Follower, wall: Callable[[], datetime]) -> None:
        self.asked = Asked(Turns())
        self._follower, self._wall = follower, wall
        self._loop, self._waits_for = asyncio.get_running_loop(), ""
        self._begun_s = self._loop.time()  # steady: a clock that is set makes no wait longer

    def more_s(self, record: LockRecord) -> float:
        """See MayWait."""
        now = self._wall()
        waiting = may_wait(
            self._follower.known,
            held_s=None if record.begun_at is None else (now - record.begun_at).total_seconds(),
            waited_s=self._loop.time() - self._begun_s,
            awaited=self._follower.awaited(),
            most_s=self._follower.most_s,
        )
        self.asked.note = f"{record.holder} makes a bundle: {waiting.why}"
        if waiting.more_s and record.holder != self._waits_for:
            self._waits_for = str(record.holder)
            self._follower.told(f"waiting: {self.asked.note}")
        return waiting.more_s

    async def goes_on(self, taken: Found | Turn | Without, unwanted: frozenset[str]) -> bool:
        """Whether the next store is asked, after this answer of one."""
        waited_s = self._loop.time() - self._begun_s
        after = f"after {waited_s:.0f} s of waiting for {self._waits_for}" if self._waits_for else ""
        match taken:
            case Turn():
                await self.asked.turns.keep(taken)
                self.asked.note = f"its turn came {after}" if after else ""
            case Without(why, None):
                self.asked.note = f"no turn to publish: {why}"
            case Without():
                self.asked.note = f"not waited for: {self.asked.note}"
                return False
            case Found(ref) if ref.digest not in unwanted:
                self.asked.found, self.asked.note = True, f"found {after}" if after else ""
                return False
        return True
