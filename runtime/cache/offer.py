"""Offer a proven bundle to each store that has none for its key. One publisher at a time, by the store's own lock.

A start that has held the turn since before it compiled (`turns`) publishes in it. One that went without asks for it
only now and waits for nobody: whoever has it publishes the same.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from runtime.cache.turn import Turn, Without, holder_name, take_turn
from runtime.cache.turns import Target, Turns


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
    turns: Turns,
) -> Offered:
    """Publish what `make` returns (asked once, and only if needed) to each of `targets` that has no bundle of `key`.

    `useless`: digests that count as not there. What fails at one store is noted and keeps none of the others. Of
    `turns` none is held any more afterwards.
    """
    offered = Offered()
    made: Made | None = None
    for target in targets:
        try:
            if turns.of(target.store) is None:
                taken = await take_turn(
                    *(target.store, target.lock(key), key, holder_name()),
                    wait_s=0.0,
                    quarantined=useless(target),
                    wall=wall,
                )
                if isinstance(taken, Without):
                    offered.notes.append(f"not published: {taken.why}")
                if not isinstance(taken, Turn):
                    continue
                await turns.keep(taken)
            turn = turns.of(target.store)
            if turn is not None:
                made = made or await make()
                if await turn.publish(made.file, made.digest, made.metadata) is None:
                    offered.notes.append(f"not published: another took the turn at {target.store.place}")
                else:
                    offered.digest = made.digest
        except Exception as error:  # whatever it is, the engine serves: it is said, and the next start tries again
            offered.notes.append(f"not published: {error or type(error).__name__}")
        finally:
            await turns.give_back(target.store)
    return offered
