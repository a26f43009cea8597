"""Counts, edges and the last activity."""

from datetime import datetime, timedelta

from activator_ext.portal.clock import Clock
from activator_ext.portal.loads import Loads
from activator_ext.portal.room import Room
from tests.unit.portal.fakes import NOW, route

CHAT = route("a/x", "http://one", "http://two")
ONE, TWO = CHAT.endpoints


class Hands:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.at = NOW
        self.elapsed = 100.0

    def now(self) -> datetime:
        return self.at

    def elapsed_s(self) -> float:
        return self.elapsed

    def go_on(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)
        self.elapsed += seconds


def test_edges_are_told_and_nothing_else() -> None:
    loads, edges = Loads(Room(9, 9), Clock()), list[str]()
    loads.on_edge = edges.append
    first, second = loads.enter(CHAT, 0), loads.enter(CHAT, 0)
    assert len(edges) == 1, "0 → 1 waiting"
    loads.begin("a/x", ONE)
    loads.leave(first)
    loads.begin("a/x", TWO)
    assert len(edges) == 2, "0 → 1 running"
    loads.leave(second)
    assert len(edges) == 3, "1 → 0 waiting"
    loads.end("a/x", ONE)
    loads.end("a/x", TWO)
    assert edges == ["a/x"] * 4


def test_a_load_names_the_oldest_and_the_last_activity() -> None:
    hands = Hands()
    loads = Loads(Room(9, 9), Clock(now=hands.now, elapsed_s=hands.elapsed_s))
    assert loads.load("a/x").last_activity_at is None
    first = loads.enter(CHAT, 0)
    hands.go_on(10)
    loads.enter(CHAT, 0)
    load = loads.load("a/x")
    assert (load.waiting, load.oldest_waiting_at, load.last_activity_at) == (2, NOW, hands.at)
    loads.leave(first)
    for ticket in loads.room.queue("a/x"):
        loads.leave(ticket)
    hands.go_on(10)
    load = loads.load("a/x")
    assert (load.waiting, load.oldest_waiting_at) == (0, None)
    assert load.last_activity_at == NOW + timedelta(seconds=10), "when it went quiet, not now"


def test_a_wall_clock_that_is_set_moves_the_last_activity_along() -> None:
    """It went quiet 5 s ago, whatever the clock says meanwhile: else an hour forward would end what is warm at once."""
    hands = Hands()
    loads = Loads(Room(9, 9), Clock(now=hands.now, elapsed_s=hands.elapsed_s))
    loads.leave(loads.enter(CHAT, 0))
    hands.go_on(5)
    hands.at += timedelta(hours=1)
    assert loads.load("a/x").last_activity_at == hands.at - timedelta(seconds=5)


def test_in_flight_is_counted_by_endpoint() -> None:
    loads = Loads(Room(9, 9), Clock())
    loads.begin("a/x", ONE)
    loads.begin("a/x", ONE)
    loads.begin("a/x", TWO)
    assert (loads.in_flight(ONE), loads.in_flight(TWO), loads.running("a/x"), loads.active()) == (2, 1, 3, {"a/x"})
    for endpoint in (ONE, ONE, TWO):
        loads.end("a/x", endpoint)
    assert (loads.in_flight(ONE), loads.running("a/x"), loads.active()) == (0, 0, set())
