"""The wall clock set by an hour, forth and back, while `up` runs: libfaketime on the controller, and on all of it."""

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.kit import PARTS, ChaosUp, serves_again, told
from tests.chaos.rows import Row
from tests.serving import running, wait_for

LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
HOUR_S = 3600


class Clock:
    """The clock of an `up`: with libfaketime, `set` moves it while it runs."""

    def __init__(self, up: ChaosUp, root: Path, *, all_of_it: bool) -> None:
        if not LIBRARIES:
            pytest.skip("libfaketime is not installed: apt-get install faketime")
        self._file = root / "clock"
        self.set(0)
        up.environment |= {
            "LD_PRELOAD": str(LIBRARIES[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "PILOTLIGHT_CHILDREN_S_CLOCK": "same" if all_of_it else "own",
        }

    def set(self, by_s: int) -> None:
        """Show the true time plus `by_s` from now on."""
        draft = self._file.with_suffix(".draft")
        draft.write_text(f"{by_s:+d}\n")
        draft.replace(self._file)
        self.by = timedelta(seconds=by_s)

    def now(self) -> datetime:
        """What `up` takes for now."""
        return datetime.now(UTC) + self.by


def hold(up: ChaosUp, **fields: Any) -> dict[str, Any]:
    """An acknowledged hold of `test/chat`."""
    answer = up.api("POST", "/v1/holds", {"service": "test/chat", **fields})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


WHOSE = pytest.mark.parametrize("all_of_it", [False, True], ids=["controller", "all"])


def test_the_clock_set_forth(up: ChaosUp, tmp_path: Path, row: Row) -> None:
    forth(up, Clock(up, tmp_path, all_of_it=False), row)


@pytest.mark.prove
def test_the_clock_set_forth_for_all(up: ChaosUp, tmp_path: Path, row: Row) -> None:
    forth(up, Clock(up, tmp_path, all_of_it=True), row)


def forth(up: ChaosUp, clock: Clock, row: Row) -> None:
    """A hold of half an hour is over at once; nothing else starts, ends or is taken for dead."""
    up.serve("chat", cost="1s")
    up.serve("other", cost="600s")
    with running(up):
        serves_again(up, "other")
        hold(up, for_s=1800)
        up.wait_warmth("chat", "warm")
        parts = {part: up.part(part).pid for part in PARTS[:3]}
        clock.set(HOUR_S)
        wait_for(lambda: "the clock was set forth by 3600 s" in up.said(), within_s=30, saying=f"said:\n{up.said()}")
        up.wait_warmth("chat", "cold")
        serves_again(up)
        assert {part: up.part(part).pid for part in parts} == parts
        count = sound(up, clock, starts=2)
    row.tell(done="clock set forth by an hour", outcome="holds end by it, nothing else", figure=f"{count} starts")


@WHOSE
@pytest.mark.prove
def test_the_clock_set_back(up: ChaosUp, tmp_path: Path, row: Row, all_of_it: bool) -> None:
    """A hold lasts until its instant comes again; requests are answered; nothing waits for an hour to pass."""
    clock = Clock(up, tmp_path, all_of_it=all_of_it)
    up.serve("chat", cost="1s")
    with running(up):
        serves_again(up)
        kept = hold(up, for_s=1800)
        up.wait_warmth("chat", "warm")
        clock.set(-HOUR_S)
        wait_for(lambda: "the clock was set back by 3600 s" in up.said(), within_s=30, saying=f"said:\n{up.said()}")
        assert told(up, "chat", stream=False) == "answered"
        assert up.api("GET", "/v1/holds").json()[0]["until"] == kept["until"]
        assert up.status("chat")["warmth"] in ("warm", "busy")
        up.api("DELETE", f"/v1/holds/{kept['id']}")
        made = hold(up, for_s=600)
        assert abs(datetime.fromisoformat(made["until"]) - clock.now() - timedelta(seconds=600)) < timedelta(seconds=30)
        sound(up, clock, starts=1)
    row.tell(done="clock set back by an hour", outcome="holds last by it, requests answered, new holds by the new time")


@WHOSE
@pytest.mark.prove
def test_the_clock_set_forth_over_an_announced_minute(up: ChaosUp, tmp_path: Path, row: Row, all_of_it: bool) -> None:
    """A hold that is announced for in an hour: after the step its time has come, and the sleep until then is over."""
    clock = Clock(up, tmp_path, all_of_it=all_of_it)
    up.serve("chat", cost="1s")
    with running(up):
        hold(up, for_s=1800, ready_by=(clock.now() + timedelta(seconds=HOUR_S)).isoformat())
        up.wait_warmth("chat", "cold")
        clock.set(HOUR_S)
        up.wait_warmth("chat", "warm", within_s=30)
        sound(up, clock, starts=1)
    row.tell(done="clock set forth to an announced minute", outcome="started at once, not an hour late")


@WHOSE
@pytest.mark.prove
def test_the_clock_set_during_a_start(up: ChaosUp, tmp_path: Path, row: Row, all_of_it: bool) -> None:
    """The start ends well and teaches no lead time of an hour."""
    clock = Clock(up, tmp_path, all_of_it=all_of_it)
    up.serve("chat", cost="600s", start_s=8)
    with running(up):
        hold(up, for_s=7200)
        wait_for(lambda: up.status("chat")["stage"] == "compile", within_s=30, saying="it compiles")
        clock.set(HOUR_S)
        wait_for(lambda: "the clock was set forth" in up.said(), within_s=30, saying=f"said:\n{up.said()}")
        up.wait_warmth("chat", "warm")
        assert up.status("chat")["lead_times"] == []
        sound(up, clock, starts=1)
    row.tell(done="clock set during a start", outcome="the start ends well, no lead time learned from it")


@WHOSE
@pytest.mark.prove
def test_the_clock_set_to_and_fro(up: ChaosUp, tmp_path: Path, row: Row, all_of_it: bool) -> None:
    """Six steps in a minute: the lease goes on, no start storm, requests are answered all along."""
    clock = Clock(up, tmp_path, all_of_it=all_of_it)
    up.serve("chat", cost="600s")
    with running(up):
        hold(up, for_s=3 * HOUR_S)
        up.wait_warmth("chat", "warm")
        host = up.part("host").pid
        for step in (1, 0, -1, 1, -1, 0):
            said = up.said().count("the clock was set")
            clock.set(step * HOUR_S)
            wait_for(partial(said_again, up, said), within_s=30, saying=up.said())
            assert told(up, "chat", stream=False) == "answered"
        assert up.part("host").pid == host
        sound(up, clock, starts=1)
    row.tell(done="clock set six times by one and two hours", outcome="one engine all along", figure="1 start")


def said_again(up: ChaosUp, before: int) -> bool:
    """Whether a step was told more often than before."""
    return up.said().count("the clock was set") > before


def sound(up: ChaosUp, clock: Clock, *, starts: int) -> int:
    """No storm, no fault, nothing that waits for the old time; how many starts there were."""
    seen = up.starts("chat")
    assert len(seen) <= starts, up.said()
    assert all(start["outcome"] == "ready" for start in seen)
    assert up.api("GET", "/readyz").is_success
    decided = datetime.fromisoformat(up.api("GET", "/v1/plan").json()["decided_at"])
    assert abs(decided - clock.now()) < timedelta(seconds=60)
    assert all(row["p95_s"] < 60 for row in up.status("chat")["lead_times"])
    assert "Traceback" not in up.said()
    up.never_two()
    return len(seen)
