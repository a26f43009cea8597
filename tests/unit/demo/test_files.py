"""The demo's directory and the edit that adds a schedule."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from activator_ext.app.state_dir import StateDir
from demo.files import MANIFESTS, StillServing, add_schedule, at_minute, prepare
from demo.steps import next_minute

NINE = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def test_prepare_makes_model_and_manifests_and_forgets_what_was_there(tmp_path: Path) -> None:
    root = tmp_path / "demo"
    (root / "state").mkdir(parents=True)

    files = prepare(root)

    assert (files.volume / "tiny-a" / "config.json").exists()
    assert [path.name for path in files.manifests] == ["chat.yaml", "runtime.yaml"]
    assert not files.state.exists()


def test_a_demo_that_still_serves_is_left_alone(tmp_path: Path) -> None:
    files = prepare(tmp_path / "demo")
    state = StateDir(files.state)
    state.acquire()
    try:
        with pytest.raises(StillServing, match=f"kill -INT {os.getpid()}"):
            prepare(files.root)
    finally:
        state.release()

    prepare(files.root)
    assert not files.state.exists()


def test_a_schedule_is_added_to_the_copy_and_only_to_the_policy(tmp_path: Path) -> None:
    files = prepare(tmp_path / "demo")
    shipped = list(yaml.safe_load_all((MANIFESTS / "chat.yaml").read_text()))

    add_schedule(files.policy, name="demo", ready_by=NINE, until=NINE + timedelta(minutes=61))

    service, policy = yaml.safe_load_all(files.policy.read_text())
    schedule = {"name": "demo", "timeZone": "UTC", "readyBy": "0 9 2 3 *", "until": "1 10 2 3 *"}
    assert policy["spec"].pop("schedules") == [schedule]
    assert [service, policy] == shipped
    assert [path.name for path in files.manifests] == ["chat.yaml", "runtime.yaml"]


def test_cron_knows_whole_minutes_only() -> None:
    with pytest.raises(ValueError, match="not a whole minute"):
        at_minute(NINE + timedelta(seconds=1))


@pytest.mark.parametrize(("after_s", "expected_s"), [(0, 0), (0.5, 60), (59, 60), (60, 60), (61, 120)])
def test_next_minute(after_s: float, expected_s: float) -> None:
    assert next_minute(NINE + timedelta(seconds=after_s)) == NINE + timedelta(seconds=expected_s)
