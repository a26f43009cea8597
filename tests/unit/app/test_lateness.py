"""Each announced minute leaves one figure, also where it was never met, also through a restart of the controller."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from activator_ext.adapters.history import Minute, RecordedMinute
from activator_ext.core.model import Bounds, Hold, Policy, Schedule
from runtime.contract import Failure, FailureCause
from tests.unit.app.bench import BEGIN, CHAT, Bench, local
from tests.unit.app.test_metrics import samples

NINE = BEGIN + timedelta(minutes=10)
OVER = NINE + timedelta(minutes=5)
MINUTE = Minute(CHAT, "hold", NINE)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "history.sqlite3")
    made.requests()
    yield made
    made.history.close()


def hold(bench: Bench, *, replicas: int = 1, until: datetime = OVER) -> None:
    bench.controller.world.holds = (Hold("hold-1", CHAT, replicas, BEGIN, until, NINE),)


async def at(bench: Bench, instant: datetime) -> None:
    bench.requests()  # the portal reports, so that its queue is known
    await bench.tick((instant - bench.now).total_seconds())


def judged(bench: Bench) -> list[tuple[str | None, float | None]]:
    return [(each.outcome, each.lateness_s) for each in bench.history.minutes(CHAT, 10)]


def counted(bench: Bench, outcome: str) -> float:
    found = samples(bench.metrics)
    assert found.get("pilotlight_schedule_lateness_seconds_count{service=demo/chat}", 0) == sum(
        found.get(f"pilotlight_ready_by_total{{kind=hold,outcome={each},service=demo/chat}}", 0)
        for each in ("kept", "late", "missed")
    )
    return found.get(f"pilotlight_ready_by_total{{kind=hold,outcome={outcome},service=demo/chat}}", 0)


async def test_a_kept_minute_counts_at_the_minute(bench: Bench) -> None:
    hold(bench)
    await at(bench, NINE - timedelta(seconds=120))
    await bench.ready(100.0)
    assert judged(bench) == [(None, None)]
    for second in (0, 1, 60):
        await at(bench, NINE + timedelta(seconds=second))
    assert judged(bench) == [("kept", -20.0)]
    assert counted(bench, "kept") == 1
    assert len([text for text in bench.said if "20.0 s before its minute" in text]) == 1


async def test_a_late_one_counts_when_it_is_ready(bench: Bench) -> None:
    hold(bench)
    await at(bench, NINE - timedelta(seconds=120))
    await at(bench, NINE)
    assert judged(bench) == [(None, None)]
    await bench.ready(12.0)
    assert judged(bench) == [("late", 12.0)]
    assert counted(bench, "late") == 1


async def test_a_missed_one_counts_when_it_is_over(bench: Bench) -> None:
    hold(bench)
    await at(bench, NINE - timedelta(seconds=120))
    await at(bench, NINE + timedelta(seconds=30))
    await at(bench, OVER)
    await at(bench, OVER + timedelta(seconds=60))
    assert judged(bench) == [("missed", 300.0)]
    assert counted(bench, "missed") == 1
    assert [text for text in bench.said if "minute" in text] == [
        "demo/chat: not ready by 2026-03-02 08:10:00 UTC, the announced minute (hold)",
        "demo/chat: never ready for its minute, given up 300.0 s after it (hold)",
    ]


async def test_a_released_one_is_missed_after_its_minute_and_nothing_before(bench: Bench) -> None:
    for released, expected in ((NINE - timedelta(seconds=5), []), (NINE + timedelta(seconds=40), [("missed", 40.0)])):
        hold(bench)
        await at(bench, NINE - timedelta(seconds=120))
        await at(bench, released - timedelta(seconds=1))
        bench.controller.world.holds = ()
        await at(bench, released)
        assert judged(bench) == expected
        bench.now = BEGIN


async def test_failing_starts_are_one_missed_minute(bench: Bench) -> None:
    hold(bench)
    await at(bench, NINE - timedelta(seconds=120))
    failure = Failure(cause=FailureCause.EXITED, message="it ended", at=bench.now)
    bench.host.fail(str(CHAT), failure, bench.now + timedelta(seconds=30))
    for second in (0, 100, 200, 300, 400):
        await at(bench, NINE + timedelta(seconds=second))
    assert judged(bench) == [("missed", 300.0)]


async def test_all_replicas_that_it_wants_must_be_ready(bench: Bench) -> None:
    bench.controller.take_services({CHAT: replace(local(), policy=Policy(bounds=Bounds(0, 2)))})
    hold(bench, replicas=3)
    await at(bench, NINE - timedelta(seconds=120))
    first = bench.host.replicas(str(CHAT))[0]
    bench.host.ready(str(CHAT), first.start_id)
    await at(bench, NINE)
    assert judged(bench) == [(None, None)]
    await bench.ready(7.0)
    assert judged(bench) == [("late", 7.0)]


async def test_what_was_warm_already_was_ready_when_it_was_asked_for(bench: Bench) -> None:
    bench.requests(waiting=1)
    await bench.tick()
    await bench.ready(40.0)
    hold(bench)
    for second in range(40, 600, 20):
        bench.requests(running=1)
        await bench.tick((BEGIN + timedelta(seconds=second) - bench.now).total_seconds())
    bench.requests(running=1)
    await bench.tick((NINE - bench.now).total_seconds())
    ((outcome, lateness_s),) = judged(bench)
    assert outcome == "kept"
    assert lateness_s is not None
    assert -130 < lateness_s < 0


async def test_a_restart_counts_nothing_twice_and_loses_nothing(bench: Bench) -> None:
    hold(bench)
    await at(bench, NINE - timedelta(seconds=120))
    await at(bench, NINE + timedelta(seconds=5))
    holds = bench.controller.world.holds
    for ready_after_s, expected in ((3.0, [("late", 8.0)]), (50.0, [("late", 8.0)])):
        bench.controller = bench.new_controller()
        bench.controller.world.holds = holds
        bench.requests()
        await bench.ready(ready_after_s)
        assert judged(bench) == expected


async def test_a_schedule_that_is_added_amid_its_window_is_late_for_nothing(bench: Bench) -> None:
    await bench.tick()
    schedule = Schedule("office", "UTC", "0 18 * * *", ready_by="0 7 * * *")
    bench.controller.take_services({CHAT: replace(local(), policy=Policy(schedules=(schedule,)))})
    await bench.tick(1.0)
    await bench.ready(60.0)
    assert bench.host.orders[-1].replicas == 1
    assert judged(bench) == []
    assert not [text for text in bench.said if "minute" in text]


async def test_with_bounds_of_none_nothing_is_late(bench: Bench) -> None:
    bench.controller.take_services({CHAT: replace(local(), policy=Policy(bounds=Bounds(0, 0)))})
    hold(bench)
    for second in (-120, 0, 300):
        await at(bench, NINE + timedelta(seconds=second))
    assert judged(bench) == []


async def test_the_newest_minutes_come_first_and_apart_by_service(bench: Bench) -> None:
    later = Minute(CHAT, "schedule", OVER)
    assert bench.history.announce(MINUTE, new=True)
    assert bench.history.announce(later, new=True)
    assert not bench.history.announce(Minute(CHAT, "hold", OVER), new=False)
    bench.history.judge(MINUTE, "kept", -1.5)
    bench.history.judge(MINUTE, "missed", 9.0)
    assert not bench.history.announce(MINUTE, new=True)
    assert bench.history.minutes(CHAT, 10) == [RecordedMinute(later, None, None), RecordedMinute(MINUTE, "kept", -1.5)]
    bench.history.withdraw(MINUTE)
    bench.history.withdraw(later)
    assert bench.history.minutes(CHAT, 10) == [RecordedMinute(MINUTE, "kept", -1.5)]
