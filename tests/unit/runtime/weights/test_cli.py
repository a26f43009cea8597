"""The commands as a user types them, on models of a few hundred bytes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from runtime.weights.cli import app
from tests.fakes.model import make_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return make_model(tmp_path / "model")


def weights(*words: str | Path, state: Path | None = None) -> tuple[int, str, str]:
    args = [str(word) for word in words]
    done = CliRunner().invoke(app, args if state is None else [*args, "--state", str(state)])
    return done.exit_code, done.stdout, done.stderr


def test_a_whole_model(model: Path, tmp_path: Path) -> None:
    code, out, _ = weights("check", model, state=tmp_path / "state")
    assert code == 0
    assert out.startswith(f"{model}: whole, 134 B in 1 weight files\n  digest sha256:")
    assert "came without digests" in out
    assert weights("digest", model)[0] == 0
    code, out, _ = weights("check", model, "--require-digests", state=tmp_path / "state")
    assert (code, "3 files as their digests say" in out) == (0, True)


def test_a_flipped_bit_is_exit_code_1_and_names_the_file(model: Path, tmp_path: Path) -> None:
    weights("digest", model)
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    code, out, _ = weights("check", model, "--json", state=tmp_path / "state")
    told: dict[str, Any] = json.loads(out)
    assert (code, told["good"], told["digest"]) == (1, False, None)
    (error,) = [each for each in told["findings"] if each["level"] == "error"]
    assert error["message"].startswith(f"{path} has sha256")
    assert error["fix"] == "copy the model directory again, whole"


def test_digests_are_not_written_over_a_list_that_says_otherwise(model: Path) -> None:
    weights("digest", model)
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    code, _, err = weights("digest", model)
    assert code == 1
    assert "model.safetensors (pilotlight-digests.json); copy it again, or --replace" in err
    assert weights("check", model)[0] == 1
    assert weights("digest", model, "--replace")[0] == 0
    assert weights("check", model)[0] == 0
    (model / "pilotlight-digests.json").write_text("{")
    assert weights("digest", model)[0] == 1


def test_one_fault_is_told_once(model: Path, tmp_path: Path) -> None:
    (model / "config.json").unlink()
    code, out, _ = weights("check", model, state=tmp_path / "state")
    assert (code, out.count("config.json is missing")) == (1, 1)


def test_pickle_and_its_permission(model: Path, tmp_path: Path) -> None:
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    state = tmp_path / "state"
    code, out, _ = weights("check", model, state=state)
    assert (code, "is pickled: reading it can run code" in out) == (1, True)
    assert weights("check", model, "--allow-pickle", "pytorch_model*.bin", state=state)[0] == 0


@pytest.mark.parametrize("command", ["check", "plan", "bench"])
def test_a_directory_that_is_not_there(tmp_path: Path, command: str) -> None:
    code, out, err = weights(command, tmp_path / "nowhere", state=tmp_path / "state")
    assert code == 1
    assert "does not exist on this host: copy the model there or correct the path" in out + err


def test_plan_names_arguments_and_why(model: Path, tmp_path: Path) -> None:
    code, out, _ = weights("plan", model, state=tmp_path / "state")
    assert (code, out) == (0, f"1. default from local: {model} (not measured here: local in turn)\n")
    code, out, _ = weights("plan", model, "--args", "--load-format eager", "--json", state=tmp_path / "state")
    assert json.loads(out)[0]["why"] == "the service says --load-format eager"


def test_a_loader_that_is_none(model: Path, tmp_path: Path) -> None:
    code, _, err = weights("bench", model, "--loader", "warp", state=tmp_path / "state")
    assert (code, "there is no loader 'warp': choose from default, lazy" in err) == (2, True)


def test_arguments_without_an_engine(model: Path, tmp_path: Path) -> None:
    code, _, err = weights("prepare", model, tmp_path / "out", "--args", "--quantization fp8")
    assert (code, "--args is for --tensor-parallel" in err) == (1, True)
    assert not (tmp_path / "out").exists()


def test_it_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "runtime.weights.cli", "--help"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert all(name in out for name in ("check", "prepare", "digest", "bench", "plan"))
