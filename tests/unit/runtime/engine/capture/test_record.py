"""What a host keeps of a service's steps: faded by time, begun anew where the file is damaged."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.engine.capture.record import HALF_LIFE_S, Record, read, write

NOW = datetime(2026, 11, 30, 9, tzinfo=UTC)
WHOLE = Record({1: 100.0, 8: 20.5}, NOW, 64, (1, 8, 64))


def test_it_is_read_as_written(tmp_path: Path) -> None:
    path = tmp_path / "team" / "chat" / "shapes.json"
    write(path, WHOLE)
    assert read(path) == WHOLE
    assert [file.name for file in path.parent.iterdir()] == ["shapes.json"]


def test_a_step_of_a_week_ago_counts_half() -> None:
    later = WHOLE.with_steps({8: 3.0}, NOW + timedelta(seconds=HALF_LIFE_S))
    assert later.steps == {1: 50.0, 8: 13.25}
    assert (later.sizes, later.max_num_seqs) == ((1, 8, 64), 64)


def test_a_clock_set_back_takes_nothing_away() -> None:
    assert WHOLE.with_steps({1: 1.0}, NOW - timedelta(days=400)).steps == {1: 101.0, 8: 20.5}


def test_what_was_long_ago_is_gone() -> None:
    assert WHOLE.with_steps({2: 1.0}, NOW + timedelta(days=200)).steps == {2: 1.0}


GOOD: dict[str, Any] = {"version": 1, "at": NOW.isoformat(), "steps": {"1": 5}, "max_num_seqs": 8, "sizes": [1, 8]}
DAMAGED: dict[str, Any] = {
    "version": {"version": 2},
    "naive": {"at": "2026-11-30T09:00:00"},
    "no instant": {"at": 5},
    "negative": {"steps": {"1": -1}},
    "not a number": {"steps": {"1": "NaN"}},
    "infinite": {"steps": {"1": 1e999}},
    "no tokens": {"steps": {"0": 1}},
    "words": {"steps": {"x": 1}},
    "a list": {"steps": [1]},
    "limit": {"max_num_seqs": 0},
    "true limit": {"max_num_seqs": True},
    "sizes from 2": {"sizes": [2, 8]},
    "sizes down": {"sizes": [1, 8, 4]},
    "sizes twice": {"sizes": [1, 1]},
    "words as sizes": {"sizes": ["--port", "1"]},
    "true as size": {"sizes": [True, 8]},
    "large sizes": {"sizes": [1, 100000]},
    "no sizes": {"sizes": []},
}


def test_the_undamaged_one_is_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_text(json.dumps(GOOD))
    assert read(tmp_path / "f") == Record({1: 5.0}, NOW, 8, (1, 8))


@pytest.mark.parametrize("change", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_file_is_begun_anew(tmp_path: Path, change: dict[str, Any]) -> None:
    (tmp_path / "f").write_text(json.dumps(GOOD | change))
    assert read(tmp_path / "f") == Record()


@pytest.mark.parametrize("text", ["", "[", "[]", "null", "[" * 70000, '{"version": 1}', "\x00"], ids=range(7))
def test_a_file_that_is_none_of_ours_is_begun_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / "f").write_text(text)
    assert read(tmp_path / "f") == Record()


@given(st.binary(max_size=100))
def test_no_bytes_raise(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes"
    path.write_bytes(data)
    assert read(path) == Record()


def test_a_directory_that_cannot_be_written_costs_no_start(tmp_path: Path) -> None:
    (tmp_path / "team").write_text("a file where a directory should be")
    write(tmp_path / "team" / "shapes.json", WHOLE)
    assert read(tmp_path / "team" / "shapes.json") == Record()
