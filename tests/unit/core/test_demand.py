"""Why a floor is wanted: requests by ski rental, schedules, holds."""

from datetime import datetime

import pytest

from activator_ext.core.demand import Needs, Planned, hold_plans, needs, queue_demands, schedule_plans, wanted_replicas
from activator_ext.core.model import (
    Asked,
    Bounds,
    Demand,
    DemandKind,
    Floor,
    Hold,
    Policy,
    QueuePolicy,
    QueueView,
    Reason,
    ReasonCode,
    ReplicaView,
    Schedule,
    ServiceObservation,
    ServiceState,
    Warmth,
)

from .build import NOW, at, hold, office, queue, replica, utc

B = 600.0
POLICY = Policy(Bounds(0, 3), queue=QueuePolicy(5), cold_start_cost_s=B)
ZERO = Floor(0, None, Reason(ReasonCode.NO_DEMAND))


def state(*last_needed: float, awaited: int = 0) -> ServiceState:
    return ServiceState(ZERO, tuple(at(seconds) for seconds in last_needed), awaited)


def needed(*last_needed: float, awaited: int = 0) -> Needs:
    return Needs(tuple(at(seconds) for seconds in last_needed), awaited)


@pytest.mark.parametrize(
    ("waiting", "running", "expect"),
    [
        pytest.param(0, 0, 0, id="none"),
        pytest.param(1, 0, 1, id="one waits"),
        pytest.param(0, 1, 1, id="one runs"),
        pytest.param(2, 3, 1, id="exactly one replica's"),
        pytest.param(3, 3, 2, id="one more"),
    ],
)
def test_wanted_replicas(waiting: int, running: int, expect: int) -> None:
    assert wanted_replicas(queue(waiting, running), target=5) == expect


WARM, WARMING, FAILED = Warmth.WARM, Warmth.WARMING, Warmth.FAILED


@pytest.mark.parametrize(
    ("before", "seen", "replicas", "expect"),
    [
        pytest.param(state(), queue(), (), needed(), id="nothing"),
        pytest.param(state(), queue(1), (), needed(0, awaited=1), id="a request before any replica: awaited"),
        pytest.param(state(), queue(1, seen=-3), (replica(),), needed(-3), id="a request at a ready replica"),
        pytest.param(state(), queue(7), (replica(),), needed(0, 0, awaited=2), id="more than are ready: awaited"),
        pytest.param(state(), queue(99), (), needed(0, 0, 0, awaited=3), id="never more than bounds.max"),
        pytest.param(state(-9, -9), queue(1), (replica(), replica()), needed(0, -9), id="each replica for itself"),
        pytest.param(state(-9), queue(1, seen=-20), (replica(),), needed(-9), id="an older report takes nothing back"),
        pytest.param(state(-9), queue(activity=-4), (replica(),), needed(-4), id="until the last activity"),
        pytest.param(state(-9), queue(activity=-12), (replica(),), needed(-9), id="older activity"),
        pytest.param(state(), queue(activity=-4), (replica(),), needed(-4), id="came and went between two looks"),
        pytest.param(state(), queue(activity=-4), (), Needs(), id="came and went while nothing lived"),
        pytest.param(state(), queue(activity=-B), (replica(),), needed(), id="activity too old to matter"),
        pytest.param(state(-B), queue(), (replica(),), needed(), id="forgotten after B"),
        pytest.param(state(1 - B), queue(), (replica(),), needed(1 - B), id="but not before"),
        pytest.param(state(-9, -B), queue(), (replica(),), needed(-9), id="the last replica is forgotten first"),
        pytest.param(state(-B, -9), queue(), (replica(),) * 2, needed(-B, -9), id="never one below a kept one"),
        pytest.param(
            state(-9, -9, -9, -9), queue(), (replica(),) * 4, needed(-9, -9, -9), id="a lower bounds.max forgets"
        ),
        pytest.param(state(-9, -9), queue(), (replica(),), needed(-9), id="what died is not kept"),
        pytest.param(state(-9, awaited=1), queue(), (), needed(), id="what failed is not kept for who is gone"),
        pytest.param(state(-9, awaited=1), queue(1), (), needed(0, awaited=1), id="but for who still waits"),
        pytest.param(state(-9, -9), queue(), (replica(WARMING),), needed(-9), id="what starts is kept"),
        pytest.param(
            state(-2 * B, awaited=1),
            queue(),
            (replica(WARMING),),
            needed(-2 * B, awaited=1),
            id="not while starting",
        ),
        pytest.param(
            state(-2 * B, -2 * B, awaited=2),
            queue(),
            (replica(), replica(WARMING)),
            needed(-2 * B, -2 * B, awaited=2),
            id="nor while the second is starting",
        ),
        pytest.param(
            state(-2 * B, -2 * B, -2 * B, awaited=3),
            queue(),
            (replica(), replica(WARMING)),
            needed(-2 * B, -2 * B, awaited=2),
            id="no more are awaited than start",
        ),
        pytest.param(state(-2 * B, awaited=1), queue(), (replica(FAILED),), needed(), id="a failed start is no start"),
        pytest.param(state(-2 * B), queue(), (replica(WARMING),), needed(), id="a start that no request awaits"),
        pytest.param(
            state(-2 * B, awaited=1),
            queue(),
            (replica(WARM, at(-5)),),
            needed(-5),
            id="idle from when it was ready",
        ),
        pytest.param(
            state(-30, -30, awaited=2),
            queue(),
            (replica(WARM, at(-5)), replica(WARM, at(-9))),
            needed(-9, -5),
            id="each from when it was ready",
        ),
        pytest.param(
            state(-30, -30, awaited=2),
            queue(),
            (replica(WARM, at(-9)), replica(WARMING)),
            needed(-9, -30, awaited=2),
            id="one is ready, one is awaited",
        ),
        pytest.param(state(-30), queue(), (replica(WARM, at(-5)),), needed(-30), id="a restart is no need"),
        pytest.param(state(-9, awaited=1), None, (), needed(-9, awaited=1), id="unseen: as it was"),
        pytest.param(state(-B), None, (replica(),), needed(), id="unseen: forgotten after B all the same"),
        pytest.param(None, None, (replica(), replica(WARMING)), needed(0, 0, awaited=2), id="first look, unseen"),
        pytest.param(None, None, (replica(FAILED),), needed(), id="first look, unseen, nothing lives"),
        pytest.param(None, queue(), (replica(),), needed(), id="first look, seen empty"),
    ],
)
def test_needs(
    before: ServiceState | None, seen: QueueView | None, replicas: tuple[ReplicaView, ...], expect: Needs
) -> None:
    assert needs(NOW, ServiceObservation(replicas, seen), POLICY, before) == expect


def requests(replicas: int, waiting: int, running: int = 0, since: float = 0) -> Demand:
    reason = Reason(ReasonCode.REQUESTS, {"waiting": waiting, "running": running})
    return Demand(DemandKind.QUEUE, replicas, at(since), None, reason)


def idle(replicas: int, since: float) -> Demand:
    reason = Reason(ReasonCode.IDLE_KEEP, {"idle_s": -since, "keep_s": B})
    return Demand(DemandKind.QUEUE, replicas, at(since), at(since + B), reason)


def unseen(replicas: int, since: float) -> Demand:
    return Demand(DemandKind.QUEUE, replicas, at(since), at(since + B), Reason(ReasonCode.QUEUE_UNKNOWN))


@pytest.mark.parametrize(
    ("seen", "known", "expect"),
    [
        pytest.param(queue(), needed(), (), id="nothing"),
        pytest.param(queue(1), needed(0), (requests(1, 1),), id="requests"),
        pytest.param(queue(99, 1), needed(0, 0, 0), (requests(20, 99, 1),), id="all that they want, bounds come later"),
        pytest.param(queue(1, seen=5), needed(5), (requests(1, 1),), id="a report from a clock ahead counts now"),
        pytest.param(queue(), needed(-9), (idle(1, -9),), id="idle"),
        pytest.param(queue(), needed(-9, -9), (idle(2, -9),), id="two, equally long"),
        pytest.param(queue(), needed(-9, -99), (idle(2, -99), idle(1, -9)), id="two, each for itself"),
        pytest.param(queue(), needed(-99, -9), (idle(2, -9),), id="who keeps two keeps one"),
        pytest.param(queue(1), needed(0, -9), (requests(1, 1), idle(2, -9)), id="one busy, one idle"),
        pytest.param(queue(), needed(-B, -99), (idle(2, -99),), id="the first one's time is over, the second's not"),
        pytest.param(queue(), needed(-2 * B, awaited=1), (), id="awaited and late: the loading lease's matter"),
        pytest.param(None, needed(-9), (unseen(1, -9),), id="unseen is not empty"),
        pytest.param(None, needed(), (), id="unseen, and nothing wanted before"),
    ],
)
def test_queue_demands(seen: QueueView | None, known: Needs, expect: tuple[Demand, ...]) -> None:
    assert queue_demands(NOW, seen, POLICY, known) == expect


def lead(replicas: int) -> float:
    return 60.0 * replicas


def plans(schedule: Schedule, now: str, *asked: Asked) -> list[tuple[str, str, str, ReasonCode]]:
    found = schedule_plans(utc(now), Policy(schedules=(schedule,)), lead, asked)
    return [(clock(p.demand.since), clock(p.ready_by), clock(p.demand.until), p.demand.reason.code) for p in found]


def clock(instant: datetime | None) -> str:
    return f"{instant:%d %H:%M}" if instant else "open"


READY_BY, WINDOW = ReasonCode.SCHEDULE_READY_BY, ReasonCode.SCHEDULE_WINDOW
STARTS = Schedule("s", "UTC", "0 18 * * *", start="0 9 * * *")
EARLIER = Asked(DemandKind.SCHEDULE, "office", utc("2026-03-02 09:00"), utc("2026-03-02 08:30"))


@pytest.mark.parametrize(
    ("schedule", "now", "asked", "expect"),
    [
        pytest.param(
            office(), "2026-03-02 08:00", (), [("02 08:59", "02 09:00", "02 18:00", READY_BY)], id="announced"
        ),
        pytest.param(
            office(),
            "2026-03-02 08:59",
            (),
            [("02 08:59", "02 09:00", "02 18:00", READY_BY), ("03 08:59", "03 09:00", "03 18:00", READY_BY)],
            id="due: asked for, and the next one announced",
        ),
        pytest.param(
            office(),
            "2026-03-02 09:00",
            (),
            [("02 08:59", "02 09:00", "02 18:00", WINDOW), ("03 08:59", "03 09:00", "03 18:00", READY_BY)],
            id="in it",
        ),
        pytest.param(office(), "2026-03-06 18:00", (), [("09 08:59", "09 09:00", "09 18:00", READY_BY)], id="over"),
        pytest.param(
            office(replicas=3),
            "2026-03-02 08:00",
            (),
            [("02 08:57", "02 09:00", "02 18:00", READY_BY)],
            id="three replicas are asked for earlier",
        ),
        pytest.param(
            office(),
            "2026-03-02 08:40",
            (EARLIER,),
            [("02 08:30", "02 09:00", "02 18:00", READY_BY), ("03 08:59", "03 09:00", "03 18:00", READY_BY)],
            id="asked for before, the lead time shrank",
        ),
        pytest.param(
            office(),
            "2026-03-03 08:40",
            (EARLIER,),
            [("03 08:59", "03 09:00", "03 18:00", READY_BY)],
            id="another day was asked for",
        ),
        pytest.param(
            STARTS, "2026-03-02 08:59", (), [("02 09:00", "02 09:01", "02 18:00", WINDOW)], id="start, announced"
        ),
        pytest.param(
            STARTS,
            "2026-03-02 09:00",
            (),
            [("02 09:00", "02 09:01", "02 18:00", WINDOW), ("03 09:00", "03 09:01", "03 18:00", WINDOW)],
            id="start, due",
        ),
        pytest.param(office("0 9 1 1 *"), "2026-03-02 08:00", (), [], id="beyond the look-ahead"),
        pytest.param(
            office("*/20 * * * *", "10-59/20 * * * *"),
            "2026-03-02 08:59",
            (),
            [("02 08:59", "02 09:00", "02 09:10", READY_BY), ("02 09:19", "02 09:20", "02 09:30", READY_BY)],
            id="only the next of many is announced",
        ),
    ],
)
def test_schedule_plans(
    schedule: Schedule, now: str, asked: tuple[Asked, ...], expect: list[tuple[str, str, str, ReasonCode]]
) -> None:
    assert plans(schedule, now, *asked) == expect


@pytest.mark.parametrize(
    ("now", "text"),
    [
        pytest.param(
            "2026-03-30 06:59:30",
            "schedule office: ready by Mon 2026-03-30 09:00 CEST; a start takes 60 s (P95)",
            id="ready by",
        ),
        pytest.param("2026-03-30 08:00", "schedule office until Mon 2026-03-30 18:00 CEST", id="window"),
    ],
)
def test_schedule_reasons_speak_local_time(now: str, text: str) -> None:
    policy = Policy(schedules=(office(zone="Europe/Madrid"),))
    assert next(schedule_plans(utc(now), policy, lead, ())).demand.reason.text == text


@pytest.mark.parametrize(
    ("schedule", "expect"),
    [
        pytest.param(office(), utc("2026-03-02 09:00"), id="ready by"),
        pytest.param(STARTS, None, id="asked for at a time: no minute is promised"),
    ],
)
def test_a_schedule_says_its_announced_minute(schedule: Schedule, expect: datetime | None) -> None:
    (plan,) = schedule_plans(utc("2026-03-02 08:00"), Policy(schedules=(schedule,)), lead, ())
    assert plan.demand.ready_by == expect


def planned_hold(given: Hold, since: float, ready: float, code: ReasonCode, /, **numbers: float | str) -> Planned:
    reason = Reason(code, {"hold": given.id, **numbers})
    return Planned(
        Demand(DemandKind.HOLD, given.replicas, at(since), given.until, reason, given.ready_by), given.id, at(ready)
    )


AT_ONCE, AHEAD, TWO, SHORT = hold(), hold(ready_by=900), hold(2, ready_by=900), hold(ready_by=-30)
LATE = Hold("h1", AHEAD.service, 1, at(890), at(3600), at(900))


@pytest.mark.parametrize(
    ("given", "asked", "expect"),
    [
        pytest.param(
            AT_ONCE,
            (),
            planned_hold(AT_ONCE, -60, 0, ReasonCode.HOLD_ACTIVE, until="2026-03-02 11:00:00 UTC"),
            id="as soon as possible",
        ),
        pytest.param(
            AHEAD,
            (),
            planned_hold(AHEAD, 840, 900, ReasonCode.HOLD_READY_BY, ready_by="2026-03-02 10:15:00 UTC", lead_s=60),
            id="announced",
        ),
        pytest.param(
            TWO,
            (),
            planned_hold(TWO, 780, 900, ReasonCode.HOLD_READY_BY, ready_by="2026-03-02 10:15:00 UTC", lead_s=120),
            id="two are asked for earlier",
        ),
        pytest.param(
            LATE,
            (),
            planned_hold(LATE, 890, 900, ReasonCode.HOLD_READY_BY, ready_by="2026-03-02 10:15:00 UTC", lead_s=60),
            id="not before it was created",
        ),
        pytest.param(
            SHORT,
            (),
            planned_hold(SHORT, -60, -30, ReasonCode.HOLD_ACTIVE, until="2026-03-02 11:00:00 UTC"),
            id="in it",
        ),
        pytest.param(
            AHEAD,
            (Asked(DemandKind.HOLD, "h1", at(900), at(-20)),),
            planned_hold(AHEAD, -20, 900, ReasonCode.HOLD_READY_BY, ready_by="2026-03-02 10:15:00 UTC", lead_s=60),
            id="asked for before, the lead time shrank",
        ),
        pytest.param(
            AHEAD,
            (Asked(DemandKind.SCHEDULE, "h1", at(900), at(-20)), Asked(DemandKind.HOLD, "h2", at(900), at(-20))),
            planned_hold(AHEAD, 840, 900, ReasonCode.HOLD_READY_BY, ready_by="2026-03-02 10:15:00 UTC", lead_s=60),
            id="others were asked for before",
        ),
    ],
)
def test_hold_plans(given: Hold, asked: tuple[Asked, ...], expect: Planned) -> None:
    assert list(hold_plans(NOW, (given,), lead, asked)) == [expect]


def test_an_expired_hold_is_no_demand() -> None:
    assert list(hold_plans(NOW, (hold(until=0),), lead, ())) == []


def test_a_hold_stands_though_the_clock_was_set_back_to_before_it() -> None:
    earlier = at(-3600)
    (planned,) = hold_plans(earlier, (hold(),), lead, ())
    assert planned.demand.since == earlier
    (announced,) = hold_plans(earlier, (hold(ready_by=900),), lead, ())
    assert announced.demand.since > earlier
