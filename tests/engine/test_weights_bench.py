"""The bench with real loaders of vLLM: what runs, what cannot and why, what is remembered, how it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from demo.models import make_model
from runtime.weights.bench.bound import files_bound
from runtime.weights.bench.model import Load
from runtime.weights.bench.process import BenchError, Stage
from runtime.weights.winners import WINNERS

BENCH = [sys.executable, "-m", "runtime.weights.cli", "bench"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("bench") / "model", shards=3)


def test_a_bench_of_three_loaders(model: Path, tmp_path: Path) -> None:
    names = ["lazy", "eager", "runai_streamer-2", "fastsafetensors", "sharded_state"]
    chosen = [word for name in names for word in ("--loader", name)]
    command = [*BENCH, str(model), "--state", str(tmp_path), "--rounds", "2", "--json", *chosen]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    rows = {row["name"]: row for row in told["loaders"]}
    assert set(rows) == set(names)
    tensors = sum(path.stat().st_size for path in model.glob("*.safetensors"))
    ran = ["lazy", "eager", *(["runai_streamer-2"] if rows["runai_streamer-2"]["why_not"] is None else [])]
    for name in ran:
        row = rows[name]
        assert row["error"] is None
        assert row["median_s"] > 0
        assert len(row["rounds"]) == 2
        assert all(tensors - 20_000 < each["bytes"] < tensors for each in row["rounds"]), (
            "every tensor, without headers"
        )
    assert rows["sharded_state"]["why_not"].startswith("needs one file for each rank: pilotlight weights prepare")
    assert told["bound"]["bytes"] == tensors
    assert told["place"]["fs_type"]
    (kept,) = json.loads((tmp_path / WINNERS).read_text())["measured"].values()
    assert set(kept["seconds"]) == set(ran)
    plan = [sys.executable, "-m", "runtime.weights.cli", "plan", str(model), "--state", str(tmp_path), "--json"]
    attempts = json.loads(subprocess.run(plan, capture_output=True, text=True, check=True).stdout)
    assert "measured" in attempts[0]["why"], "the next start uses what was measured"
    assert attempts[-1]["loader"] == "default"


def test_ctrl_c_tells_what_it_has_and_leaves_no_process(model: Path, tmp_path: Path) -> None:
    command = [*BENCH, str(model), "--state", str(tmp_path), "--rounds", "100", "--loader", "lazy"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while not (children := psutil.Process(process.pid).children(recursive=True)):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "interrupted: nothing is left behind" in err
    assert out.startswith(f"model    {model}")
    psutil.wait_procs(children, timeout=60)
    assert not any(child.is_running() for child in children)


@pytest.mark.prove
def test_loads_that_fail_hang_or_die_are_told_and_the_next_one_runs(model: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "model.safetensors").write_bytes(b"12345678")
    with (tmp_path / "log").open("wb") as log, Stage({**os.environ, "VLLM_PLUGINS": ""}, log) as stage:
        assert "torch" in stage.versions
        failed = stage.load(Load(str(broken), "safetensors"), 60)
        assert failed.error is not None
        assert "Error" in failed.error
        good = stage.load(Load(str(model), "safetensors", ranks=2), 60)
        assert good.error is None
        alone = stage.load(Load(str(model), "safetensors"), 60)
        # Two ranks hold a half of every matrix each, and each all vectors.
        assert alone.bytes <= good.bytes < 1.1 * alone.bytes
        assert good.tensors == 2 * alone.tensors
        missing = stage.load(Load(str(model), "sharded_state"), 60)
        assert "prepared for fewer ranks" in str(missing.error)
        late = stage.load(Load(str(model), "safetensors"), 0.0)
        assert late.error == "took longer than 0 s"


def test_without_vllm_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text("raise ImportError('none here')")
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}"}
    with (tmp_path / "log").open("wb") as log, pytest.raises(BenchError, match="install it by the extra"):
        Stage(env, log).__enter__()


@pytest.mark.parametrize("cold", [True, False])
def test_the_bound_reads_every_byte(model: Path, cold: bool) -> None:
    files = sorted(model.glob("*.safetensors"))
    found = files_bound(files, cold=cold, readers=(1, 3))
    assert found.bytes == sum(path.stat().st_size for path in files)
    assert found.bytes_per_s > 0
