"""Killed at any step, packing and unpacking leave the old, the new, or nothing; never something torn."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize(
    ("walk", "least"), [("pack", 60), ("restore", 50), ("replace", 80), ("key", 10), ("quarantine", 10)]
)
def test_killed_at_each_step(tmp_path: Path, walk: str, least: int) -> None:
    command = [sys.executable, "-m", "tests.unit.runtime.cache.killing", walk, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) >= least
