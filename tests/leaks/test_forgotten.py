"""A service that is gone leaves nothing in memory, so that thousands that come and go cost nothing."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from activator_ext.app.learning import SAMPLES_KNOWN
from activator_ext.core.model import ServiceId
from activator_ext.portal.clock import Clock
from activator_ext.portal.door import Door
from activator_ext.portal.limits import Limits
from activator_ext.portal.refusals import Outcome
from activator_ext.portal.table import Table
from runtime.contract import Failure, FailureCause, PortalReport, RouteTable, ServiceLoad
from tests.leaks.reachable import texts
from tests.unit.app.bench import CHAT, Bench, local
from tests.unit.portal.fakes import route

PASSING = ServiceId("passing", "by")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "history.sqlite3")
    yield made
    made.history.close()


def report(bench: Bench, waiting: int) -> PortalReport:
    load = ServiceLoad(service=str(PASSING), waiting=waiting, last_activity_at=bench.now)
    return PortalReport(portal="p", at=bench.now, services=(load,))


@pytest.mark.parametrize("ends", ["ready", "failed"])
async def test_the_controller_forgets_a_service_that_is_gone(bench: Bench, ends: str) -> None:
    controller = bench.controller
    controller.take_services({CHAT: local(), PASSING: local(PASSING)})
    controller.portal_reported(report(bench, waiting=1))
    await bench.tick()
    if ends == "ready":
        bench.host.ready(str(PASSING))
    else:
        failure = Failure(cause=FailureCause.EXITED, message="passing/by exited", at=bench.now)
        bench.host.fail(str(PASSING), failure, bench.now + timedelta(seconds=10))
    await bench.tick(after_s=1)
    assert any("passing" in text for text in texts(controller)), "or this finds nothing"
    controller.take_services({CHAT: local()})
    await bench.tick(after_s=1)
    controller.portal_reported(report(bench, waiting=0))
    # Its starts stay in the host's view until 32 others have ended.
    bench.host.forget_starts(str(PASSING))
    await bench.tick(after_s=1)
    del bench.host.orders[:], bench.host.forgotten[:], bench.said[:]
    assert [text for text in texts(controller) if "passing" in text] == []


async def test_starts_without_end_cost_no_memory_without_end(bench: Bench) -> None:
    for _ in range(SAMPLES_KNOWN + 20):
        bench.requests(waiting=1)
        await bench.tick(after_s=1)
        await bench.ready(after_s=5)
        bench.requests()
        await bench.tick(after_s=61)
        assert bench.host.orders[-1].replicas == 0
    known = bench.controller.world.lead_samples[CHAT]
    assert len(known) == SAMPLES_KNOWN
    assert known[0].ended_at == max(sample.ended_at for sample in known), "the newest are kept"


async def test_the_portal_forgets_a_service_that_is_gone() -> None:
    door = Door(Limits(), Clock(lambda: datetime(2026, 3, 2, tzinfo=UTC), lambda: 0.0))
    kept, passing = route("team-a/chat", "http://one"), route(str(PASSING), "http://two")
    door.set_table(Table.of(RouteTable(version=1, routes=(kept, passing))))
    endpoint = door.admit(str(PASSING), None, None)
    assert endpoint is not None
    door.leave(door.enter(str(PASSING), 1))
    door.loads.end(str(PASSING), endpoint)
    door.metrics.first_byte(str(PASSING), 0.1, waited=False)
    door.metrics.ended(str(PASSING), Outcome.ANSWERED)
    assert any("passing" in text for text in texts(door)), "or this finds nothing"
    door.set_table(Table.of(RouteTable(version=2, routes=(kept,))))
    assert [text for text in texts(door) if "passing" in text] == []
