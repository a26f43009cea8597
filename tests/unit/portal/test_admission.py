"""Who goes where, and whom a failure answers."""

from datetime import timedelta

import pytest

from activator_ext.portal.admission import Avoid, choose, failure_answers
from runtime.contract import Endpoint
from tests.unit.portal.fakes import NOW, failure, route

TWO = route("a/x", "http://one", "http://two")
ONE, OTHER = TWO.endpoints


@pytest.mark.parametrize(
    ("in_flight", "avoid", "expected"),
    [
        pytest.param({}, None, ONE, id="equal: the least replica id"),
        pytest.param({ONE: 1}, None, OTHER, id="the fewest in flight"),
        pytest.param({ONE: 1, OTHER: 1}, None, ONE, id="equal again"),
        pytest.param({OTHER: 9}, Avoid((ONE,), 10.0), OTHER, id="not the one that just failed"),
        pytest.param({OTHER: 9}, Avoid((ONE,), 5.0), ONE, id="but it again after the grace"),
        pytest.param({}, Avoid((ONE, OTHER), 10.0), None, id="none of those that just failed"),
    ],
)
def test_choice(in_flight: dict[Endpoint, int], avoid: Avoid | None, expected: Endpoint | None) -> None:
    assert choose(TWO, lambda endpoint: in_flight.get(endpoint, 0), avoid, now_s=5.0) == expected


def test_nothing_to_choose() -> None:
    assert choose(route("a/x"), lambda _: 0) is None
    assert choose(route("a/x", "http://one"), lambda _: 0, Avoid((ONE,), 10.0), 5.0) is None


@pytest.mark.parametrize(
    ("entered_s", "retry_s", "now_s", "answers"),
    [
        pytest.param(-5, None, 1, True, id="it was there when the start failed"),
        pytest.param(-5, 30, 40, True, id="it was there, whatever comes after"),
        pytest.param(10, 30, 20, True, id="newer, and the next try is not due"),
        pytest.param(31, 30, 31, False, id="newer, and the next try is due: it is the demand"),
        pytest.param(10, None, 20, False, id="newer, and no try is planned: it asks for one"),
    ],
)
def test_whom_a_failure_answers(entered_s: int, retry_s: int | None, now_s: int, answers: bool) -> None:
    retry_at = None if retry_s is None else NOW + timedelta(seconds=retry_s)
    failed = route("a/x", failure=failure(), retry_at=retry_at)
    at = NOW + timedelta(seconds=entered_s)
    assert failure_answers(failed, at, NOW + timedelta(seconds=now_s)) is answers


def test_a_failure_beside_a_ready_replica_answers_nobody() -> None:
    assert not failure_answers(route("a/x", "http://one", failure=failure()), NOW, NOW)
