"""Tables and lines as they stand on a terminal of 80 columns without colour."""

import io
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from rich.console import Console, RenderableType

from activator_ext.app.cli import render
from activator_ext.app.views import HoldView, ServiceStatus
from activator_ext.core.model import ServiceId, Warmth
from runtime.contract import Stage
from tests.unit.app.fakes import (
    NO_DEMAND,
    NOW,
    FakeController,
    cold_service,
    event,
    failed_start,
    ready_start,
    seconds,
    warm_service,
)

MADRID = ZoneInfo("Europe/Madrid")
HOLD = HoldView(
    id="hold-1a2b3c4d",
    service="team-a/chat",
    replicas=2,
    created_at=NOW,
    ready_by=None,
    until=NOW + seconds(3600),
    reason="[bold] demo",
    state="active",
)

STATUS = """\
service       warmth              floor  why                next warm  lead time
team-a/chat   warm                    1  1 waiting, 0       Tue 09:00       44 s
                                         running
team-a/draft  cold                    0  nothing wants it   -               44 s
team-b/slow   warming: compile,       1  1 waiting, 0       Tue 09:00  2 min 5 s
              about 12 s left            running"""

DETAIL = """\
service        team-a/chat
warmth         warm
floor          1 until 09:10:00 (never under 0 or over 1)
why            1 waiting, 0 running
  queue        1 from 08:58:00 to 09:10:00: 1 waiting, 0 running
  schedule     1 from Tue 09:00 to Tue 10:00: schedule office: ready by
               2026-11-30T09:00:00+01:00; a start takes 44 s (P95)
requests       1 waiting, 0 running
next warm      Tue 09:00
lead time      44 s planned with
  cached-node  P50 38 s, P95 44 s (7 own starts)
replica        team-a/chat/0: warm, since 08:59:00, pid 4711
last start     local-7 (`pilotlight starts team-a/chat` shows where its time
               went)"""


def drawn(what: RenderableType, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width, no_color=True, highlight=False, markup=False).print(what)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def warming_service() -> ServiceStatus:
    update = {"warmth": Warmth.WARMING, "stage": Stage.COMPILE, "eta_at": NOW + seconds(12), "lead_time_s": 125.0}
    return warm_service("team-b/slow").model_copy(update=update)


def test_status_of_all() -> None:
    services = [warm_service(), cold_service(), warming_service()]
    assert drawn(render.services_table(services, MADRID, NOW)) == STATUS


def test_status_of_one() -> None:
    assert drawn(render.service_detail(warm_service(), MADRID, NOW)) == DETAIL


def test_starts() -> None:
    under_way = ready_start("local-8").model_copy(update={"outcome": None, "ready_s": None, "attributed": None})
    starts = [each.model_copy(update={"why": "asked"}) for each in (under_way, ready_start(), failed_start())]
    assert (
        drawn(render.starts_table(starts, MADRID, NOW))
        == """\
start    asked at  kind         outcome           took  named  why
local-8  09:00:00  cached-node  under way            -      -  asked
local-7  09:00:00  cached-node  ready           20.0 s    95%  asked
local-6  09:00:00  cached-node  failed: exited       -      -  asked"""
    )


def test_holds_are_shown_whole_enough_to_copy_their_id() -> None:
    later = HOLD.model_copy(
        update={"ready_by": NOW + timedelta(days=9), "until": NOW + timedelta(days=9, hours=1), "state": "announced"}
    )
    assert (
        drawn(render.holds_table([HOLD, later], MADRID, NOW))
        == """\
hold           service  replicas  state      ready by      until         reason
hold-1a2b3c4d  team-a/         2  active     soonest       10:00:00      [bold]
               chat                                                      demo
hold-1a2b3c4d  team-a/         2  announced  09 Dec 09:00  09 Dec 10:00  [bold]
               chat                                                      demo"""
    )


def test_a_failing_service_says_when_it_is_tried_again() -> None:
    failure = failed_start().failure
    status = cold_service().model_copy(update={"last_failure": failure, "retry_at": NOW + seconds(40)})
    text = drawn(render.service_detail(status, MADRID, NOW), 120)
    assert "09:00:06 exited: the engine exited with code 1" in text
    assert "next try" in text
    assert "from 09:00:40, if anything wants it then" in text


def test_preview_marks_clock_changes() -> None:
    preview = FakeController().preview(ServiceId("team-a", "chat"), None, 14)
    assert (
        drawn(render.preview_table(preview))
        == """\
warm from             until                 replicas  why
2026-11-30 09:00 CET  2026-11-30 18:00 CET         2  schedule office
2026-11-30 09:00 CET  2026-11-30 18:00 CET         2  schedule office
                                                      DST: clocks go forward:
                                                      02:30 does not exist,
                                                      moved to 03:00"""
    )
    assert render.preview_summary(preview) == (
        "2 windows, 18.0 h warm or starting; a start is planned with 44 s (P95). "
        "Schedules only: requests and holds come on top."
    )


def test_a_hold_in_a_sentence() -> None:
    assert render.hold_line(HOLD, MADRID, NOW) == (
        "hold hold-1a2b3c4d: 2 replicas of team-a/chat ready as soon as possible, until 10:00:00; "
        "end it earlier with `pilotlight holds --release hold-1a2b3c4d`"
    )
    by = HOLD.model_copy(update={"ready_by": NOW + seconds(600), "replicas": 1})
    assert "1 replica of team-a/chat ready by 09:10:00" in render.hold_line(by, MADRID, NOW)


def test_an_event_in_a_line() -> None:
    line = "2026-11-30 09:00:01  team-a/chat  floor  floor 0 → 1: 1 waiting, 0 running"
    assert render.event_line(event(1), MADRID) == line
    assert render.event_line(event(1, "floor 0 → 1: 1 waiting, 0 running"), MADRID) == line


@pytest.mark.parametrize("width", [40, 80, 200])
def test_markup_and_control_characters_are_shown_and_not_obeyed(width: int) -> None:
    reason = NO_DEMAND.model_copy(update={"text": "[red]x[/red] \x1b[2J"})
    service = cold_service().model_copy(update={"reason": reason})
    text = drawn(render.services_table([service], MADRID, NOW), width)
    assert "\x1b" not in text
    if width == 200:
        assert "[red]x[/red] \\x1b[2J" in text


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (None, "-"),
        (NOW, "09:00:00"),
        (NOW - seconds(32400), "00:00:00"),
        (NOW - seconds(32401), "Sun 23:59"),
        (NOW + timedelta(days=5), "Sat 09:00"),
        (NOW + timedelta(days=6), "06 Dec 09:00"),
        (NOW + timedelta(days=300), "2027-09-26"),
    ],
)
def test_clock(instant: datetime | None, text: str) -> None:
    assert render.clock(instant, MADRID, NOW) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0.0 s"),
        (0.44, "0.4 s"),
        (44.4, "44 s"),
        (59.6, "1 min"),
        (125, "2 min 5 s"),
        (3600, "1 h"),
        (12034, "3 h 20 min"),
    ],
)
def test_duration(count: float, text: str) -> None:
    assert render.duration(count) == text
