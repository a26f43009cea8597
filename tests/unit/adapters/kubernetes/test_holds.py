"""Holds of a cluster: which count, until when, and what is said of each."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from activator_ext.adapters.kubernetes import holds as holds_module
from activator_ext.adapters.kubernetes.holds import KEPT, holds
from activator_ext.core.model import Hold, ServiceId
from tests.unit.adapters.kubernetes.objects import hold, served

NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)
CHAT = ServiceId("team-a", "chat")


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def test_a_hold_for_an_hour_begins_at_its_creation() -> None:
    found = holds([hold(for_="1h", replicas=2, reason="demo for the board")], served("chat"), NINE + minutes(1))

    assert found.holds == (
        Hold("team-a/demo", CHAT, 2, NINE, NINE + minutes(60), ready_by=None, note="demo for the board"),
    )


def test_a_hold_with_a_time_ends_so_long_after_it() -> None:
    (found,) = holds([hold(for_="1h", readyBy="2026-03-02T12:00:00+01:00")], served("chat"), NINE).holds

    assert (found.ready_by, found.until) == (NINE + minutes(120), NINE + minutes(180))


# spec, seconds after nine → state, outcome, whether the core counts it.
STATES: dict[str, tuple[dict[str, Any], float, tuple[str, str, bool]]] = {
    "at once": ({"for_": "1h"}, 0, ("Active", "Accepted", True)),
    "its last second": ({"for_": "1h"}, 3599, ("Active", "Accepted", True)),
    "over": ({"for_": "1h"}, 3600, ("Expired", "Accepted", False)),
    "to come": (
        {"until": "2026-03-02T11:00:00Z", "readyBy": "2026-03-02T10:00:00Z"},
        0,
        ("Announced", "Accepted", True),
    ),
    "come": ({"until": "2026-03-02T11:00:00Z", "readyBy": "2026-03-02T10:00:00Z"}, 3600, ("Active", "Accepted", True)),
    "of no service": ({"for_": "1h", "ref": "chta"}, 0, ("Active", "NoSuchService", True)),
    "31 days": ({"until": "2026-04-02T09:00:00Z"}, 0, ("Active", "Accepted", True)),
    "longer than 31 days": ({"until": "2026-04-02T09:00:01Z"}, 0, ("Refused", "Invalid", False)),
    "without an end": ({}, 0, ("Refused", "Invalid", False)),
    "with two ends": ({"for_": "1h", "until": "2026-03-02T11:00:00Z"}, 0, ("Refused", "Invalid", False)),
    "ends before it begins": (
        {"until": "2026-03-02T11:00:00Z", "readyBy": "2026-03-02T12:30:00+01:00"},
        0,
        ("Refused", "Invalid", False),
    ),
    "on no calendar": ({"until": "2026-02-30T09:00:00Z"}, 0, ("Refused", "Invalid", False)),
    "before all calendars": ({"until": "0001-01-01T00:00:00+14:00"}, 0, ("Refused", "Invalid", False)),
    "was over when it was made": ({"until": "2026-03-02T08:00:00Z"}, 0, ("Expired", "Accepted", False)),
}


@pytest.mark.parametrize(("spec", "after_s", "expected"), STATES.values(), ids=STATES.keys())
def test_states(spec: dict[str, Any], after_s: float, expected: tuple[str, str, bool]) -> None:
    found = holds([hold(**spec)], served("chat"), NINE + timedelta(seconds=after_s))
    (verdict,) = found.verdicts.values()

    assert (verdict.state, verdict.outcome.value, bool(found.holds)) == expected


def test_what_is_of_the_same_generation_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = [hold(for_="1h"), hold("broken")]
    first = holds(objects, served("chat"), NINE)
    monkeypatch.setattr(holds_module, "read", lambda *_: pytest.fail("it is read again"))

    assert holds(objects, served("chat"), NINE, first.known) == first
    assert holds(objects, served("chat"), NINE + minutes(60), first.known).holds == ()


def test_an_edit_is_read() -> None:
    first = holds([hold(for_="1h")], served("chat"), NINE)
    longer = hold(for_="2h")
    longer["metadata"]["generation"] = 2

    assert [each.until for each in holds([longer], served("chat"), NINE, first.known).holds] == [NINE + minutes(120)]


def test_a_hold_under_deletion_has_ended() -> None:
    gone = hold(for_="1h")
    gone["metadata"]["deletionTimestamp"] = "2026-03-02T09:00:00Z"

    assert holds([gone], served("chat"), NINE).verdicts == {}


def test_it_is_stale_a_day_after_its_end_and_not_before() -> None:
    objects, end = [hold(for_="1h")], NINE + minutes(60)

    assert holds(objects, served("chat"), end + KEPT - minutes(1)).stale == ()
    assert [each.name for each in holds(objects, served("chat"), end + KEPT).stale] == ["demo"]


def test_when_to_look_again() -> None:
    objects = [hold(for_="1h", readyBy="2026-03-02T10:00:00Z"), hold("other", for_="2h")]
    seen, now = [], NINE
    while (ahead := holds(objects, served("chat"), now).next_at(now)) is not None:
        seen.append(ahead - NINE)
        now = ahead

    ends = [minutes(60), minutes(120)]
    assert seen == [*ends, *(end + KEPT for end in [minutes(120)])]
