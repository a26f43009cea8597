"""Rows of the history file ↔ the types they stand for."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pydantic import ValidationError

from activator_ext.core.model import Hold, LeadSample, Reason, ReasonCode, ServiceId, StartKind
from runtime.contract import Mark, StartRecord

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

HOLD_COLUMNS = "id, service, replicas, created_us, ready_by_us, until_us, note, released_us"
HoldRow = tuple[str, str, int, int, int | None, int, str, int | None]
EventRow = tuple[int, int, str | None, str, str, str | None]


@dataclass(frozen=True, slots=True, order=True)
class Minute:
    """A minute that a schedule or hold (`kind`) of a service announced."""

    service: ServiceId
    kind: str
    ready_by: datetime


@dataclass(frozen=True, slots=True)
class RecordedMinute:
    """How a minute was met; `outcome` and `lateness_s` are None while that is open."""

    minute: Minute
    outcome: str | None
    lateness_s: float | None


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """Something that happened. `seq` grows with each event and is never used twice."""

    seq: int
    at: datetime
    service: ServiceId | None
    kind: str
    text: str
    reason: Reason | None = None


def to_us(instant: datetime) -> int:
    """Whole microseconds since 1970 UTC, exact (a float of seconds is not); raises TypeError for a naive datetime."""
    return (instant - _EPOCH) // _MICROSECOND


def from_us(microseconds: int) -> datetime:
    """The aware UTC instant."""
    return _EPOCH + microseconds * _MICROSECOND


def asked_at(record: StartRecord) -> datetime | None:
    """What orders starts: T0, else the earliest mark known."""
    return record.marks.get(Mark.T0) or min(record.marks.values(), default=None)


def start_from(text: str) -> StartRecord | None:
    """None for a record that another version wrote and this one cannot read (a stage it does not know)."""
    try:
        return StartRecord.model_validate_json(text)
    except ValidationError:
        return None


def sample_from(kind: str, lead_s: float, ended_us: int) -> LeadSample | None:
    """None for a start kind that this version does not know."""
    try:
        return LeadSample(StartKind(kind), lead_s, from_us(ended_us))
    except ValueError:
        return None


def hold_values(hold: Hold) -> HoldRow:
    """The columns of `HOLD_COLUMNS`."""
    ready_by = None if hold.ready_by is None else to_us(hold.ready_by)
    created, until = to_us(hold.created_at), to_us(hold.until)
    return (hold.id, str(hold.service), hold.replicas, created, ready_by, until, hold.note, None)


def hold_from(row: HoldRow) -> Hold:
    """A hold as it stands: one that was released ends at its release."""
    hold_id, service, replicas, created_us, ready_by_us, until_us, note, released_us = row
    return Hold(
        id=hold_id,
        service=ServiceId.parse(service),
        replicas=replicas,
        created_at=from_us(created_us),
        until=from_us(until_us if released_us is None else released_us),
        ready_by=None if ready_by_us is None else from_us(ready_by_us),
        note=note,
    )


def hold_content(row: HoldRow) -> tuple[str, int, int | None, int, str]:
    """What was asked for, whenever it was asked: a retried request has another `created_at` and the same length."""
    _, service, replicas, created_us, ready_by_us, until_us, note, _ = row
    begins_us = created_us if ready_by_us is None else ready_by_us
    return (service, replicas, ready_by_us, until_us - begins_us, note)


def reason_text(reason: Reason | None) -> str | None:
    """A reason as JSON."""
    return None if reason is None else json.dumps({"code": reason.code, "numbers": dict(reason.numbers)})


def event_from(row: EventRow) -> RecordedEvent:
    """An event; a reason whose code this version does not know is left out, its sentence stays in `text`."""
    seq, at_us, service, kind, text, reason = row
    service_id = None if service is None else ServiceId.parse(service)
    return RecordedEvent(seq, from_us(at_us), service_id, kind, text, _reason_from(reason))


def _reason_from(text: str | None) -> Reason | None:
    if text is None:
        return None
    fields = json.loads(text)
    try:
        return Reason(ReasonCode(fields["code"]), fields["numbers"])
    except ValueError:
        return None
