"""`kill -9` of each process at each mark of a start, and what must be true after it."""

import random
from datetime import datetime
from typing import Any

import httpx
import pytest

from tests.chaos.kit import PARTS, ChaosUp, Part, clients, serves_again
from tests.chaos.rows import Row
from tests.serving import running, wait_for

MARKS = tuple(f"T{number}" for number in range(10))
# Before T4 the start has no process: the engine that can be killed then is the one that serves while another starts.
BEFORE_PROCESS = MARKS[:4]
MEANINGS: dict[Part, set[str]] = {
    "controller": {"answered"},
    "portal": {"broken"},
    "host": {"answered", "error"},
    "engine": {"answered", "error"},
}
"""What clients may be told when this part is killed while they wait."""


def killed(up: ChaosUp, part: Part, mark: str, chance: random.Random, row: Row) -> None:
    """One cell: bring a start to the mark, kill, and check everything that must be true."""
    up.serve("other")
    up.serve("chat", answer_s=0.2)
    with running(up):
        second = part == "engine" and mark in BEFORE_PROCESS
        known = acknowledged(up, replicas=1 if second else 0)
        up.shut(mark)
        hold = made(up, "chat", 2 if second else 1)
        streams = [chance.random() < 0.5 for _ in range(chance.randint(1, 4))]
        up.at(mark)
        with clients(up, "chat", streams=streams) as asked:
            if not second:
                waiting(up, len(streams))
            others = {part: up.part(part).pid for part in PARTS[:3]}
            dead = up.kill(part)
            up.open(mark)
            if part == "controller":
                up.begin()
            took_s = serves_again(up)
        said = sorted(client.result() for client in asked)
        row.tell(
            done=f"{part} killed at {mark}, {len(streams)} client(s) waiting",
            outcome=", ".join(said),
            figure=f"answers again after {took_s:.1f} s",
        )
        assert {answer.split()[0] for answer in said} <= MEANINGS[part], said
        up.wait_warmth("chat", "warm", "busy", within_s=60)
        wait_for(
            lambda: len(up.leaders()) == (2 if second else 1), within_s=60, saying=f"as many as held:\n{up.said()}"
        )
        still_there(up, known, hold)
        assert up.leaders("other")[0].pid == known["engine"] or part == "host"
        for name in set(others) - {part}:
            assert up.part(name).pid == others[name], f"{name} was replaced though {part} was killed"
        assert dead not in [p.pid for p in up.processes()]
        up.never_two()


def waiting(up: ChaosUp, count: int) -> None:
    """Wait until so many requests wait at the portal; it says so itself, for the controller may stand still."""
    sample = 'pilotlight_portal_waiting{service="test/chat"}'
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(up.state / "portal.sock"))) as portal:
        wait_for(
            lambda: f"{sample} {float(count)}" in portal.get("http://portal/metrics").text,
            within_s=30,
            saying=f"{count} requests wait",
        )


def acknowledged(up: ChaosUp, *, replicas: int) -> dict[str, Any]:
    """Have a history worth losing: a start, a hold, events; with `replicas` warm ones of `chat` too."""
    assert up.ask("other").status_code == 200
    if replicas:
        made(up, "chat", replicas)
        up.wait_warmth("chat", "warm")
    wait_for(lambda: up.starts("other")[0]["outcome"] == "ready", within_s=10, saying="the start is recorded")
    return {
        "hold": made(up, "other", 1),
        "start": up.starts("other")[0]["id"],
        "events": up.api("GET", "/v1/events?limit=1000").json(),
        "engine": up.leaders("other")[0].pid,
    }


def made(up: ChaosUp, name: str, replicas: int) -> dict[str, Any]:
    """A hold of ten minutes, acknowledged."""
    answer = up.api("POST", "/v1/holds", {"service": f"test/{name}", "for_s": 600, "replicas": replicas})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def still_there(up: ChaosUp, known: dict[str, Any], hold: dict[str, Any]) -> None:
    """Nothing that was acknowledged is lost or has moved."""
    holds = {each["id"]: each for each in up.api("GET", "/v1/holds").json()}
    for each in (known["hold"], hold):
        assert holds[each["id"]]["state"] == "active"
        assert datetime.fromisoformat(holds[each["id"]]["until"]) == datetime.fromisoformat(each["until"])
    assert known["start"] in [start["id"] for start in up.starts("other")]
    events = {event["seq"]: event for event in up.api("GET", "/v1/events?after=0&limit=1000").json()}
    assert all(events[event["seq"]] == event for event in known["events"])


@pytest.mark.prove
@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("part", PARTS)
def test_killed_at_a_mark(up: ChaosUp, part: Part, mark: str, chance: random.Random, row: Row) -> None:
    killed(up, part, mark, chance, row)


@pytest.mark.parametrize(("part", "mark"), [("controller", "T0"), ("portal", "T7"), ("host", "T5"), ("engine", "T2")])
def test_killed_at_a_mark_short(up: ChaosUp, part: Part, mark: str, chance: random.Random, row: Row) -> None:
    killed(up, part, mark, chance, row)
