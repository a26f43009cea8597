"""`check`, `preview --file` and `up` on files, none of which asks a running `up` for anything."""

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import TypeAdapter
from typer.testing import CliRunner

from activator_ext.app import up as up_module
from activator_ext.app.cli import app, plans, terminal
from activator_ext.app.cli.times import TimeError
from activator_ext.app.files import platform_of
from activator_ext.app.host_options import HostOptions
from activator_ext.app.views import PreviewView

NOW = datetime(2026, 3, 26, 12, 0, tzinfo=UTC)  # a Thursday; clocks in Madrid go forward on Sunday the 29th

MANIFESTS = """\
apiVersion: serving.kserve.io/v1alpha1
kind: ClusterServingRuntime
metadata: {name: vllm}
spec:
  supportedModelFormats: [{name: huggingface, autoSelect: true}]
  containers:
  - {name: kserve-container, image: "vllm/vllm-openai:v0.32.0", command: [vllm, serve], args: [/mnt/models]}
---
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: chat, namespace: team-a}
spec:
  predictor:
    minReplicas: 0
    model: {modelFormat: {name: huggingface}, storageUri: "pvc://models/tiny"}
---
apiVersion: pilotlight.dev/v1alpha1
kind: PrewarmPolicy
metadata: {name: chat, namespace: team-a}
spec:
  serviceRef: {name: chat}
  schedules:
  - {name: night, timeZone: Europe/Madrid, readyBy: "30 2 * * *", until: "0 5 * * *"}
"""


class Cli:
    """Runs `pilotlight` in this process, without any `up`."""

    def __init__(self, state: Path, volume: str) -> None:
        self._env = {"PILOTLIGHT_STATE": str(state), "TZ": "Europe/Madrid", "COLUMNS": "100"}
        self.volume = volume

    def run(self, *args: str, code: int = 0) -> Any:
        result = CliRunner().invoke(app, list(args), env=self._env)
        assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
        return result


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "chat.yaml"
    path.write_text(MANIFESTS)
    return path


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    model = tmp_path / "models" / "tiny"
    model.mkdir(parents=True)
    model.joinpath("config.json").write_text("{}")
    return Cli(tmp_path / "no-up-here", f"models={tmp_path / 'models'}")


def test_check_of_good_files(cli: Cli, manifest: Path) -> None:
    args = ["check", str(manifest), "--volume", cli.volume, "--platform", "cpu"]
    assert cli.run(*args).stdout == "0 errors, 0 warnings; services: team-a/chat\n"
    assert json.loads(cli.run(*args, "--json").stdout) == []


def test_check_of_bad_files(cli: Cli, manifest: Path) -> None:
    manifest.write_text(MANIFESTS.replace("30 2 * * *", "30 25 * * *").replace("minReplicas", "minReplica"))
    args = ["check", str(manifest), "--volume", cli.volume, "--platform", "cpu"]
    out = cli.run(*args, code=1).stdout
    assert f"{manifest}:" in out
    assert "30 25 * * *" in out
    findings = json.loads(cli.run(*args, "--json", code=1).stdout)
    assert {"severity", "file", "line", "key", "message", "fix"} == set(findings[0])
    assert "error" in {finding["severity"] for finding in findings}


def test_warnings_fail_with_strict_only(cli: Cli, manifest: Path) -> None:
    manifest.write_text(MANIFESTS.replace("minReplicas: 0", "minReplicas: 0\n    timeout: 60"))
    args = ["check", str(manifest), "--volume", cli.volume, "--platform", "cpu"]
    assert cli.run(*args).stdout.endswith("0 errors, 1 warning; services: team-a/chat\n")
    assert cli.run(*args, "--strict", code=1).stdout == cli.run(*args).stdout
    assert len(json.loads(cli.run(*args, "--strict", "--json", code=1).stdout)) == 1


def test_check_of_standard_input(cli: Cli) -> None:
    args = ["check", "-", "--volume", cli.volume, "--platform", "cpu"]
    done = CliRunner().invoke(app, args, input=MANIFESTS.replace("minReplicas", "minReplica"))
    assert done.exit_code == 1
    assert done.stdout.startswith("-:14: error: spec.predictor.minReplica: unknown key. Did you mean minReplicas?\n")


def test_check_of_a_file_whose_name_is_not_utf_8(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff.yaml")
    path.write_text("a: [")
    assert "\\udcff.yaml:1: error: not valid YAML" in cli.run("check", str(path), code=1).stdout
    (finding,) = json.loads(cli.run("check", str(path), "--json", code=1).stdout)
    assert finding["file"] == str(path)


def test_an_empty_path_is_not_the_current_directory(cli: Cli) -> None:
    assert "a path is empty" in cli.run("check", "", code=2).stderr
    assert "a path is empty" in cli.run("up", "", code=2).stderr


def test_preview_of_files_marks_the_clock_change(cli: Cli, manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "now", lambda: NOW)
    args = ["preview", "chat", "--days", "4", "--file", str(manifest), "--volume", cli.volume, "--platform", "cpu"]
    out = cli.run(*args).stdout
    assert "Sun 2026-03-29 03:00 CEST" in out
    assert "DST: begin 02:30 on 2026-03-29 does not exist (clocks go forward)" in " ".join(out.split())
    assert "4 windows" in out
    preview = TypeAdapter(PreviewView).validate_json(cli.run(*args, "--json").stdout)
    assert preview.service == "team-a/chat"
    assert [window.source for window in preview.windows] == ["schedule night"] * 4


@pytest.mark.parametrize(
    ("service", "says"),
    [
        ("other", "no service other; there are: team-a/chat"),
        ("team-a/other", "no service team-a/other can be read from these files; there are: team-a/chat"),
        ("a/b/c", "is not a service"),
    ],
)
def test_preview_of_files_without_the_service(cli: Cli, manifest: Path, service: str, says: str) -> None:
    args = ["preview", service, "--file", str(manifest), "--volume", cli.volume]
    assert says in cli.run(*args, code=1).stderr


@pytest.mark.parametrize(
    ("volumes", "says"),
    [
        (["models"], "is not CLAIM=DIR"),
        (["=x"], "is not CLAIM=DIR"),
        (["models="], "is not CLAIM=DIR"),
        (["models=a", "models=b"], "--volume models is given twice"),
    ],
)
def test_volumes_that_are_none(cli: Cli, manifest: Path, volumes: list[str], says: str) -> None:
    args = [part for volume in volumes for part in ("--volume", volume)]
    assert says in cli.run("check", str(manifest), *args, code=2).stderr


def test_up_is_handed_its_options(cli: Cli, manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def up(paths: list[Path], **options: Any) -> int:
        given.update(options, files=paths)
        return 1

    monkeypatch.setattr(up_module, "up", up)
    options = ["--listen", "127.0.0.1:1", "--api-listen", "127.0.0.1:2", "--volume", cli.volume, "--platform", "cpu"]
    options += ["--store", "s3://b/c", "--store", "caches", "--publish-to", "oci://r/c", "--trust", str(manifest)]
    options += ["--no-fork"]
    cli.run("up", str(manifest), *options, "--state", str(tmp_path / "s"), "--engine-command", "fake", code=1)
    assert given == {
        "files": [manifest],
        "state": tmp_path / "s",
        "listen": "127.0.0.1:1",
        "api_listen": "127.0.0.1:2",
        "volumes": {"models": tmp_path / "models"},
        "platform": "cpu",
        "host_options": HostOptions(
            stores=("s3://b/c", str(Path.cwd() / "caches")), publish_to="oci://r/c", trust=manifest, fork=False
        ),
        "engine_command": "fake",
    }


@pytest.mark.parametrize(
    ("options", "says"),
    [(["--store", ""], "a store is empty"), (["--trust", "/nowhere.yaml"], "/nowhere.yaml")],
)
def test_options_for_starts_that_can_not_be_meant(
    options: list[str], says: str, cli: Cli, manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(up_module, "up", lambda *_, **__: 0)
    assert says in cli.run("up", str(manifest), *options, code=2).stderr


@pytest.mark.parametrize(
    ("choice", "driver", "platform"),
    [("auto", None, "cpu"), ("auto", "/usr/bin/nvidia-smi", "cuda"), ("cpu", "x", "cpu"), ("cuda", None, "cuda")],
)
def test_platform(choice: str, driver: str | None, platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: driver)
    assert platform_of(choice) == platform


def test_the_state_directory_follows_xdg(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["status"], env={"XDG_STATE_HOME": str(tmp_path), "PILOTLIGHT_STATE": None})
    assert f"is running on {tmp_path}/pilotlight:" in result.stderr
    result = CliRunner().invoke(
        app, ["status"], env={"XDG_STATE_HOME": "", "HOME": str(tmp_path), "PILOTLIGHT_STATE": None}
    )
    assert f"is running on {tmp_path}/.local/state/pilotlight:" in result.stderr


def test_the_local_zone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Madrid")
    assert terminal.local_zone() == ZoneInfo("Europe/Madrid")
    monkeypatch.setenv("TZ", "Nowhere/Else")
    with pytest.raises(TimeError, match=r"TZ: 'Nowhere/Else'.*--tz"):
        terminal.local_zone(typed=True)
    link = tmp_path / "localtime"
    monkeypatch.setattr(terminal, "LOCALTIME", link)
    assert terminal.local_zone() == ZoneInfo("UTC")  # nothing typed depends on it
    monkeypatch.setenv("TZ", f":{link}")
    assert terminal.local_zone() == ZoneInfo("UTC")
    monkeypatch.delenv("TZ")
    assert terminal.local_zone() == ZoneInfo("UTC")
    zone_file = tmp_path / "zoneinfo" / "Europe" / "Madrid"
    zone_file.parent.mkdir(parents=True)
    zone_file.touch()
    link.symlink_to(zone_file)
    assert terminal.local_zone() == ZoneInfo("Europe/Madrid")


@pytest.mark.parametrize("args", [[], *([name] for name in ("up", "status", "starts", "prewarm", "holds", "preview"))])
def test_help_has_examples_and_exit_codes(args: list[str]) -> None:
    result = CliRunner().invoke(app, [*args, "--help"], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    assert "Examples:" in result.output
    assert "Exit codes: 0 done" in result.output
    assert "--engine-command" not in result.output


def test_version() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout.strip() == "0.1.0"


def test_help_waits_for_no_heavy_import() -> None:
    code = "import sys, activator_ext.app.cli; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"torch", "vllm", "numpy", "rich", "httpx", "fastapi", "pydantic"} & set(loaded) == set()
