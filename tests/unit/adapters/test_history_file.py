"""The history file itself: kept between runs, shared by two connections, damaged, of a newer version."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from activator_ext.adapters.history import History, HistoryError, NewerHistoryError, schema
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


@pytest.mark.parametrize("damage", [scribbled_header, scribbled_pages])
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
        assert history._read("SELECT version FROM schema_version") == [(2,)]
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
