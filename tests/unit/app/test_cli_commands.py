"""Every command against the real API over a fake controller."""

import json
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from rich.console import Console
from rich.text import Text

from activator_ext.app.cli import event_lines, floors, services
from activator_ext.app.cli.client import ApiClient
from activator_ext.app.cli.failures import CliError
from activator_ext.app.cli.terminal import local_zone
from activator_ext.app.views import HoldView, PreviewView, ServiceStatus
from activator_ext.core.model import ServiceId, Warmth
from runtime.contract import Failure, FailureCause, Stage, StartRecord
from tests.unit.app.cli_bench import Cli
from tests.unit.app.fakes import NOW, FakeController, cold_service, event, seconds, warm_service

CHAT = ServiceId("team-a", "chat")


def test_status(cli: Cli, controller: FakeController) -> None:
    out = cli.run("status").stdout
    assert "team-a/chat" in out
    assert "nothing wants it" in out
    assert "last start" in cli.run("status", "chat").stdout
    assert cli.read(list[ServiceStatus], "status") == controller.services()
    assert cli.read(ServiceStatus, "status", "team-a/chat") == controller.statuses["team-a/chat"]


def test_status_of_nothing(cli: Cli, controller: FakeController) -> None:
    controller.statuses.clear()
    assert cli.run("status").stdout == "no service: the files name none\n"


def test_a_bare_name_must_be_unique(cli: Cli, controller: FakeController) -> None:
    controller.statuses["team-b/chat"] = warm_service("team-b/chat")
    assert "write one of team-a/chat, team-b/chat" in cli.run("status", "chat", code=1).stderr
    assert "no service chatt; there are: team-a/chat" in cli.run("status", "chatt", code=1).stderr
    assert "no service team-a/chatt" in cli.run("status", "team-a/chatt", code=1).stderr
    assert "is not a service" in cli.run("status", "a/b/c", code=1).stderr


def test_watching_draws_until_ctrl_c() -> None:
    drawn: list[int] = []

    def draw() -> Text:
        drawn.append(len(drawn))
        return Text(f"drawing {len(drawn)}")

    def sleep(_: float) -> None:
        if len(drawn) == 3:
            raise KeyboardInterrupt

    out = Console(force_terminal=False, width=80)
    services.redraw(out, draw, sleep)
    assert len(drawn) == 3


def test_watching_and_json_exclude_each_other(cli: Cli) -> None:
    assert "leave out --watch or --json" in cli.run("status", "-w", "--json", code=2).stderr


def test_starts(cli: Cli, controller: FakeController) -> None:
    out = cli.run("starts", "chat").stdout
    assert "failed: exited" in out
    assert "weight_load" in out
    assert "failed after 6.00 s" in cli.run("starts", "chat", "--id", "local-6").stdout
    assert cli.read(list[StartRecord], "starts", "chat", "--limit", "1") == controller.records[:1]
    assert cli.read(StartRecord, "starts", "chat", "--id", "local-6") == controller.records[1]
    assert cli.run("starts", "draft").stdout == "team-a/draft has never been started\n"
    assert "no start none" in cli.run("starts", "chat", "--id", "none", code=1).stderr


def test_preview(cli: Cli, controller: FakeController) -> None:
    out = cli.run("preview", "chat").stdout
    assert "DST: clocks go forward" in out
    assert "requests and holds come on top." in out
    assert cli.read(PreviewView, "preview", "chat", "--days", "7") == controller.preview(CHAT, NOW, 7)


def test_prewarm_and_holds(cli: Cli, controller: FakeController) -> None:
    out = cli.run("prewarm", "chat", "--for", "1h30m", "--reason", "demo").stdout
    (hold,) = controller.held.values()
    assert (hold.service, hold.until - hold.created_at, hold.reason) == ("team-a/chat", timedelta(minutes=90), "demo")
    assert f"pilotlight holds --release {hold.id}" in out
    assert hold.id in cli.run("holds").stdout
    assert cli.read(list[HoldView], "holds") == [hold]
    assert cli.run("holds", "--release", hold.id).stdout == f"hold {hold.id} released\n"
    assert "no holds; ask for one" in cli.run("holds").stdout
    assert "GET /v1/holds lists them" in cli.run("holds", "--release", hold.id, code=1).stderr


def test_prewarm_by_a_time(cli: Cli, controller: FakeController) -> None:
    hold = cli.read(
        HoldView, "prewarm", "chat", "--ready-by", "2999-12-01T09:00", "--tz", "Europe/Madrid", "--for", "1h"
    )
    assert hold.ready_by.isoformat() == "2999-12-01T08:00:00+00:00"
    assert [hold] == list(controller.held.values())


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["--for", "90"], 2, "has no unit: write 90s"),
        (["--for", "1h", "--ready-by", "yesterday"], 2, "is not a time: write 09:00"),
        (["--for", "1h", "--ready-by", "09:00", "--now"], 2, "exclude each other"),
        (["--for", "1h", "--ready-by", "09:00", "--tz", "Madrid"], 2, "is not a time zone"),
        (["--for", "60d"], 2, "--for: Input should be less than or equal to 2678400"),
        (["--for", "1h", "--replicas", "0"], 2, "--replicas"),
        ([], 2, "--for"),
        (["--for", "1h", "--replicas", "9"], 1, "raise bounds.max"),
    ],
)
def test_prewarm_refused(cli: Cli, controller: FakeController, args: list[str], code: int, says: str) -> None:
    result = cli.run("prewarm", "chat", *args, code=code)
    assert says in result.stderr
    assert result.stdout == ""
    assert controller.held == {}


def test_prewarm_and_wait_for_a_warm_one(cli: Cli, controller: FakeController) -> None:
    result = cli.run("prewarm", "chat", "--for", "1h", "--wait", "--json")
    assert TypeAdapter(HoldView).validate_json(result.stdout) == next(iter(controller.held.values()))
    assert "team-a/chat is warm" in result.stderr


def hold_of(controller: FakeController, *, until_s: float = 3600) -> HoldView:
    hold = HoldView(
        id="h1",
        service=str(CHAT),
        replicas=1,
        created_at=NOW,
        ready_by=None,
        until=NOW + seconds(until_s),
        reason="",
        state="active",
    )
    controller.held[hold.id] = hold
    return hold


@pytest.fixture
def waiting(state: Path, controller: FakeController, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`wait_until_warm` on a clock that stands at NOW; each sleep takes the next of the given statuses."""
    monkeypatch.setattr(floors, "now", lambda: NOW)
    monkeypatch.setenv("TZ", "Europe/Madrid")

    def wait(hold: HoldView, statuses: list[ServiceStatus | type[BaseException]]) -> None:
        def sleep(_: float) -> None:
            following = statuses.pop(0)
            if isinstance(following, type):
                raise following
            controller.statuses[str(CHAT)] = following

        sleep(0)
        with ApiClient(state) as client:
            floors.wait_until_warm(client, CHAT, hold, local_zone(), sleep)
        assert statuses == []

    return wait


def warming(stage: Stage) -> ServiceStatus:
    update = {"warmth": Warmth.WARMING, "replicas": (), "stage": stage, "eta_at": NOW + seconds(12)}
    return warm_service().model_copy(update=update)


def test_waiting_tells_each_stage_once(
    waiting: Callable[..., None], controller: FakeController, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = [warming(Stage.COMPILE), warming(Stage.COMPILE), warming(Stage.WARM_UP), warm_service()]
    waiting(hold_of(controller), [cold_service("team-a/chat"), *steps])
    lines = [line.strip() for line in capsys.readouterr().err.splitlines() if line.strip()]
    assert lines == [
        "cold",
        "warming: compile, about 12 s left",
        "warming: warm_up, about 12 s left",
        "team-a/chat is warm",
    ]


def failed(at_s: float) -> ServiceStatus:
    failure = Failure(cause=FailureCause.EXITED, message="the engine exited with code 1", at=NOW + seconds(at_s))
    return cold_service("team-a/chat").model_copy(update={"last_failure": failure, "warmth": Warmth.FAILED})


@pytest.mark.parametrize(
    ("until_s", "steps", "says"),
    [
        pytest.param(
            3600, [failed(1)], "the start failed: the engine exited.*hold h1 stays until 10:00:00", id="failed"
        ),
        pytest.param(0, [cold_service("team-a/chat")], "hold h1 ended before team-a/chat was warm", id="ended"),
        pytest.param(3600, [warming(Stage.COMPILE), KeyboardInterrupt], "stopped watching; hold h1 stays", id="ctrl-c"),
    ],
)
def test_waiting_in_vain(
    waiting: Callable[..., None], controller: FakeController, until_s: float, steps: list[Any], says: str
) -> None:
    with pytest.raises(CliError, match=says):
        waiting(hold_of(controller, until_s=until_s), list(steps))


def test_an_earlier_failure_does_not_end_the_wait(waiting: Callable[..., None], controller: FakeController) -> None:
    waiting(hold_of(controller), [failed(-1), warm_service()])


def test_events(cli: Cli, controller: FakeController) -> None:
    controller.happened = [event(seq) for seq in range(1, 6)]
    out = cli.run("events", "--limit", "2").stdout
    assert out.splitlines() == [
        "2026-11-30 09:00:04  team-a/chat  floor  floor 0 → 1: 1 waiting, 0 running",
        "2026-11-30 09:00:05  team-a/chat  floor  floor 0 → 1: 1 waiting, 0 running",
    ]
    assert [each["seq"] for each in json.loads(cli.run("events", "--limit", "2", "--json").stdout)] == [4, 5]


def test_following_events_prints_each_once(
    state: Path, controller: FakeController, capsys: pytest.CaptureFixture[str]
) -> None:
    controller.happened = [event(1)]

    def sleep(_: float) -> None:
        if len(controller.happened) == 3:
            raise KeyboardInterrupt
        controller.happened.append(event(len(controller.happened) + 1))

    with ApiClient(state) as client, pytest.raises(KeyboardInterrupt):
        event_lines.follow_events(client, 10, as_json=True, sleep=sleep)
    assert [json.loads(line)["seq"] for line in capsys.readouterr().out.splitlines()] == [1, 2, 3]


def test_following_ends_with_ctrl_c_and_code_0(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    assert cli.run("events", "-f").stdout == ""
