"""A serving replica is asked what it computed, again and again, and once more when it is told to stop."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from runtime.contract import EngineSpec, StartKind, StartRecord
from runtime.engine.start import EngineStart
from runtime.host import replica as module
from runtime.host.replica import Replica

SPEC = EngineSpec(service="team/chat", served_names=("chat",), model="/m", platform="cuda")


class Engine:
    """An engine whose counters say, look by look, what it has computed so far."""

    def __init__(self, *looks: dict[int, float]) -> None:
        self._looks, self.asked = list(looks), 0
        self._end = asyncio.Event()

    async def steps(self) -> dict[int, float]:
        self.asked += 1
        return self._looks[min(self.asked, len(self._looks)) - 1]

    async def wait(self) -> Any:
        await self._end.wait()

    async def warm(self, _: EngineSpec) -> bool:
        await asyncio.Event().wait()
        return False

    async def leave(self) -> None:
        pass

    async def stop(self, _: float) -> None:
        self._end.set()


class Start:
    """A start that is ready at once."""

    url, stage, pid = "http://engine", None, 1
    record = StartRecord(id="h-1", service="team/chat", replica="team/chat/0", kind=StartKind.FORK)

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def run(self) -> Engine:
        return self._engine

    def admit(self, _: datetime) -> None:
        pass

    async def close(self) -> None:
        pass


async def life(engine: Engine, *, looks: int, wanted: bool = True) -> list[Mapping[int, float]]:
    """Serve until the engine has been asked so often, stop, and what was told meanwhile."""
    told: list[Mapping[int, float]] = []
    ended = asyncio.Event()
    replica = Replica(
        start=cast("EngineStart", Start(engine)),
        spec=SPEC,
        digest="d",
        ordinal=0,
        clock=lambda: datetime.now(UTC),
        on_change=lambda: None,
        on_end=lambda *_: ended.set(),
        let_go_s=0.0,
        on_steps=told.append if wanted else None,
    )
    replica.begin()
    async with asyncio.timeout(10):
        while engine.asked < looks or replica.ready_at is None:  # noqa: ASYNC110  (the engine is a stand-in)
            await asyncio.sleep(0)
        replica.stop()
        await ended.wait()
    return told


async def test_each_look_tells_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.0)
    told = await life(Engine({1: 10.0}, {1: 15.0}, {}, {1: 15.0, 4: 2.0}), looks=5)
    assert told == [{1: 5.0}, {4: 2.0}]


async def test_the_last_look_is_when_it_stops() -> None:
    assert await life(Engine({1: 10.0}, {1: 700.0}), looks=1) == [{1: 690.0}]


async def test_nobody_asks_where_nobody_wants_to_know() -> None:
    engine = Engine({1: 10.0}, {1: 700.0})
    assert await life(engine, looks=0, wanted=False) == []
    assert engine.asked == 0
