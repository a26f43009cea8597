"""`History`: short synchronous transactions on the history file, safe to call from any thread.

Holds, lead samples and golden answers are on disk before a call returns (`synchronous=FULL`); starts and events may
lose their last moments to a power cut, never to a killed process (`NORMAL` under WAL).
"""

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from activator_ext.adapters.history.rows import (
    HOLD_COLUMNS,
    HoldRow,
    Minute,
    RecordedEvent,
    RecordedMinute,
    asked_at,
    event_from,
    from_us,
    hold_content,
    hold_from,
    hold_values,
    reason_text,
    sample_from,
    start_from,
    to_us,
)
from activator_ext.adapters.history.schema import HistoryError, open_history
from activator_ext.core.model import Hold, LeadSample, Reason, ServiceId
from runtime.contract import Failure, StartRecord

STARTS_KEPT = 500
"""Newest starts kept per service: at ten starts a day, seven weeks."""
LEAD_SAMPLES_KEPT = 1000
"""Newest lead samples kept per service; the quantile uses the newest few dozen."""
MINUTES_KEPT = 1000
"""Newest announced minutes kept per service: at two a day, more than a year."""
GOLDENS_KEPT = 128
"""Newest golden answers kept per prompt: each order carries those of its prompt, and each edit of a service's arguments
makes another. 128 are enough for dozens of models that share the default prompt; a forgotten one is learned again."""
EVENTS_KEPT = 10_000
"""Newest events kept in all."""
HOLD_SHOWN = timedelta(days=1)
"""How long an expired hold is still listed."""
HOLD_KEPT = timedelta(days=7)
"""How long an expired hold is kept, so that a late retry with its idempotency key finds it."""


class HoldConflictError(ValueError):
    """The idempotency key was used for another hold; the message names it."""


class History:
    """The memory of one state directory.

    `notice` is a sentence for the user when the file was damaged and begun anew, else None. Raises HistoryError
    (NewerHistoryError for a newer schema) when the file cannot be used; so does every method.
    """

    def __init__(self, path: Path, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._connection, self.notice = open_history(path, clock)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        with self._lock:
            self._connection.close()

    def record_start(self, record: StartRecord) -> None:
        """Insert or replace by id; keeps the newest `STARTS_KEPT` of the service."""
        asked = asked_at(record) or self._clock()
        with self._writing() as db:
            db.execute(
                "INSERT INTO starts (id, service, asked_us, record) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE "
                "SET service = excluded.service, asked_us = excluded.asked_us, record = excluded.record",
                (record.id, record.service, to_us(asked), record.model_dump_json()),
            )
            db.execute(
                "DELETE FROM starts WHERE service = ?1 AND id NOT IN "
                "(SELECT id FROM starts WHERE service = ?1 ORDER BY asked_us DESC, id DESC LIMIT ?2)",
                (record.service, STARTS_KEPT),
            )

    def starts(self, service: ServiceId, limit: int) -> list[StartRecord]:
        """Its newest starts first. Records that this version cannot read are left out."""
        rows = self._read(
            "SELECT record FROM starts WHERE service = ? ORDER BY asked_us DESC, id DESC LIMIT ?", str(service), limit
        )
        return [record for (text,) in rows if (record := start_from(text)) is not None]

    def start(self, start_id: str) -> StartRecord | None:
        """One start by id."""
        rows = self._read("SELECT record FROM starts WHERE id = ?", start_id)
        return start_from(rows[0][0]) if rows else None

    def last_failure(self, service: ServiceId) -> Failure | None:
        """The newest failure among its kept starts: of one that failed, or of an engine that ended after it."""
        rows = self._read(
            "SELECT record FROM starts WHERE service = ? AND coalesce(record ->> 'ended', record ->> 'failure') "
            "IS NOT NULL ORDER BY asked_us DESC, id DESC LIMIT 1",
            str(service),
        )
        record = start_from(rows[0][0]) if rows else None
        return None if record is None else record.ended or record.failure

    def add_lead_sample(self, service: ServiceId, sample: LeadSample) -> None:
        """Remember one floor → ready time; the same sample twice counts once."""
        name = str(service)
        with self._writing(durable=True) as db:
            db.execute(
                "INSERT OR IGNORE INTO lead_samples (service, kind, ended_us, lead_s) VALUES (?, ?, ?, ?)",
                (name, sample.kind, to_us(sample.ended_at), sample.lead_s),
            )
            db.execute(
                "DELETE FROM lead_samples WHERE service = ?1 AND ended_us < "
                "(SELECT ended_us FROM lead_samples WHERE service = ?1 ORDER BY ended_us DESC LIMIT 1 OFFSET ?2)",
                (name, LEAD_SAMPLES_KEPT - 1),
            )

    def lead_samples(self, service: ServiceId, limit: int = 200) -> tuple[LeadSample, ...]:
        """Its newest floor → ready times, newest first."""
        rows = self._read(
            "SELECT kind, lead_s, ended_us FROM lead_samples WHERE service = ? ORDER BY ended_us DESC LIMIT ?",
            str(service),
            limit,
        )
        return tuple(sample for row in rows if (sample := sample_from(*row)) is not None)

    def add_hold(self, hold: Hold, idempotency_key: str | None = None) -> Hold:
        """Remember a hold, on disk before this returns.

        A key that was used before gives the hold it gave then, as it stands now; raises HoldConflictError when that one
        asked for something else.
        """
        values = hold_values(hold)
        with self._writing(durable=True) as db:
            if idempotency_key is not None:
                select = f"SELECT {HOLD_COLUMNS} FROM holds WHERE idempotency_key = ?"  # noqa: S608 — constant columns
                known: HoldRow | None = db.execute(select, (idempotency_key,)).fetchone()
                if known is not None:
                    return _same_hold(known, values, idempotency_key)
            db.execute(
                f"INSERT INTO holds ({HOLD_COLUMNS}, idempotency_key) "  # noqa: S608 — constant columns
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*values, idempotency_key),
            )
            forgotten_us = to_us(self._clock() - HOLD_KEPT)
            db.execute("DELETE FROM holds WHERE min(until_us, ifnull(released_us, until_us)) < ?", (forgotten_us,))
        return hold

    def holds(self, now: datetime) -> tuple[Hold, ...]:
        """Every hold that has not expired and those that expired in the last day, oldest first."""
        rows = self._read(
            f"SELECT {HOLD_COLUMNS} FROM holds "  # noqa: S608 — constant columns
            "WHERE min(until_us, ifnull(released_us, until_us)) > ? ORDER BY created_us, id",
            to_us(now - HOLD_SHOWN),
        )
        return tuple(hold_from(row) for row in rows)

    def release_hold(self, hold_id: str, now: datetime) -> bool:
        """End a hold at `now`, on disk before this returns; False if there is none or it has ended already."""
        with self._writing(durable=True) as db:
            cursor = db.execute(
                "UPDATE holds SET released_us = ?1 WHERE id = ?2 AND released_us IS NULL AND until_us > ?1",
                (to_us(now), hold_id),
            )
            return cursor.rowcount == 1

    def announce(self, minute: Minute, *, new: bool) -> bool:
        """Whether the minute is open: announced here (`new`) or before, and not judged."""
        key = _minute_key(minute)
        with self._writing() as db:
            if new:
                db.execute("INSERT OR IGNORE INTO minutes (service, kind, ready_by_us) VALUES (?, ?, ?)", key)
                db.execute(
                    "DELETE FROM minutes WHERE service = ?1 AND ready_by_us < "
                    "(SELECT ready_by_us FROM minutes WHERE service = ?1 ORDER BY ready_by_us DESC LIMIT 1 OFFSET ?2)",
                    (key[0], MINUTES_KEPT - 1),
                )
            return db.execute(f"SELECT 1 FROM minutes WHERE {_OPEN_MINUTE}", key).fetchone() is not None  # noqa: S608 — constant

    def judge(self, minute: Minute, outcome: str, lateness_s: float) -> None:
        """Remember how an open minute was met."""
        with self._writing() as db:
            values = (outcome, lateness_s, *_minute_key(minute))
            db.execute(f"UPDATE minutes SET outcome = ?, lateness_s = ? WHERE {_OPEN_MINUTE}", values)  # noqa: S608 — constant

    def withdraw(self, minute: Minute) -> None:
        """Forget an open minute: it was taken back before it came."""
        with self._writing() as db:
            db.execute(f"DELETE FROM minutes WHERE {_OPEN_MINUTE}", _minute_key(minute))  # noqa: S608 — constant

    def minutes(self, service: ServiceId, limit: int) -> list[RecordedMinute]:
        """Its newest announced minutes first."""
        rows = self._read(
            "SELECT kind, ready_by_us, outcome, lateness_s FROM minutes WHERE service = ? "
            "ORDER BY ready_by_us DESC, kind LIMIT ?",
            str(service),
            limit,
        )
        return [
            RecordedMinute(Minute(service, kind, from_us(ready_by_us)), outcome, lateness_s)
            for kind, ready_by_us, outcome, lateness_s in rows
        ]

    def goldens(self, prompt: str) -> dict[str, tuple[int, ...]]:
        """Every known answer to this prompt, by golden key, the one proven last at the end."""
        rows = self._read("SELECT golden_key, tokens FROM golden WHERE prompt = ? ORDER BY seq", prompt)
        return {key: tuple(json.loads(tokens)) for key, tokens in rows}

    def set_golden(self, golden_key: str, prompt: str, tokens: tuple[int, ...]) -> None:
        """Remember an answer that was proven just now, in place of any earlier one; keeps the newest `GOLDENS_KEPT`."""
        with self._writing(durable=True) as db:
            db.execute(
                "INSERT OR REPLACE INTO golden (golden_key, prompt, tokens) VALUES (?, ?, ?)",
                (golden_key, prompt, json.dumps(tokens)),
            )
            db.execute(
                "DELETE FROM golden WHERE prompt = ?1 AND seq NOT IN "
                "(SELECT seq FROM golden WHERE prompt = ?1 ORDER BY seq DESC LIMIT ?2)",
                (prompt, GOLDENS_KEPT),
            )

    def add_event(self, at: datetime, service: ServiceId | None, kind: str, text: str, reason: Reason | None) -> int:
        """Remember an event and return its seq; keeps the newest `EVENTS_KEPT`."""
        name = None if service is None else str(service)
        with self._writing() as db:
            cursor = db.execute(
                "INSERT INTO events (at_us, service, kind, text, reason) VALUES (?, ?, ?, ?, ?)",
                (to_us(at), name, kind, text, reason_text(reason)),
            )
            seq = cursor.lastrowid
            assert seq is not None  # noqa: S101 — an INSERT always sets it
            db.execute("DELETE FROM events WHERE seq <= ?", (seq - EVENTS_KEPT,))
        return seq

    def events(self, after: int, limit: int) -> list[RecordedEvent]:
        """Events with seq > `after`, oldest first. A negative `after` counts from the end: −50 is the newest 50."""
        if after < 0:
            after = self._read("SELECT ifnull(max(seq), 0) FROM events")[0][0] + after
        rows = self._read(
            "SELECT seq, at_us, service, kind, text, reason FROM events WHERE seq > ? ORDER BY seq LIMIT ?",
            after,
            limit,
        )
        return [event_from(row) for row in rows]

    def _read(self, statement: str, *values: str | int) -> list[Any]:
        with self._lock, _told():
            return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def _writing(self, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        with self._lock, _told():
            db = self._connection
            db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise


_OPEN_MINUTE = "service = ? AND kind = ? AND ready_by_us = ? AND outcome IS NULL"


def _minute_key(minute: Minute) -> tuple[str, str, int]:
    return str(minute.service), minute.kind, to_us(minute.ready_by)


@contextmanager
def _told() -> Iterator[None]:
    """SQLite's errors as ours: locked by somebody else, a full disk, a file damaged while in use."""
    try:
        yield
    except sqlite3.Error as error:
        raise HistoryError(f"the history cannot be used now: {error}") from error


def _same_hold(known: HoldRow, asked: HoldRow, key: str) -> Hold:
    if hold_content(known) != hold_content(asked):
        raise HoldConflictError(
            f"the idempotency key {key!r} already stands for hold {known[0]} of {known[1]}, which asked for something "
            "else: send a new key for a new hold"
        )
    return hold_from(known)
