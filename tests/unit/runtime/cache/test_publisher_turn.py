"""A start's turn at publishing, with a clock of our own: found, waited for, made, or gone without."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runtime.cache.locks import Lock, LockUnsupported, Seen
from runtime.cache.locks_directory import DirectoryLock
from runtime.cache.publisher import LockRecord, Terms
from runtime.cache.stores.base import BundleRef, StoreCause, StoreFault
from runtime.cache.stores.directory import DirectoryStore
from runtime.cache.turn import Found, Turn, Without, holder_name, take_turn
from tests.unit.runtime.cache.killed import killed_before_act
from tests.unit.runtime.cache.stores.samples import KEY, NOON, bundle

TERMS = Terms(ttl_s=60, skew_s=5)


class Clock:
    """Time that passes only in sleeps: whoever must wake first does, and the clock is then."""

    def __init__(self) -> None:
        self.now = NOON
        self.actors = 1  # so many sleep before time goes on: what they do between sleeps is real file work
        self._changed = asyncio.Event()
        self._sleepers: list[tuple[datetime, asyncio.Future[None]]] = []
        self.at: dict[datetime, Callable[[], Awaitable[object]]] = {}

    def wall(self) -> datetime:
        return self.now

    async def sleep(self, seconds: float) -> None:
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.now + timedelta(seconds=seconds), wake))
        self._changed.set()
        await wake

    async def run(self, until_done: asyncio.Task[Any]) -> None:
        """Let time pass until the task is done."""
        until_done.add_done_callback(lambda _: self._changed.set())
        while not until_done.done():
            if not await self._settled(until_done):
                return
            due = [when for when, wake in self._sleepers if not wake.done()] + list(self.at)
            assert due, "nobody sleeps and nothing will happen"
            self.now = max(self.now, min(due))
            for when in [each for each in self.at if each <= self.now]:
                await self.at.pop(when)()
            for when, wake in self._sleepers:
                if when <= self.now and not wake.done():
                    wake.set_result(None)

    async def _settled(self, task: asyncio.Task[Any]) -> bool:
        """Wait until all sleep in our time. False: the task is done."""
        while sum(not wake.done() for _, wake in self._sleepers) < self.actors:
            if task.done():
                return False
            self._changed.clear()
            async with asyncio.timeout(60):  # a mistake, not a slow machine
                await self._changed.wait()
        return not task.done()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


async def turn_of(clock: Clock, root: Path, me: str = "me", wait_s: float = 600) -> Found | Turn | Without:
    store, lock = DirectoryStore(root, wall=clock.wall), DirectoryLock(root, KEY)
    task = asyncio.create_task(
        take_turn(store, lock, KEY, me, wait_s=wait_s, terms=TERMS, wall=clock.wall, sleep=clock.sleep)
    )
    await clock.run(task)
    return await task


async def held(root: Path, record: LockRecord) -> None:
    lock = DirectoryLock(root, KEY)
    assert await lock.write(record, await lock.read())


THEIRS = LockRecord("them", 3, NOON, 60)


async def test_what_is_there_is_found_without_asking_the_lock(root: Path, tmp_path: Path) -> None:
    ref = await DirectoryStore(root).publish(KEY, *bundle(tmp_path))
    assert await turn_of(Clock(), root) == Found(ref)
    assert not (root / "locks").exists()


async def test_a_store_that_is_not_there_yet_is_made_by_the_first(root: Path, tmp_path: Path) -> None:
    turn = await turn_of(Clock(), root)
    assert isinstance(turn, Turn)
    async with turn:
        ref = await turn.publish(*bundle(tmp_path), {"pod": "chat-0"})
    assert ref is not None
    assert ref.metadata == {"pod": "chat-0", "token": "1", "publisher": "me"}
    assert await DirectoryStore(root).newest(KEY) == ref
    lock = await DirectoryLock(root, KEY).read()
    assert lock is not None
    assert (lock.record.holder, lock.record.token) == (None, 1)


async def test_a_follower_is_done_when_the_bundle_is_there(root: Path, tmp_path: Path) -> None:
    await held(root, THEIRS)
    clock = Clock()
    made = bundle(tmp_path)
    clock.at[NOON + timedelta(seconds=32)] = lambda: DirectoryStore(root).publish(KEY, *made)
    found = await turn_of(clock, root)
    assert isinstance(found, Found)
    assert found.ref.digest == made[1]
    assert timedelta(seconds=32) <= clock.now - NOON <= timedelta(seconds=37)


async def test_a_follower_waits_no_longer_than_it_may(root: Path) -> None:
    await held(root, replace(THEIRS, ttl_s=6000))
    clock = Clock()
    answer = await turn_of(clock, root, wait_s=42)
    assert answer == Without("them is making the bundle, and 42 s are over", "them")
    assert clock.now - NOON == timedelta(seconds=42)


async def test_the_dead_are_taken_over_and_not_before(root: Path) -> None:
    await held(root, THEIRS)
    clock = Clock()
    turn = await turn_of(clock, root)
    assert isinstance(turn, Turn)
    assert turn.record is not None
    assert turn.record.token == 4
    assert clock.now - NOON == timedelta(seconds=65)


async def test_a_bundle_that_is_quarantined_here_is_made_anew(root: Path, tmp_path: Path) -> None:
    bad = await DirectoryStore(root).publish(KEY, *bundle(tmp_path))
    turn = await take_turn(
        DirectoryStore(root), DirectoryLock(root, KEY), KEY, "me", wait_s=0, quarantined=frozenset([bad.digest])
    )
    assert isinstance(turn, Turn)
    async with turn:
        good = await turn.publish(*bundle(tmp_path, 2))
    assert await DirectoryStore(root).newest(KEY) == good


async def test_a_heartbeat_keeps_it_while_it_compiles(root: Path, tmp_path: Path) -> None:
    clock = Clock()
    turn = await turn_of(clock, root)
    assert isinstance(turn, Turn)

    async def compiles() -> BundleRef | None:
        async with turn:
            clock.actors = 2  # the compiler and the heartbeat
            await clock.sleep(1000)
            clock.actors = 1
            return await turn.publish(*bundle(tmp_path))

    task = asyncio.create_task(compiles())
    seen = []

    async def look() -> None:
        other = await take_turn(
            DirectoryStore(root), DirectoryLock(root, KEY), KEY, "other", wait_s=0, terms=TERMS, wall=clock.wall
        )
        seen.append(other)

    for at_s in (100, 500, 900):
        clock.at[NOON + timedelta(seconds=at_s)] = look
    await clock.run(task)
    assert await task is not None
    assert seen == [Without("me is making the bundle, and 0 s are over", "me")] * 3


async def test_who_lost_its_turn_publishes_nothing(root: Path, tmp_path: Path) -> None:
    """It stood still for longer than its lock lives, and another took over."""
    clock = Clock()
    turn = await turn_of(clock, root)
    assert isinstance(turn, Turn)
    clock.now += timedelta(seconds=100)
    other = await turn_of(clock, root, "other")
    assert isinstance(other, Turn)
    async with turn, other:
        assert await turn.publish(*bundle(tmp_path, 1)) is None
        assert await turn.publish(*bundle(tmp_path, 1)) is None  # nor later, when it knows
        published = await other.publish(*bundle(tmp_path, 2))
    assert await DirectoryStore(root).list() == (published,)


async def test_who_stood_still_while_nobody_wanted_its_turn_still_has_it(root: Path, tmp_path: Path) -> None:
    clock = Clock()
    turn = await turn_of(clock, root)
    assert isinstance(turn, Turn)
    clock.now += timedelta(seconds=1000)
    async with turn:
        ref = await turn.publish(*bundle(tmp_path))
    assert ref is not None
    assert ref.metadata["token"] == "2"


async def test_a_start_that_fails_gives_the_lock_up(root: Path) -> None:
    turn = await turn_of(Clock(), root)
    assert isinstance(turn, Turn)
    with pytest.raises(RuntimeError, match="compiler"):
        async with turn:
            raise RuntimeError("compiler")
    again = await turn_of(Clock(), root, "other")
    assert isinstance(again, Turn)


async def test_published_between_the_look_and_the_lock(root: Path, tmp_path: Path) -> None:
    class Late(DirectoryLock):
        async def read(self) -> Seen | None:
            found = await super().read()
            await DirectoryStore(root).publish(KEY, *bundle(tmp_path))
            return found

    lock = Late(root, KEY)
    found = await take_turn(DirectoryStore(root), lock, KEY, "me", wait_s=0, terms=TERMS)
    assert isinstance(found, Found)
    now = await DirectoryLock(root, KEY).read()
    assert now is not None
    assert now.record.holder is None  # given up again


class Broken(DirectoryLock):
    """A lock that fails in the way given."""

    def __init__(self, root: Path, fault: StoreFault) -> None:
        super().__init__(root, KEY)
        self._fault = fault

    async def read(self) -> Seen | None:
        raise self._fault


async def test_a_store_that_fails_is_gone_without(root: Path) -> None:
    lock = Broken(root, StoreFault(StoreCause.UNREACHABLE, "there", "it is down", "look at it"))
    answer = await take_turn(DirectoryStore(root), lock, KEY, "me", wait_s=600)
    assert answer == Without("there: it is down; look at it")


@pytest.mark.parametrize("unsupported", [True, False])
async def test_where_no_lock_can_be_kept_everybody_may_publish(root: Path, tmp_path: Path, unsupported: bool) -> None:
    fault = LockUnsupported(StoreCause.DENIED, "there", "no conditions", "none")
    lock: Lock | None = Broken(root, fault) if unsupported else None
    made = bundle(tmp_path)
    published = []
    for me in ("one", "two"):
        turn = await take_turn(DirectoryStore(root / me), lock, KEY, me, wait_s=0)
        assert isinstance(turn, Turn)
        async with turn:
            root.mkdir(exist_ok=True)
            published.append(await DirectoryStore(root).publish(KEY, *made))
            assert await turn.publish(*made) is not None
    assert published[0] == published[1]


async def test_a_lock_that_lies_is_not_asked_for_ever(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Lying(DirectoryLock):
        async def read(self) -> Seen | None:
            return None

        async def write(self, record: LockRecord, over: Seen | None) -> bool:
            return False

    monkeypatch.setattr("runtime.cache.turn.MOST_LOOKS", 5)
    answer = await take_turn(DirectoryStore(root), Lying(root, KEY), KEY, "me", wait_s=600)
    assert answer == Without("the lock changed at each of 5 looks")


async def test_of_many_starts_at_once_one_publishes_and_all_get_its_bundle(root: Path, tmp_path: Path) -> None:
    """Real time, no heartbeat due: eight starts on one volume."""
    publishers = []

    async def start(number: int) -> str:
        store, lock = DirectoryStore(root), DirectoryLock(root, KEY)

        async def look_at_once(seconds: float) -> None:
            await asyncio.sleep(0)

        answer = await take_turn(store, lock, KEY, holder_name(), wait_s=600, sleep=look_at_once)
        if isinstance(answer, Turn):
            publishers.append(number)
            await asyncio.sleep(0)
            ref = await answer.publish(*bundle(tmp_path, number))
            assert ref is not None
            await answer.release()
            return ref.digest
        assert isinstance(answer, Found)
        return answer.ref.digest

    digests = await asyncio.gather(*(start(number) for number in range(8)))
    assert len(publishers) == 1
    assert set(digests) == {bundle(tmp_path, publishers[0])[1]}


def test_a_publisher_killed_at_any_step_is_followed_by_the_next(tmp_path: Path) -> None:
    """kill -9 from taking the turn to giving it up: the next finds a whole bundle, or makes one."""
    file, digest = bundle(tmp_path, 1, 20_000)
    steps, outcomes = 0, set()

    async def publishes(root: Path) -> None:
        turn = await take_turn(DirectoryStore(root), DirectoryLock(root, KEY), KEY, holder_name(), wait_s=0)
        assert isinstance(turn, Turn)
        async with turn:
            await turn.publish(file, digest)

    async def next_one(root: Path) -> None:
        clock = Clock()
        clock.now = datetime.now(UTC)
        answer = await turn_of(clock, root, "next")
        outcomes.add(type(answer))
        if isinstance(answer, Turn):
            async with answer:
                assert await answer.publish(file, digest) is not None
        newest = await DirectoryStore(root).newest(KEY)
        assert newest is not None
        await DirectoryStore(root).fetch(newest, tmp_path / "fetched")
        assert (tmp_path / "fetched").read_bytes() == file.read_bytes()

    while True:
        root = tmp_path / f"store-{steps}"
        if not killed_before_act(steps + 1, str(root), lambda root=root: asyncio.run(publishes(root))):  # type: ignore[misc]
            break
        steps += 1
        asyncio.run(next_one(root))
    assert steps >= 15
    assert outcomes == {Turn, Found}


async def test_its_own_heartbeat_does_not_cost_it_its_turn(root: Path, tmp_path: Path) -> None:
    """The heartbeat and `publish` renew at the same instant: one of the two writes is refused, and that is no loss."""
    clock = Clock()
    turn = await turn_of(clock, root)
    assert isinstance(turn, Turn)
    assert await asyncio.gather(*(turn.renew() for _ in range(5))) == [True] * 5
    await turn.release()


async def test_a_write_whose_answer_was_lost_is_no_loss(root: Path) -> None:
    class Losing(DirectoryLock):
        async def write(self, record: LockRecord, over: Seen | None) -> bool:
            await super().write(record, over)
            return over is None  # the first is answered, later ones are tried again below us and then refused

    clock = Clock()
    turn = await take_turn(DirectoryStore(root), Losing(root, KEY), KEY, "me", wait_s=0, wall=clock.wall)
    assert isinstance(turn, Turn)
    clock.now += timedelta(seconds=30)
    assert await turn.renew()
    await turn.release()
