"""Publishers as processes, killed at random: long, in real time, on a real directory (`make prove`)."""

import asyncio
import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.cache.locks_directory import DirectoryLock
from runtime.cache.publisher import Terms
from runtime.cache.stores.directory import DirectoryStore
from runtime.cache.stores.leftovers import PREFIX
from runtime.cache.turn import Found, Turn, holder_name, take_turn
from tests.unit.runtime.cache.stores.samples import KEY, bundle

ROUNDS, STARTS = 12, 6
TERMS = Terms(ttl_s=3, skew_s=0.5)


def fork(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


async def one_start(root: Path, made: tuple[Path, str], told: Path, compile_s: float) -> None:
    """A start: its outcome is written to `told`; the holder says so first, to be killed by name."""
    answer = await take_turn(DirectoryStore(root), DirectoryLock(root, KEY), KEY, holder_name(), wait_s=60, terms=TERMS)
    if isinstance(answer, Turn):
        (told.parent / f"holder-{os.getpid()}").touch()
        async with answer:
            await asyncio.sleep(compile_s)
            ref = await answer.publish(*made)
        told.write_text(json.dumps({"published": ref.digest if ref else None}))
    elif isinstance(answer, Found):
        told.write_text(json.dumps({"found": answer.ref.digest}))
    else:
        told.write_text(json.dumps({"without": answer.why}))


def holders(folder: Path, alive: set[int]) -> list[int]:
    return [int(path.name.removeprefix("holder-")) for path in folder.glob("holder-*") if int(path.name[7:]) in alive]


@pytest.mark.prove
def test_publishers_killed_at_random(tmp_path: Path) -> None:
    """Each round: six processes start at once, each with a bundle of its own; the holder is killed up to twice."""
    seed = int(os.environ.get("PILOTLIGHT_SEED", "7"))
    dice = random.Random(seed)
    made = [bundle(tmp_path, number, 500_000) for number in range(STARTS)]
    kills = takeovers = 0
    for number in range(ROUNDS):
        folder = tmp_path / f"round-{number}"
        root = folder / "store"
        folder.mkdir()

        def work(each: int, folder: Path = folder, root: Path = root, compile_s: float = dice.uniform(0, 0.3)) -> None:
            asyncio.run(one_start(root, made[each], folder / f"told-{each}", compile_s))

        children = {fork(lambda each=each: work(each)): each for each in range(STARTS)}  # type: ignore[misc]
        alive, left = set(children), dice.randint(0, 2)
        end = time.monotonic() + 60
        while alive:
            assert time.monotonic() < end, f"round {number} of seed {seed} does not end"
            for child in tuple(alive):
                if os.waitpid(child, os.WNOHANG)[0]:
                    alive.discard(child)
            if left and (found := holders(folder, alive)):
                time.sleep(dice.uniform(0, 0.35))  # anywhere between taking the turn and giving it up
                os.kill(found[-1], signal.SIGKILL)
                left -= 1
                kills += 1
            time.sleep(0.002)
        told = [json.loads(path.read_text()) for path in folder.glob("told-*")]
        published = [each["published"] for each in told if "published" in each]
        digests = {digest for each in told for digest in each.values()}
        refs = asyncio.run(DirectoryStore(root).list(KEY))
        takeovers += len(list(folder.glob("holder-*"))) - 1
        assert len(told) >= STARTS - 2
        assert len(digests) == len(refs) == 1, (seed, number, told, refs)  # one bundle, and all have it
        assert digests == {refs[0].digest}
        assert len(published) <= 1
        asyncio.run(DirectoryStore(root).fetch(refs[0], folder / "fetched"))
        asyncio.run(DirectoryStore(root).publish(KEY, *made[0]))  # whoever comes next sweeps what the dead left
        assert list((root / "bundles" / KEY).glob(f"{PREFIX}*")) == []
    print(f"{ROUNDS} rounds of {STARTS} starts, {kills} holders killed, {takeovers} taken over: one whole bundle each")
