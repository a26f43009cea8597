"""The history file itself: kept between runs, shared by two connections, damaged, of a newer version."""

import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from activator_ext.adapters.history import History, HistoryError, NewerHistoryError, schema, wal
from activator_ext.core.model import Hold, ServiceId

NOW = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
HOLD = Hold("h1", ServiceId("team-a", "chat"), 1, created_at=NOW, until=NOW + timedelta(hours=1))


def open_at(path: Path) -> History:
    return History(path, lambda: NOW)


def test_what_was_written_is_there_in_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with closing(open_at(path)) as history:
        history.add_hold(HOLD, "key")
    with closing(open_at(path)) as history:
        assert history.notice is None
        assert history.holds(NOW) == (HOLD,)
        assert history.add_hold(HOLD, "key") == HOLD


def test_closing_twice_does_nothing(tmp_path: Path) -> None:
    history = open_at(tmp_path / "history.db")
    history.close()
    history.close()


def test_two_connections_see_each_others_writes(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with closing(open_at(path)) as one, closing(open_at(path)) as other:
        one.add_hold(HOLD, "key")
        assert other.add_hold(HOLD, "key") == HOLD
        assert other.release_hold("h1", NOW + timedelta(minutes=1))
        assert one.holds(NOW)[0].until == NOW + timedelta(minutes=1)
        assert [one.add_event(NOW, None, "a", "", None), other.add_event(NOW, None, "b", "", None)] == [1, 2]


def test_holds_are_durable_before_the_call_returns(tmp_path: Path) -> None:
    with closing(open_at(tmp_path / "history.db")) as history:
        history.add_hold(HOLD, None)
        assert history._read("PRAGMA synchronous") == [(2,)]  # 2 is FULL
        assert history._read("PRAGMA journal_mode") == [("wal",)]
        history.add_event(NOW, None, "files", "read again", None)
        assert history._read("PRAGMA synchronous") == [(1,)]  # 1 is NORMAL


def scribbled_header(path: Path) -> None:
    path.write_bytes(b"this is no database, it only has its name" * 100)


def scribbled_pages(path: Path) -> None:
    open_at(path).close()
    content = bytearray(path.read_bytes())
    content[1024:] = b"\xff" * (len(content) - 1024)
    path.write_bytes(content)


def cut_in_half(path: Path) -> None:
    open_at(path).close()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def cut_to_its_header(path: Path) -> None:
    open_at(path).close()
    path.write_bytes(path.read_bytes()[:100])


def of_another_program(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")


def without_a_table(path: Path) -> None:
    changed(path, "DROP TABLE holds")


def with_another_table(path: Path) -> None:
    changed(path, "ALTER TABLE holds ADD COLUMN colour TEXT")


def of_no_version(path: Path) -> None:
    changed(path, "DELETE FROM schema_version")


def of_a_senseless_version(path: Path) -> None:
    changed(path, "UPDATE schema_version SET version = 'many'")


def of_a_negative_version(path: Path) -> None:
    changed(path, "UPDATE schema_version SET version = -1")


def changed(path: Path, statement: str) -> None:
    open_at(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(statement)


@pytest.mark.parametrize(
    "damage",
    [
        scribbled_header,
        scribbled_pages,
        cut_in_half,
        cut_to_its_header,
        of_another_program,
        without_a_table,
        with_another_table,
        of_no_version,
        of_a_senseless_version,
        of_a_negative_version,
    ],
)
def test_a_damaged_file_is_moved_aside_and_begun_anew(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    path = tmp_path / "history.db"
    damage(path)
    damaged = path.read_bytes()
    with closing(open_at(path)) as history:
        aside = tmp_path / "history.db.damaged-20261130T080000000000Z"
        assert history.notice is not None
        assert aside.name in history.notice
        assert aside.read_bytes() == damaged
        history.add_hold(HOLD, None)
        assert history.holds(NOW) == (HOLD,)
    with closing(open_at(path)) as history:
        assert history.notice is None


def test_an_emptied_file_is_begun_anew_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    open_at(path).close()
    path.write_bytes(b"")
    with closing(open_at(path)) as history:
        assert history.notice is not None
        assert "was empty and is begun anew" in history.notice


def killed_while_open(path: Path) -> list[str]:
    """Leave the file as a killed process does, its log not written into it; ids of the holds that it was told of."""
    home = path.parent / "living"
    home.mkdir()
    holds = [replace(HOLD, id=f"h{number}") for number in range(5)]
    with closing(open_at(home / path.name)) as history:
        for hold in holds:
            history.add_hold(hold)
        for each in home.iterdir():
            shutil.copyfile(each, path.parent / each.name)
    return [hold.id for hold in holds]


def test_the_log_of_a_killed_process_is_read(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    told = killed_while_open(path)
    assert (tmp_path / "history.db-wal").stat().st_size > 0
    with closing(open_at(path)) as history:
        assert history.notice is None
        assert [hold.id for hold in history.holds(NOW)] == told


@pytest.mark.parametrize(
    ("at", "what"),
    [
        pytest.param(0, "its header is not that of a log", id="magic"),
        pytest.param(20, "its header is damaged", id="salt"),
        pytest.param(5000, r"frame \d+ of \d+ is damaged", id="page"),
    ],
)
def test_a_damaged_log_is_kept_and_said(tmp_path: Path, at: int, what: str) -> None:
    path, log = tmp_path / "history.db", tmp_path / "history.db-wal"
    killed_while_open(path)
    content = bytearray(log.read_bytes())
    content[at : at + 4] = b"oops"
    log.write_bytes(content)
    with closing(open_at(path)) as history:
        assert history.notice is not None
        assert re.search(what, history.notice)
        (aside,) = tmp_path.glob("history.db.damaged-*-wal")
        assert aside.name in history.notice
        assert aside.read_bytes() == content
        history.add_hold(replace(HOLD, id="new"))
        assert "new" in [hold.id for hold in history.holds(NOW)]


def test_a_log_cut_within_its_header_is_said_and_a_torn_last_frame_is_not(tmp_path: Path) -> None:
    """The torn one is of a transaction that was never acknowledged: the process was killed while it wrote."""
    path, log = tmp_path / "history.db", tmp_path / "history.db-wal"
    told = killed_while_open(path)
    whole = log.read_bytes()
    assert wal.damage(log) is None
    log.write_bytes(whole[:20])
    assert wal.damage(log) == "its header is cut off"
    log.write_bytes(whole[:-100])
    with closing(open_at(path)) as history:
        assert history.notice is None
        assert [hold.id for hold in history.holds(NOW)] == told[:-1]


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_is_named(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "history.db"
    make(path)
    with pytest.raises(HistoryError, match="is no file: move it away"):
        open_at(path)


def test_a_directory_that_cannot_take_the_damaged_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history.db"
    scribbled_header(path)

    def refused(*_: object) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(schema, "_set_aside", refused)
    with pytest.raises(HistoryError, match=r"cannot be begun anew: .*No space left"):
        open_at(path)


def test_a_damaged_files_companions_are_moved_with_it(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    scribbled_header(path)
    (tmp_path / "history.db-wal").write_bytes(b"of another process")
    aside = schema._set_aside(path, NOW)
    assert aside.with_name(aside.name + "-wal").read_bytes() == b"of another process"


def test_a_newer_schema_is_refused_with_the_fix(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    open_at(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE schema_version SET version = 99")
    with pytest.raises(NewerHistoryError, match=r"history\.db was written by a newer .*schema 99.*upgrade Pilotlight"):
        open_at(path)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT version FROM schema_version").fetchall() == [(99,)]


def test_an_older_schema_is_brought_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "history.db"
    with closing(open_at(path)) as history:
        history.add_hold(HOLD, None)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "CREATE TABLE extra (a)"))
    with closing(open_at(path)) as history:
        assert history.holds(NOW) == (HOLD,)
        assert history._read("SELECT version FROM schema_version") == [(len(schema.MIGRATIONS),)]
        assert history._read("SELECT count(*) FROM extra") == [(0,)]


def test_a_failed_migration_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "history.db"
    open_at(path).close()
    with monkeypatch.context() as patched:
        patched.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "CREATE TABLE extra (a); CREATE TABLE holds (a)"))
        with pytest.raises(HistoryError, match="already exists"):
            open_at(path)
    with closing(open_at(path)) as history:
        assert history._read("SELECT name FROM sqlite_master WHERE name = 'extra'") == []


def test_a_locked_file_is_not_taken_for_a_damaged_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "history.db"
    open_at(path).close()
    monkeypatch.setattr(schema, "BUSY_TIMEOUT_S", 0.0)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        with pytest.raises(HistoryError, match="locked"):
            open_at(path)
    assert [each.name for each in tmp_path.iterdir() if "damaged" in each.name] == []


def test_a_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"missing/history\.db: .*directory can be written"):
        open_at(tmp_path / "missing" / "history.db")
