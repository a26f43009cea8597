"""While an edited engine starts, the one of before stands for it: two live, one is wanted."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.app.bench import CHAT, Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "history.sqlite3")
    yield made
    made.history.close()


async def test_a_new_controller_in_the_middle_of_it_asks_for_no_third(bench: Bench) -> None:
    """Found by seed 260 of tests/races: at its first look it took both for wanted."""
    bench.requests(waiting=1)
    await bench.tick()
    await bench.ready(after_s=5)
    bench.host.replacing(str(CHAT))
    bench.controller = bench.new_controller()
    bench.requests(running=1)
    await bench.tick(after_s=1)
    assert bench.host.orders[-1].replicas == 1
