"""Standard mode in the loop: what the scaler answers while nothing happens, and what is forgotten with a service."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest
from typer.testing import CliRunner

from activator_ext.adapters.keda_scaler.floors import Floors
from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.standard.objects import Inference
from activator_ext.app.cli import app
from activator_ext.app.cluster.standard import NOBODY_SERVES, StandardMode, Wanted
from activator_ext.core.model import Floor, Reason, ReasonCode, ServiceId

CHAT = ServiceId("team-a", "chat")
WANTED = {
    CHAT: Wanted(
        Inference(CHAT, "uid", standard=True, autoscaler="external", stated=True, least=0, most=3),
        Floor(1, None, Reason(ReasonCode.NO_DEMAND)),
        most=3,
    )
}


async def test_a_floor_stays_known_as_long_as_nothing_changes() -> None:
    now = [datetime(2026, 12, 1, 9, tzinfo=UTC)]
    floors = Floors(lambda: now[0])
    mode = StandardMode(cast("Client", None), floors, None, serves=True, leading=lambda: False, clock=lambda: now[0])
    await mode.carry_out(WANTED)
    now[0] += timedelta(minutes=30)  # the loop sleeps until something happens

    assert floors.of(CHAT) == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--tls-cert", "c", "--tls-key", "k", "--client-ca", "a"], "name it by --scaler-auth"),
        (["--scaler-auth", "team-a/x"], "write NAME, or cluster/NAME"),
    ],
)
def test_scaled_objects_by_tls_name_a_certificate(options: list[str], told: str, tmp_path: Path) -> None:
    command = ["controller", "--state", str(tmp_path), "--scaler-address", "s:9090", *options]

    result = CliRunner().invoke(app, command)

    assert result.exit_code == 2
    assert told in " ".join(result.output.replace("│", " ").split())


async def test_without_a_scaler_the_floor_s_want_of_effect_is_told() -> None:
    now = datetime(2026, 12, 1, 9, tzinfo=UTC)
    for serves in (True, False):
        floors = Floors(lambda: now)
        mode = StandardMode(cast("Client", None), floors, None, serves=serves, leading=lambda: True, clock=lambda: now)
        told = await mode.carry_out(WANTED)
        assert told == ({} if serves else {CHAT: NOBODY_SERVES})
