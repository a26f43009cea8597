"""What floor is told when: absent is not zero, and an announced end holds without its source."""

from datetime import UTC, datetime, timedelta

import pytest

from activator_ext.adapters.keda_scaler.floors import END_GRACE, STALE_AFTER, Floors, KnownFloor, Unknown, floor_at
from activator_ext.core.model import ServiceId

NOW = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
CHAT = ServiceId("team-a", "chat")
JUST = NOW - timedelta(seconds=1)
LONG_AGO = NOW - STALE_AFTER - timedelta(seconds=1)
LATER, EARLIER = NOW + timedelta(minutes=5), NOW - timedelta(minutes=5)


@pytest.mark.parametrize(
    ("known", "heard_at", "told"),
    [
        (KnownFloor(2), JUST, 2),
        (KnownFloor(0), JUST, 0),
        (KnownFloor(2, LATER), JUST, 2),
        (KnownFloor(2, NOW), JUST, 2),
        (KnownFloor(2, NOW - END_GRACE), JUST, 0),
        (KnownFloor(2, EARLIER), JUST, 0),
        (KnownFloor(2, LATER), LONG_AGO, 2),
        (KnownFloor(2, EARLIER), LONG_AGO, 0),
        (KnownFloor(2), LONG_AGO, "silent for 61 s"),
        (KnownFloor(0), LONG_AGO, "silent for 61 s"),
        (None, JUST, "no floor is known for team-a/chat"),
        (None, LONG_AGO, "silent for 61 s"),
        (None, None, "no floors are known yet"),
    ],
)
def test_what_is_told(known: KnownFloor | None, heard_at: datetime | None, told: int | str) -> None:
    floor = floor_at(NOW, CHAT, known, heard_at)

    if isinstance(told, str):
        assert isinstance(floor, Unknown)
        assert told in floor.why
    else:
        assert floor == told


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def test_floors_that_are_told_forever_never_go_stale() -> None:
    clock = Clock()
    floors = Floors(clock)
    floors.tell({CHAT: KnownFloor(1)}, forever=True)
    clock.now += timedelta(days=30)

    assert floors.of(CHAT) == 1


def test_a_service_that_is_told_no_more_is_unknown() -> None:
    floors = Floors(Clock())
    floors.tell({CHAT: KnownFloor(1)})
    floors.tell({})

    assert isinstance(floors.of(CHAT), Unknown)


async def test_a_change_is_set_by_another_value_and_not_by_the_same_again() -> None:
    floors = Floors(Clock())
    floors.tell({CHAT: KnownFloor(0)})
    change = floors.change(CHAT)

    floors.tell({CHAT: KnownFloor(0), ServiceId("team-a", "embed"): KnownFloor(1)})
    assert not change.is_set()

    floors.tell({CHAT: KnownFloor(1)})
    assert change.is_set()
    assert not floors.change(CHAT).is_set()


@pytest.mark.parametrize(
    ("known", "ends_s"),
    [
        (KnownFloor(1), 30.0),
        (KnownFloor(1, NOW + timedelta(seconds=5)), 10.0),
        (KnownFloor(1, NOW), 5.0),
        (KnownFloor(1, LATER), 30.0),
        (KnownFloor(1, NOW - END_GRACE), 30.0),
        (None, 30.0),
    ],
)
async def test_when_a_floor_ends_by_itself(known: KnownFloor | None, ends_s: float) -> None:
    floors = Floors(Clock())
    floors.tell({} if known is None else {CHAT: known})

    assert floors.ends_within_s(CHAT, 30.0) == ends_s
