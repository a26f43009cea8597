"""The loop, stepped by hand: what it orders, what it remembers, what it tells the portal."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from activator_ext.adapters.history import History
from activator_ext.adapters.local.manifests import LocalService
from activator_ext.app.controller import Controller
from activator_ext.app.metrics import Metrics
from activator_ext.app.routes import RouteFeed
from activator_ext.core.model import Bounds, Hold, Policy, ServiceId, Warmth
from runtime.contract import EngineSpec, Failure, FailureCause, Lease, PortalReport, ServiceLoad
from runtime.contract import Warmth as WireWarmth
from tests.unit.app.fake_host import FakeHost

CHAT = ServiceId("demo", "chat")
BEGIN = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


POLICY = Policy(cold_start_cost_s=60.0)


def local(service: ServiceId = CHAT, policy: Policy = POLICY, **spec: object) -> LocalService:
    fields = {"service": str(service), "served_names": (str(service),), "model": "/models/m"} | spec
    return LocalService(
        id=service,
        policy=policy,
        spec=EngineSpec.model_validate(fields),
        names=(str(service), service.name),
        file="chat.yaml",
        line=1,
        policy_name=None,
    )


class Bench:
    """A controller, its fake host and a clock that the test moves."""

    def __init__(self, history: Path) -> None:
        self.now = BEGIN
        self.active_at: datetime | None = None
        self.host = FakeHost(BEGIN)
        self.history = History(history, lambda: self.now)
        self.feed = RouteFeed()
        self.said: list[str] = []
        self.metrics = Metrics("0")
        self.controller = self.new_controller()

    def new_controller(self) -> Controller:
        controller = Controller(
            host=self.host,
            history=self.history,
            metrics=self.metrics,
            feed=self.feed,
            clock=lambda: self.now,
            lease=Lease(),
            report=self.said.append,
        )
        controller.take_services({CHAT: local()})
        return controller

    async def tick(self, after_s: float = 0.0) -> None:
        self.now += timedelta(seconds=after_s)
        self.host.now = self.now
        await self.controller.tick()

    def requests(self, waiting: int = 0, running: int = 0, since: datetime | None = None) -> None:
        if waiting or running:
            self.active_at = self.now
        load = ServiceLoad(
            service=str(CHAT),
            waiting=waiting,
            running=running,
            oldest_waiting_at=(since or self.now) if waiting else None,
            last_activity_at=self.active_at,
        )
        self.controller.portal_reported(PortalReport(portal="p", at=self.now, services=(load,)))

    async def ready(self, after_s: float) -> None:
        """Starts under way end `after_s` later."""
        self.now += timedelta(seconds=after_s)
        self.host.now = self.now
        self.host.ready(str(CHAT))
        await self.tick()

    def warmth(self) -> Warmth:
        return self.controller.statuses()[0].warmth


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "history.sqlite3")
    yield made
    made.history.close()


async def test_a_request_starts_it_and_idleness_ends_it(bench: Bench) -> None:
    bench.requests()
    await bench.tick()
    assert (bench.host.orders[-1].replicas, bench.warmth()) == (0, Warmth.COLD)
    waiting_since = bench.now
    bench.now += timedelta(seconds=0.5)
    bench.requests(waiting=1, since=waiting_since)
    await bench.tick()
    order = bench.host.orders[-1]
    assert (order.replicas, order.asked_at, order.why) == (1, waiting_since, "1 waiting, 0 running")
    assert bench.warmth() is Warmth.WARMING
    await bench.ready(40.0)
    bench.requests(running=1)
    await bench.tick()
    assert bench.warmth() is Warmth.BUSY
    bench.requests()
    await bench.tick()
    decision = bench.controller.decision
    assert decision is not None
    assert decision.next_at == bench.now + timedelta(seconds=60)
    await bench.tick(59.9)
    bench.requests()
    await bench.tick()
    assert bench.host.orders[-1].replicas == 1
    await bench.tick(0.2)
    assert (bench.host.orders[-1].replicas, bench.warmth()) == (0, Warmth.COLD)


async def test_a_repeated_tick_changes_nothing(bench: Bench) -> None:
    bench.requests(waiting=1)
    for _ in range(5):
        await bench.tick()
    assert [order.replicas for order in bench.host.orders] == [1]
    assert len([text for text in bench.said if "floor" in text]) == 1


async def test_it_learns_lead_time_and_golden_answer(bench: Bench) -> None:
    bench.requests(waiting=1)
    await bench.tick()
    await bench.ready(42.0)
    await bench.tick(1.0)
    (sample,) = bench.history.lead_samples(CHAT)
    assert sample.lead_s == 42.0
    assert bench.host.orders[-1].spec.golden.learned == {"key": (1, 2, 3)}
    assert [start.outcome for start in bench.history.starts(CHAT, 10)] == ["ready"]


async def test_lead_time_counts_failed_attempts(bench: Bench) -> None:
    bench.requests(waiting=1)
    await bench.tick()
    failure = Failure(cause=FailureCause.EXITED, message="the engine exited with 1", at=bench.now)
    bench.host.fail(str(CHAT), failure, bench.now + timedelta(seconds=10))
    await bench.tick(5.0)
    assert bench.warmth() is Warmth.FAILED
    (route,) = bench.feed.table().routes
    assert (route.failure, route.warmth) == (failure, WireWarmth.FAILED)
    assert any("the engine exited with 1" in text for text in bench.said)
    retry = bench.host.orders[-1].model_copy(update={"asked_at": bench.now})
    await bench.host.order(retry)
    await bench.ready(30.0)
    (sample,) = bench.history.lead_samples(CHAT)
    assert sample.lead_s == 35.0


async def test_a_known_start_is_counted_once_by_the_next_controller(bench: Bench) -> None:
    bench.requests(waiting=1)
    await bench.tick()
    await bench.ready(20.0)
    bench.controller = bench.new_controller()
    bench.requests(running=1)
    await bench.tick(1.0)
    assert len(bench.history.lead_samples(CHAT)) == 1
    assert bench.host.orders[-1].replicas == 1


async def test_a_new_host_gets_every_order_again(bench: Bench) -> None:
    bench.requests(waiting=1)
    await bench.tick()
    bench.host.up = False
    await bench.tick(1.0)
    assert bench.warmth() is Warmth.UNKNOWN
    bench.host = bench.controller._host = FakeHost(bench.now, "host-b")
    await bench.tick(1.0)
    assert [order.replicas for order in bench.host.orders] == [1]


async def test_a_silent_portal_is_not_an_empty_queue(bench: Bench) -> None:
    bench.requests(running=1)
    await bench.tick()
    await bench.ready(30.0)
    status = bench.controller.statuses()[0]
    assert (status.waiting, status.running) == (None, None)
    assert bench.host.orders[-1].replicas == 1


async def test_a_service_that_is_gone_is_forgotten(bench: Bench) -> None:
    bench.requests(waiting=1)
    await bench.tick()
    bench.controller.take_services({})
    await bench.tick()
    assert bench.host.forgotten == [str(CHAT)]
    assert bench.feed.table().routes == ()


async def test_an_edit_is_ordered_without_a_change_of_floor(bench: Bench) -> None:
    bench.requests(waiting=1)
    await bench.tick()
    bench.controller.take_services({CHAT: local(args=("--max-num-seqs=4",))})
    await bench.tick()
    assert bench.host.orders[-1].spec.args == ("--max-num-seqs=4",)


async def test_bounds_hold_over_requests(bench: Bench) -> None:
    bench.controller.take_services({CHAT: replace(local(), policy=Policy(bounds=Bounds(0, 0)))})
    bench.requests(waiting=3)
    await bench.tick()
    assert bench.host.orders[-1].replicas == 0
    assert bench.controller.statuses()[0].reason.code == "bounds-max"


async def test_a_hold_is_asked_for_ahead_of_its_minute(bench: Bench) -> None:
    bench.requests()
    ready_by = BEGIN + timedelta(minutes=10)
    hold = Hold("hold-1", CHAT, 1, BEGIN, ready_by + timedelta(minutes=5), ready_by)
    bench.controller.world.holds = (hold,)
    await bench.tick()
    decision = bench.controller.decision
    assert decision is not None
    assert decision.next_at == ready_by - timedelta(seconds=120)
    await bench.tick(480.0)
    assert bench.host.orders[-1].replicas == 1
    await bench.ready(100.0)
    assert any("ready 20.0 s before its minute" in text for text in bench.said)


async def test_the_portal_is_told_only_of_changes(bench: Bench) -> None:
    bench.requests(waiting=1)
    await bench.tick()
    version = bench.feed.table().version
    await bench.tick(0.1)
    assert bench.feed.table().version == version
    await bench.ready(1.0)
    table = bench.feed.table()
    assert table.version == version + 1
    assert [endpoint.url for endpoint in table.routes[0].endpoints] == ["http://127.0.0.1:40001"]
