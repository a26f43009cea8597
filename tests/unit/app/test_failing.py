"""What the controller makes of failures: told once, counted by cause, kept, and no start for nobody."""

from datetime import timedelta

import pytest

from activator_ext.core.model import Hold, Warmth
from runtime.contract import STUCK_AFTER_S, Failure, FailureCause, Stage, StageTime, StartRecord
from tests.unit.app.bench import BEGIN, CHAT, Bench
from tests.unit.app.fake_host import FakeHost


def failure(bench: Bench, cause: FailureCause = FailureCause.EXITED) -> Failure:
    return Failure(cause=cause, message="it said why", at=bench.now, tail=("a line of the log",))


def fail(bench: Bench, cause: FailureCause = FailureCause.EXITED, *, retry_s: float = 10.0) -> None:
    bench.host.fail(str(CHAT), failure(bench, cause), bench.now + timedelta(seconds=retry_s))


def counted(bench: Bench, cause: str) -> bool:
    line = f'pilotlight_failures_total{{cause="{cause}",service="demo/chat"}} 1.0'
    return line in bench.metrics.exposition(None)


async def test_a_failed_start_is_not_tried_again_for_a_client_that_left(bench: Bench) -> None:
    bench.requests(waiting=1)
    await bench.tick()
    fail(bench)
    bench.requests()
    await bench.tick(0.5)
    assert bench.host.orders[-1].replicas == 0
    before = len(bench.host.orders)
    for _ in range(3):
        await bench.tick(20.0)
        bench.requests()
    assert len(bench.host.orders) == before


async def test_for_who_still_wants_it_the_host_is_asked_again(bench: Bench) -> None:
    bench.controller.world.holds = (Hold("h", CHAT, 1, BEGIN, BEGIN + timedelta(hours=1)),)
    bench.requests()
    await bench.tick()
    fail(bench)
    before = len(bench.host.orders)
    await bench.tick(0.5)
    assert [order.replicas for order in bench.host.orders[before:]] == [1]


async def test_it_is_told_counted_and_routed_without_the_log(bench: Bench) -> None:
    bench.requests(waiting=1)
    await bench.tick()
    fail(bench, FailureCause.NO_MEMORY)
    await bench.tick(0.5)
    assert [text for text in bench.said if "it said why" in text] == ["demo/chat: demo/chat/0: it said why"]
    assert counted(bench, "no-memory")
    (route,) = bench.feed.table().routes
    assert route.failure is not None
    assert (route.failure.message, route.failure.tail) == ("it said why", ())
    status = bench.controller.statuses()[0]
    assert status.last_failure is not None
    assert status.last_failure.tail == ("a line of the log",)
    assert status.retry_at == bench.now + timedelta(seconds=9.5)


async def test_the_last_failure_stays_at_zero_and_for_the_next_up(bench: Bench) -> None:
    bench.requests(waiting=1)
    await bench.tick()
    fail(bench)
    bench.requests()
    await bench.tick(0.5)
    bench.host = FakeHost(bench.now, "host-b")
    bench.controller = bench.new_controller()
    await bench.tick(3600.0)
    status = bench.controller.statuses()[0]
    assert (status.warmth, status.floor) == (Warmth.COLD, 0)
    assert status.last_failure is not None
    assert status.last_failure.cause is FailureCause.EXITED


async def test_the_death_of_a_ready_engine_is_told_once_and_kept(bench: Bench) -> None:
    bench.requests(waiting=1)
    await bench.tick()
    await bench.ready(30.0)
    bench.host.die(str(CHAT), failure(bench, FailureCause.DIED_AFTER_READY))
    bench.requests(waiting=1)
    for _ in range(3):
        await bench.tick(0.1)
    assert len([text for text in bench.said if "it said why" in text]) == 1
    assert counted(bench, "died-after-ready")
    assert bench.host.orders[-1].replicas == 1
    kept = bench.history.last_failure(CHAT)
    assert kept is not None
    assert kept.cause is FailureCause.DIED_AFTER_READY
    bench.controller = bench.new_controller()
    await bench.tick(0.1)
    assert len([text for text in bench.said if "it said why" in text]) == 1


async def test_a_ready_engine_that_dies_idle_stays_away(bench: Bench) -> None:
    bench.requests(waiting=1)
    await bench.tick()
    await bench.ready(30.0)
    bench.requests()
    await bench.tick(1.0)
    assert bench.host.orders[-1].replicas == 1
    bench.host.die(str(CHAT), failure(bench, FailureCause.DIED_AFTER_READY))
    await bench.tick(1.0)
    assert bench.host.orders[-1].replicas == 0


@pytest.mark.parametrize(("ready", "outcome"), [(False, "failed"), (True, "ready")])
async def test_what_a_lost_host_held_has_ended(bench: Bench, ready: bool, outcome: str) -> None:
    bench.requests(waiting=1)
    await bench.tick()
    if ready:
        await bench.ready(30.0)
    bench.host = bench.controller._host = FakeHost(bench.now, "host-b")
    bench.requests(waiting=1)
    for _ in range(3):
        await bench.tick(1.0)
    assert len([text for text in bench.said if "host-a ended" in text]) == 1
    assert counted(bench, "host-lost")
    first = bench.history.starts(CHAT, 10)[-1]
    assert first.outcome == outcome
    kept = bench.history.last_failure(CHAT)
    assert kept is not None
    assert kept.cause is FailureCause.HOST_LOST
    assert bench.host.orders[-1].replicas == 1


@pytest.mark.parametrize(
    ("longest_s", "outcome", "expect"),
    [(None, "ready", STUCK_AFTER_S), (50.0, "ready", 100.0), (5.0, "ready", 60.0), (50.0, "failed", STUCK_AFTER_S)],
)
async def test_an_order_says_how_long_a_start_may_show_nothing(
    bench: Bench, longest_s: float | None, outcome: str, expect: float
) -> None:
    if longest_s is not None:
        stages = [(Stage.ORDER, 900.0), (Stage.COMPILE, longest_s), (Stage.WARM_UP, 1.0)]
        record = {
            "id": "old-1",
            "service": str(CHAT),
            "replica": f"{CHAT}/0",
            "kind": "cold-node",
            "outcome": outcome,
            "stages": [
                StageTime(stage=stage, begun_at=BEGIN, elapsed_ms=took_s * 1000, evidence="log")
                for stage, took_s in stages
            ],
        }
        bench.history.record_start(StartRecord.model_validate(record))
    bench.requests(waiting=1)
    await bench.tick()
    assert bench.host.orders[-1].stuck_after_s == expect
