"""The history file's tables: opened, brought to this version's schema, or set aside when damaged."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from activator_ext.adapters.history.wal import damage

BUSY_TIMEOUT_S = 1.0
"""How long a statement waits for another connection's write; ours are all well under 100 ms. The loop waits with it."""

CACHE_KIB = 512
"""Pages kept in memory, in KiB. SQLite's own 2,000 fill up over the first hours and look like a leak until then; no
statement of ours touches more than a few dozen pages of 4 KiB."""

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
    """
    CREATE TABLE minutes (
        service TEXT NOT NULL,
        kind TEXT NOT NULL,
        ready_by_us INTEGER NOT NULL,
        outcome TEXT,
        lateness_s REAL,
        PRIMARY KEY (service, ready_by_us, kind)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE golden_in_order (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        golden_key TEXT NOT NULL,
        prompt TEXT NOT NULL,
        tokens TEXT NOT NULL,
        UNIQUE (prompt, golden_key)
    );
    INSERT INTO golden_in_order (golden_key, prompt, tokens) SELECT golden_key, prompt, tokens FROM golden;
    DROP TABLE golden;
    ALTER TABLE golden_in_order RENAME TO golden
    """,
)
"""Step n brings a file from schema n to n + 1; written steps never change."""

_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class HistoryError(Exception):
    """The history file cannot be used; the message names the file and the fix."""


class NewerHistoryError(HistoryError):
    """A newer Pilotlight wrote the file."""


def open_history(path: Path, clock: Callable[[], datetime]) -> tuple[sqlite3.Connection, str | None]:
    """A connection to the file in this version's schema, and a sentence for the user if something of it was damaged.

    A damaged file is moved aside to `<name>.damaged-<UTC>`, and so is one that is no history; of a damaged log a copy
    is kept, and the file goes on with what the log has before the damage. Raises NewerHistoryError for a newer schema,
    HistoryError where the file cannot be opened or stays locked.
    """
    try:
        notice = _look_over(path, clock)
        return _open(path), notice
    except (sqlite3.DatabaseError, OSError) as error:
        if not _is_damage(error):
            raise HistoryError(f"{path}: {error}; check that the file and its directory can be written") from error
        return _anew(path, clock, error)


def _anew(path: Path, clock: Callable[[], datetime], error: Exception) -> tuple[sqlite3.Connection, str]:
    try:
        aside = _set_aside(path, clock())
        opened = _open(path)
    except (sqlite3.Error, OSError) as again:
        raise HistoryError(
            f"{path} is damaged ({error}) and cannot be begun anew: {again}; check that its directory can be written"
        ) from again
    notice = f"{path} was damaged ({error}): moved to {aside.name} and begun anew; lead times are learned again"
    return opened, f"{notice}, holds are lost"


def _look_over(path: Path, clock: Callable[[], datetime]) -> str | None:
    """Look for the damage that SQLite passes over in silence: a log that is not whole, a file that is empty."""
    if path.exists() and not path.is_file():
        raise HistoryError(f"{path} is no file: move it away, or choose another --state")
    log = path.with_name(f"{path.name}-wal")
    wrong = damage(log)
    if wrong is not None:
        aside = log.with_name(f"{path.name}.damaged-{_stamp(clock())}-wal")
        shutil.copyfile(log, aside)
        return f"{log} was damaged ({wrong}): kept as {aside.name}; what was remembered last is lost, holds too"
    if path.is_file() and path.stat().st_size == 0:
        return f"{path} was empty and is begun anew; lead times are learned again, holds are lost"
    return None


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise _corrupt(str(found))
        # Asked before anything is written: another program's file stays as it is.
        _version(connection)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        _migrate(connection, path)
        _compare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection)
        if version > len(MIGRATIONS):
            raise NewerHistoryError(
                f"{path} was written by a newer Pilotlight (schema {version}, this one knows {len(MIGRATIONS)}): "
                "upgrade Pilotlight, or move the file away; then lead times are learned again and holds are lost"
            )
        if version == 0:
            connection.execute("CREATE TABLE schema_version (version INTEGER NOT NULL)")
        for step in MIGRATIONS[version:]:
            for statement in step.split(";"):
                connection.execute(statement)
        connection.execute("DELETE FROM schema_version")
        connection.execute("INSERT INTO schema_version VALUES (?)", (len(MIGRATIONS),))
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _version(connection: sqlite3.Connection) -> int:
    """The schema that the file has; 0: none yet. Raises DatabaseError where that cannot be of ours."""
    tables = _objects(connection)
    if not tables:
        return 0
    if "schema_version" not in tables:
        raise _corrupt("it is a database, and no history of Pilotlight's")
    rows = connection.execute("SELECT version FROM schema_version").fetchall()
    if len(rows) != 1 or not isinstance(rows[0][0], int) or rows[0][0] < 1:
        raise _corrupt(f"its schema version is {[row[0] for row in rows]}")
    return int(rows[0][0])


def _compare(connection: sqlite3.Connection) -> None:
    """Raise DatabaseError unless every table is as the migrations make it; more tables do no harm."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as model:
        for statement in ";".join(MIGRATIONS).split(";"):
            model.execute(statement)
        wanted, found = _objects(model), _objects(connection)
    for name, text in wanted.items():
        if found.get(name) != text:
            raise _corrupt(f"{name} is missing" if name not in found else f"{name} is not as it was made")


def _objects(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))


def _corrupt(text: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(text)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def _is_damage(error: Exception) -> bool:
    # The low byte is the primary code: SQLITE_CORRUPT_INDEX is 779 = 3 * 256 + 11, and 11 is SQLITE_CORRUPT.
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _DAMAGED


def _stamp(now: datetime) -> str:
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%S%fZ}"


def _set_aside(path: Path, now: datetime) -> Path:
    aside = path.with_name(f"{path.name}.damaged-{_stamp(now)}")
    path.rename(aside)
    for suffix in ("-wal", "-shm"):
        companion = path.with_name(path.name + suffix)
        if companion.exists():
            companion.rename(aside.with_name(aside.name + suffix))
    return aside
