"""The history file's tables: opened, brought to this version's schema, or set aside when damaged."""

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

BUSY_TIMEOUT_S = 1.0
"""How long a statement waits for another connection's write; ours are all well under 100 ms. The loop waits with it."""

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE starts (
        id TEXT PRIMARY KEY,
        service TEXT NOT NULL,
        asked_us INTEGER NOT NULL,
        record TEXT NOT NULL
    );
    CREATE INDEX starts_newest ON starts (service, asked_us);
    CREATE TABLE lead_samples (
        service TEXT NOT NULL,
        kind TEXT NOT NULL,
        ended_us INTEGER NOT NULL,
        lead_s REAL NOT NULL,
        PRIMARY KEY (service, ended_us, kind)
    ) WITHOUT ROWID;
    CREATE TABLE holds (
        id TEXT PRIMARY KEY,
        service TEXT NOT NULL,
        replicas INTEGER NOT NULL,
        created_us INTEGER NOT NULL,
        ready_by_us INTEGER,
        until_us INTEGER NOT NULL,
        note TEXT NOT NULL,
        released_us INTEGER,
        idempotency_key TEXT UNIQUE
    );
    CREATE TABLE golden (
        golden_key TEXT NOT NULL,
        prompt TEXT NOT NULL,
        tokens TEXT NOT NULL,
        PRIMARY KEY (golden_key, prompt)
    ) WITHOUT ROWID;
    CREATE TABLE events (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        at_us INTEGER NOT NULL,
        service TEXT,
        kind TEXT NOT NULL,
        text TEXT NOT NULL,
        reason TEXT
    );
    """,
)
"""Step n brings a file from schema n to n + 1; written steps never change."""

_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class HistoryError(Exception):
    """The history file cannot be used; the message names the file and the fix."""


class NewerHistoryError(HistoryError):
    """A newer Pilotlight wrote the file."""


def open_history(path: Path, clock: Callable[[], datetime]) -> tuple[sqlite3.Connection, str | None]:
    """A connection to the file in this version's schema, and a sentence for the user if the file was begun anew.

    A damaged file is moved aside to `<name>.damaged-<UTC>`. Raises NewerHistoryError for a newer schema, HistoryError
    where the file cannot be opened or stays locked.
    """
    try:
        return _open(path), None
    except sqlite3.DatabaseError as error:
        if not _is_damage(error):
            raise HistoryError(f"{path}: {error}; check that the file and its directory can be written") from error
        aside = _set_aside(path, clock())
        notice = f"{path} was damaged ({error}): moved to {aside.name} and begun anew; lead times are learned again"
    return _open(path), notice


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        damage = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if damage != "ok":
            error = sqlite3.DatabaseError(str(damage))
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error
        _migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)")
        row = connection.execute("SELECT version FROM schema_version").fetchone()
        version = 0 if row is None else int(row[0])
        if version > len(MIGRATIONS):
            raise NewerHistoryError(
                f"{path} was written by a newer Pilotlight (schema {version}, this one knows {len(MIGRATIONS)}): "
                "upgrade Pilotlight, or move the file away; then lead times are learned again and holds are lost"
            )
        for step in MIGRATIONS[version:]:
            for statement in step.split(";"):
                connection.execute(statement)
        connection.execute("DELETE FROM schema_version")
        connection.execute("INSERT INTO schema_version VALUES (?)", (len(MIGRATIONS),))
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    # The low byte is the primary code: SQLITE_CORRUPT_INDEX is 779 = 3 * 256 + 11, and 11 is SQLITE_CORRUPT.
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _DAMAGED


def _set_aside(path: Path, now: datetime) -> Path:
    aside = path.with_name(f"{path.name}.damaged-{now.astimezone(UTC):%Y%m%dT%H%M%S%fZ}")
    path.rename(aside)
    for suffix in ("-wal", "-shm"):
        companion = path.with_name(path.name + suffix)
        if companion.exists():
            companion.rename(aside.with_name(aside.name + suffix))
    return aside
