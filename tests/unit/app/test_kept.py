"""What is only kept is not tried again: a start that failed needs somebody who wants it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from activator_ext.core.model import Bounds, Policy, ServiceId
from tests.unit.app.bench import CHAT, Bench, local

OTHER = ServiceId("demo", "other")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "history.sqlite3")
    yield made
    made.history.close()


async def test_the_failed_engine_of_an_edit_is_not_tried_again_while_the_old_one_is_only_kept(bench: Bench) -> None:
    """Found by seed 969 of tests/races: it was, at the end of each back-off, for nobody."""
    bounded = Policy(bounds=Bounds(1, 1))
    bench.requests(waiting=1)
    await bench.tick()
    await bench.ready(after_s=5)
    bench.requests()
    await bench.tick(after_s=1)
    ordered = len(bench.host.orders)
    # As a host says it whose engine of the new spec failed while the old one serves.
    bench.host.wants(str(CHAT), 0)
    await bench.tick(after_s=1)
    # Nor because another service's start has taught a golden answer (seed 5147).
    bench.controller.take_services({CHAT: local(), OTHER: local(OTHER, bounded)})
    await bench.tick(after_s=1)
    bench.host.golden_key = "another"
    bench.host.ready(str(OTHER))
    await bench.tick(after_s=1)
    assert [order.spec.service for order in bench.host.orders[ordered:]].count(str(CHAT)) == 0
    ordered = len(bench.host.orders)
    bench.requests(waiting=1)
    await bench.tick(after_s=1)
    asked = [order for order in bench.host.orders[ordered:] if order.spec.service == str(CHAT)]
    assert [order.replicas for order in asked] == [1]
