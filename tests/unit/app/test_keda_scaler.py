"""`pilotlight keda-scaler`: what does not go together, what cannot be had, and a process that serves and ends."""

import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest
from pydantic import TypeAdapter
from typer.testing import CliRunner

from activator_ext.adapters.keda_scaler.floors import KnownFloor
from activator_ext.adapters.keda_scaler.floors_api import floors_of
from activator_ext.app.cli import app
from activator_ext.app.views import ReasonView, ServiceStatus
from activator_ext.core.model import ServiceId, Warmth

FLOORS = "floors: {team-a/chat: 2}\n"


@pytest.fixture
def floors(tmp_path: Path) -> Path:
    path = tmp_path / "floors.yaml"
    path.write_text(FLOORS)
    return path


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "--floors FILE or --controller URL"),
        (["--floors", "f.yaml", "--controller", "http://127.0.0.1:1"], "--floors FILE or --controller URL"),
        (["--floors", "f.yaml", "--token-file", "t"], "go with --controller"),
        (["--floors", "f.yaml", "--tls-cert", "c"], "go together"),
        (["--floors", "f.yaml", "--tls-cert", "c", "--tls-key", "k", "--client-ca", "a", "--plain"], "--plain means"),
        (["--floors", ""], "a path is empty"),
    ],
)
def test_options_that_do_not_go_together(options: list[str], told: str) -> None:
    result = CliRunner().invoke(app, ["keda-scaler", *options])

    assert result.exit_code == 2
    assert told in " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--floors", "none.yaml"], "cannot read none.yaml (No such file or directory)"),
        (["--listen", "0.0.0.0:0", "--floors", "FLOORS"], "give --tls-cert, --tls-key and --client-ca, or --plain"),
        (["--listen", "127.0.0.1", "--floors", "FLOORS"], "'127.0.0.1' is no address: write HOST:PORT"),
        (["--controller", "127.0.0.1:8081"], "is no URL of a controller"),
        (
            ["--floors", "FLOORS", "--tls-cert", "c.crt", "--tls-key", "k", "--client-ca", "a"],
            "cannot read c.crt (No such file or directory)",
        ),
    ],
)
def test_what_cannot_be_had_is_one_line(floors: Path, options: list[str], told: str) -> None:
    options = [str(floors) if option == "FLOORS" else option for option in options]

    result = CliRunner().invoke(app, ["keda-scaler", *options])

    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_and_ends_in_order(floors: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "activator_ext", "keda-scaler", "--listen", "127.0.0.1:0", "--floors", str(floors)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        port = said.removeprefix("serving floors to KEDA on port ").partition(",")[0]
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            call: Any = channel.unary_unary("/externalscaler.ExternalScaler/IsActive")
            # team-a/x with service chat, as KEDA writes it.
            reference = b"\x0a\x01x\x12\x06team-a\x1a\x0f\x0a\x07service\x12\x04chat"
            assert call(reference, timeout=30) == b"\x08\x01"
        process.send_signal(number)

        assert process.wait(30) == 0
        assert process.stderr.read() == ""


def test_a_services_status_is_what_the_scaler_reads() -> None:
    reason = ReasonView(code="hold-active", text="hold")
    status = ServiceStatus(
        service="team-a/chat",
        warmth=Warmth.COLD,
        replicas=(),
        floor=2,
        floor_until=datetime(2026, 12, 1, 18, tzinfo=UTC),
        reason=reason,
        demands=(),
        waiting=None,
        running=None,
        stage=None,
        eta_at=None,
        next_warm_at=None,
        lead_time_s=1.0,
        lead_times=(),
        last_failure=None,
        last_start_id=None,
        min=0,
        max=3,
    )

    (known,) = floors_of(TypeAdapter(list[ServiceStatus]).dump_json([status])).items()

    assert known == (ServiceId("team-a", "chat"), KnownFloor(2, datetime(2026, 12, 1, 18, tzinfo=UTC)))
