"""Temporary files: whose they are, and when they may go."""

import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from runtime.cache.stores.leftovers import STALE_S, Owner, is_stale, owner_of, sweep, this_process

US = this_process()


def test_a_name_says_whose_it_is() -> None:
    assert owner_of(US.temp_name()) == US
    assert US.temp_name() != US.temp_name()
    assert "/" not in US.temp_name()


@pytest.mark.parametrize(
    "name", ["", ".tmp~", ".tmp~a~b~c~x~e~f", ".tmp~a~b~c~1~e", "newest.json", ".tmp~a~b~c~1~e~f~g"]
)
def test_other_names_are_nobodys(name: str) -> None:
    assert owner_of(name) is None


@pytest.mark.parametrize(
    ("owner", "untouched_s", "stale"),
    [
        (US, 9e9, False),  # alive: never, however long it takes
        (replace(US, started="1"), 0, True),  # our number, but an earlier process
        (replace(US, pid=2**22 + 1), 0, True),  # no such process
        (replace(US, host="other"), 60, False),  # cannot be asked: by age only
        (replace(US, host="other"), STALE_S + 1, True),
        (replace(US, pids="1"), 60, False),  # another pod of the same host name (hostNetwork)
        (replace(US, boot="x"), 60, False),  # another machine of the same name, or this one before its reboot
        (replace(US, boot="x"), STALE_S + 1, True),
        (Owner("h", "", "", 1, ""), STALE_S + 1, True),
    ],
)
def test_the_rule(owner: Owner, untouched_s: float, stale: bool) -> None:
    assert is_stale(owner, US, untouched_s) is stale


def test_the_dead_are_swept_and_nothing_else(tmp_path: Path) -> None:
    died = subprocess.run(
        [sys.executable, "-c", "from runtime.cache.stores.leftovers import this_process as t; print(t().temp_name())"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    for name in (died, US.temp_name(), replace(US, host="other").temp_name(), "mine.txt"):
        (tmp_path / name).touch()
    old = replace(US, host="elsewhere").temp_name()
    (tmp_path / old).touch()
    then = (datetime.now(UTC) - timedelta(seconds=STALE_S + 60)).timestamp()
    os.utime(tmp_path / old, (then, then))
    assert {path.name for path in sweep(tmp_path, datetime.now(UTC))} == {died, old}
    assert len(list(tmp_path.iterdir())) == 3


def test_a_directory_that_is_not_there_is_swept(tmp_path: Path) -> None:
    assert sweep(tmp_path / "none", datetime.now(UTC)) == ()
