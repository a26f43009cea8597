"""The loop, stepped by hand: what it orders, what it remembers, what it tells the portal."""

import asyncio
import sqlite3
from dataclasses import replace
from datetime import timedelta

import pytest

from activator_ext.app.controller import SETTLE_S
from activator_ext.core.model import Bounds, Hold, Policy, Warmth
from runtime.contract import Failure, FailureCause, HostView
from runtime.contract import Warmth as WireWarmth
from tests.unit.app.bench import BEGIN, CHAT, Bench, local
from tests.unit.app.fake_host import FakeHost


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
    await bench.tick(5.0)
    retry = bench.host.orders[-1].model_copy(update={"asked_at": bench.now})
    await bench.host.order(retry)
    await bench.ready(30.0)
    (sample,) = bench.history.lead_samples(CHAT)
    assert sample.lead_s == 40.0


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
    assert len(bench.host.leases) == 1
    await bench.tick(1.0)
    assert len(bench.host.leases) == 1


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


async def test_a_service_that_goes_in_the_middle_of_a_round_goes_with_the_next(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = bench.host.view

    async def edited_meanwhile() -> HostView:
        bench.controller.take_services({})
        return await view()

    bench.requests(waiting=1)
    monkeypatch.setattr(bench.host, "view", edited_meanwhile)
    await bench.tick()
    assert [status.service for status in bench.controller.statuses()] == [str(CHAT)]
    await bench.tick()
    assert bench.controller.statuses() == []
    assert bench.host.forgotten == [str(CHAT)]


async def test_an_edit_is_ordered_without_a_change_of_floor(bench: Bench) -> None:
    bench.requests(waiting=1)
    await bench.tick()
    bench.controller.take_services({CHAT: local(args=("--max-num-seqs=4",))})
    await bench.tick()
    order = bench.host.orders[-1]
    assert (order.spec.args, order.why) == (("--max-num-seqs=4",), "its engine was edited; 1 waiting, 0 running")


async def test_a_golden_answer_learned_is_no_edit(bench: Bench) -> None:
    bench.requests(waiting=1)
    await bench.tick()
    await bench.ready(42.0)
    await bench.tick(1.0)
    assert bench.host.orders[-1].spec.golden.learned
    assert not [text for text in bench.said if "edited" in text]


async def test_an_edit_during_a_start_begins_a_new_clock(bench: Bench) -> None:
    """The lead time of what starts now is not that of what was cancelled."""
    bench.requests(waiting=1)
    await bench.tick()
    bench.controller.take_services({CHAT: local(args=("--max-num-seqs=4",))})
    await bench.tick(100.0)
    assert bench.host.orders[-1].asked_at == bench.now
    bench.host.restart(str(CHAT), bench.host.orders[-1])
    await bench.ready(30.0)
    (sample,) = bench.history.lead_samples(CHAT)
    assert sample.lead_s == 30.0


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


async def test_a_locked_history_stops_nothing(bench: Bench) -> None:
    """Somebody's backup holds the database: floors and orders go on, and what is lost is told once."""
    bench.history._connection.execute("PRAGMA busy_timeout = 1")
    with sqlite3.connect(bench.history_path, isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        bench.requests(waiting=1)
        await bench.tick()
        await bench.ready(40.0)
        assert bench.warmth() is Warmth.WARM
        other.execute("ROLLBACK")
    other.close()
    assert len([text for text in bench.said if "locked" in text]) == 1
    await bench.tick(1.0)
    assert [start.outcome for start in bench.history.starts(CHAT, 10)] == ["ready"]


async def test_a_minute_that_passes_is_told_once(bench: Bench) -> None:
    bench.requests()
    ready_by = BEGIN + timedelta(minutes=2)
    bench.controller.world.holds = (Hold("hold-1", CHAT, 1, BEGIN, ready_by + timedelta(minutes=5), ready_by),)
    await bench.tick()
    await bench.tick(119.0)
    assert not [text for text in bench.said if "not ready by" in text]
    for _ in range(3):
        await bench.tick(1.0)
    assert [text for text in bench.said if "not ready by" in text] == [
        "demo/chat: not ready by 2026-03-02 08:02:00 UTC, the announced minute (hold)"
    ]
    await bench.ready(10.0)
    assert any("ready 12.0 s after its minute" in text for text in bench.said)


async def test_the_portal_knows_every_service_before_the_first_decision(bench: Bench) -> None:
    (route,) = bench.feed.table().routes
    assert (route.service, route.warmth) == (str(CHAT), WireWarmth.COLD)


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


@pytest.mark.parametrize("steps", range(8))
async def test_a_wake_at_the_moment_of_the_cancel_does_not_keep_it_running(bench: Bench, steps: int) -> None:
    """Python 3.11's `asyncio.wait_for` swallows a cancel that comes as the thing is done, and `up` never ended."""
    bench.requests()
    run = asyncio.create_task(bench.controller.run())
    await asyncio.sleep(2 * SETTLE_S + 0.2)
    bench.controller.wake()
    for _ in range(steps):
        await asyncio.sleep(0)
    run.cancel()
    done, _ = await asyncio.wait({run}, timeout=5)
    run.cancel()
    assert run in done
