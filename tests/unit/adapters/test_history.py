"""What History remembers, in which order, how much of it, and for how long."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from activator_ext.adapters.history import History, HoldConflictError, RecordedEvent, store
from activator_ext.adapters.history.store import GOLDENS_KEPT
from activator_ext.core.model import Hold, LeadSample, Reason, ReasonCode, ServiceId, StartKind
from runtime import contract
from runtime.contract import Mark, Stage, StageTime, StartRecord

NOW = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
CHAT = ServiceId("team-a", "chat")
DRAFT = ServiceId("team-a", "draft")
HOLD = Hold("h1", CHAT, 1, created_at=NOW, until=NOW + timedelta(hours=1), note="demo for the board")


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    opened = History(tmp_path / "history.db", lambda: NOW)
    yield opened
    opened.close()


def record(number: int, service: ServiceId = CHAT, *, asked_at: datetime | None = NOW) -> StartRecord:
    return StartRecord(
        id=f"local-{number}",
        service=str(service),
        replica=contract.replica_id(str(service), 0),
        kind=contract.StartKind.CACHED_NODE,
        marks={} if asked_at is None else {Mark.T0: asked_at + minutes(number)},
    )


def test_a_start_comes_back_whole(history: History) -> None:
    stage = StageTime(stage=Stage.COMPILE, begun_at=NOW, elapsed_ms=2650.5, evidence="log", span_s=2.6, pid=7)
    whole = record(1).model_copy(
        update={"stages": (stage,), "outcome": "ready", "ready_s": 44.25, "golden_tokens": (5, 6), "why": "1 waiting"}
    )
    history.record_start(whole)
    assert history.start("local-1") == whole
    assert history.starts(CHAT, 10) == [whole]


def test_a_start_is_replaced_by_its_later_record(history: History) -> None:
    history.record_start(record(1))
    ready = record(1).model_copy(update={"outcome": "ready"})
    history.record_start(ready)
    assert history.starts(CHAT, 10) == [ready]


def test_starts_come_newest_first_and_apart_by_service(history: History) -> None:
    for each in (record(2), record(3), record(1), record(4, DRAFT)):
        history.record_start(each)
    assert [each.id for each in history.starts(CHAT, 2)] == ["local-3", "local-2"]
    assert [each.id for each in history.starts(DRAFT, 2)] == ["local-4"]


def test_a_start_without_marks_stands_at_the_moment_it_was_recorded(history: History) -> None:
    history.record_start(record(1, asked_at=NOW - minutes(10)))
    history.record_start(record(0, asked_at=None))
    assert [each.id for each in history.starts(CHAT, 2)] == ["local-0", "local-1"]


def test_only_the_newest_starts_of_each_service_are_kept(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "STARTS_KEPT", 3)
    history.record_start(record(0, DRAFT))
    for number in range(1, 6):
        history.record_start(record(number))
    assert [each.id for each in history.starts(CHAT, 10)] == ["local-5", "local-4", "local-3"]
    assert [each.id for each in history.starts(DRAFT, 10)] == ["local-0"]
    assert history.start("local-1") is None


def test_a_start_that_this_version_cannot_read_is_left_out(history: History, tmp_path: Path) -> None:
    history.record_start(record(1))
    history.record_start(record(2))
    with history._writing() as db:
        db.execute("UPDATE starts SET record = replace(record, 'cached-node', 'teleport') WHERE id = 'local-2'")
    assert [each.id for each in history.starts(CHAT, 10)] == ["local-1"]
    assert history.start("local-2") is None


def test_lead_samples_come_newest_first_and_the_same_one_counts_once(history: History) -> None:
    samples = [LeadSample(StartKind.CACHED_NODE, 40.0 + n, NOW + minutes(n)) for n in range(3)]
    for sample in (*samples, samples[0]):
        history.add_lead_sample(CHAT, sample)
    history.add_lead_sample(DRAFT, samples[0])
    assert history.lead_samples(CHAT) == tuple(reversed(samples))
    assert history.lead_samples(CHAT, limit=1) == (samples[2],)


def test_only_the_newest_lead_samples_are_kept(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LEAD_SAMPLES_KEPT", 2)
    for n in range(4):
        history.add_lead_sample(CHAT, LeadSample(StartKind.COLD_NODE, float(n), NOW + minutes(n)))
    assert [sample.lead_s for sample in history.lead_samples(CHAT)] == [3.0, 2.0]


def test_a_lead_sample_of_an_unknown_kind_is_left_out(history: History) -> None:
    history.add_lead_sample(CHAT, LeadSample(StartKind.FORK, 7.0, NOW))
    with history._writing() as db:
        db.execute("UPDATE lead_samples SET kind = 'teleport'")
    assert history.lead_samples(CHAT) == ()


@pytest.mark.parametrize(
    "hold",
    [
        pytest.param(HOLD, id="as soon as possible"),
        pytest.param(
            replace(HOLD, ready_by=NOW + minutes(30), until=NOW + minutes(90), replicas=2, note=""), id="ready by"
        ),
    ],
)
def test_a_hold_comes_back_whole(history: History, hold: Hold) -> None:
    assert history.add_hold(hold, None) == hold
    assert history.holds(NOW) == (hold,)


def test_an_instant_of_another_zone_comes_back_as_the_same_instant_in_utc(history: History) -> None:
    madrid = timezone(timedelta(hours=1))
    history.add_hold(replace(HOLD, created_at=NOW.astimezone(madrid)), None)
    assert history.holds(NOW) == (HOLD,)
    assert history.holds(NOW)[0].created_at.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    "retry",
    [
        pytest.param(replace(HOLD, id="h2"), id="same instant"),
        pytest.param(
            replace(HOLD, id="h2", created_at=NOW + minutes(1), until=HOLD.until + minutes(1)),
            id="a minute later, for the same time",
        ),
    ],
)
def test_the_same_key_gives_the_same_hold(history: History, retry: Hold) -> None:
    history.add_hold(HOLD, "key")
    assert history.add_hold(retry, "key") == HOLD
    assert history.holds(NOW) == (HOLD,)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replace(HOLD, service=DRAFT), id="service"),
        pytest.param(replace(HOLD, replicas=2), id="replicas"),
        pytest.param(replace(HOLD, until=HOLD.until + minutes(1)), id="length"),
        pytest.param(replace(HOLD, ready_by=NOW + minutes(5)), id="ready by"),
        pytest.param(replace(HOLD, note="other"), id="reason"),
    ],
)
def test_the_same_key_with_other_content_is_refused(history: History, other: Hold) -> None:
    history.add_hold(HOLD, "key")
    with pytest.raises(HoldConflictError, match="already stands for hold h1 of team-a/chat"):
        history.add_hold(replace(other, id="h2"), "key")
    assert history.holds(NOW) == (HOLD,)


def test_without_a_key_each_hold_is_its_own(history: History) -> None:
    second = replace(HOLD, id="h2", created_at=NOW + minutes(1))
    history.add_hold(HOLD, None)
    history.add_hold(second, None)
    assert history.holds(NOW) == (HOLD, second)


def test_a_hold_is_listed_for_a_day_after_its_end(history: History) -> None:
    history.add_hold(HOLD, None)
    assert history.holds(HOLD.until + timedelta(hours=23)) == (HOLD,)
    assert history.holds(HOLD.until + timedelta(hours=24)) == ()


def test_a_released_hold_ends_at_its_release(history: History) -> None:
    history.add_hold(HOLD, "key")
    assert history.release_hold("h1", NOW + minutes(5))
    released = replace(HOLD, until=NOW + minutes(5))
    assert history.holds(NOW + minutes(6)) == (released,)
    assert history.add_hold(replace(HOLD, id="h2"), "key") == released


@pytest.mark.parametrize(
    ("hold_id", "at"),
    [
        pytest.param("nothing", NOW, id="no such hold"),
        pytest.param("h1", HOLD.until, id="expired"),
        pytest.param("h0", NOW + minutes(2), id="released before"),
    ],
)
def test_there_is_nothing_to_release(history: History, hold_id: str, at: datetime) -> None:
    history.add_hold(replace(HOLD, id="h0"), None)
    history.release_hold("h0", NOW + minutes(1))
    history.add_hold(HOLD, None)
    assert not history.release_hold(hold_id, at)


def test_holds_long_expired_are_forgotten_with_their_key(tmp_path: Path) -> None:
    now = [NOW]
    history = History(tmp_path / "history.db", lambda: now[0])
    history.add_hold(HOLD, "key")
    now[0] = HOLD.until + store.HOLD_KEPT + minutes(1)
    history.add_hold(replace(HOLD, id="h2", until=now[0] + minutes(5)), "other")
    late = replace(HOLD, id="h3", note="now free", until=now[0] + minutes(5))
    assert history.add_hold(late, "key") == late
    history.close()


def test_a_golden_answer_belongs_to_weights_and_prompt(history: History) -> None:
    history.set_golden("sha256:a", "hello", (1, 2, 3))
    history.set_golden("sha256:b", "hello", (4,))
    history.set_golden("sha256:b", "hello", (5,))
    assert history.goldens("hello")["sha256:a"] == (1, 2, 3)
    assert history.goldens("hello")["sha256:b"] == (5,)
    assert history.goldens("other").get("sha256:a") is None
    assert history.goldens("hello") == {"sha256:a": (1, 2, 3), "sha256:b": (5,)}
    assert history.goldens("other") == {}


def test_the_golden_answers_proven_longest_ago_are_forgotten(history: History) -> None:
    for number in range(GOLDENS_KEPT):
        history.set_golden(f"key-{number}", "hello", (number,))
    history.set_golden("key-0", "hello", (0,))
    history.set_golden("key-new", "hello", (1,))
    history.set_golden("key-1", "other", (2,))
    known = history.goldens("hello")
    assert len(known) == GOLDENS_KEPT
    assert "key-1" not in known, "the one proven longest ago"
    assert list(known)[-2:] == ["key-0", "key-new"]
    assert history.goldens("other") == {"key-1": (2,)}


def test_events_come_oldest_first_after_a_seq(history: History) -> None:
    reason = Reason(ReasonCode.REQUESTS, {"waiting": 1, "running": 0})
    first = history.add_event(NOW, CHAT, "floor", "floor 0 → 1", reason)
    second = history.add_event(NOW, None, "files", "read again", None)
    third = history.add_event(NOW, CHAT, "floor", "floor 1 → 0", None)
    assert (first, second, third) == (1, 2, 3)
    assert history.events(0, 1) == [RecordedEvent(1, NOW, CHAT, "floor", "floor 0 → 1", reason)]
    assert [event.seq for event in history.events(1, 10)] == [2, 3]
    assert history.events(1, 10)[0].service is None


def test_a_negative_seq_counts_events_from_the_end(history: History) -> None:
    assert history.events(-2, 10) == []
    for _ in range(5):
        history.add_event(NOW, CHAT, "floor", "", None)
    assert [event.seq for event in history.events(-2, 10)] == [4, 5]
    assert [event.seq for event in history.events(-9, 10)] == [1, 2, 3, 4, 5]


def test_only_the_newest_events_are_kept_and_no_seq_is_used_twice(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "EVENTS_KEPT", 2)
    for _ in range(4):
        history.add_event(NOW, CHAT, "floor", "", None)
    assert [event.seq for event in history.events(0, 10)] == [3, 4]
    with history._writing() as db:
        db.execute("DELETE FROM events")
    assert history.add_event(NOW, CHAT, "floor", "", None) == 5


def test_an_event_keeps_its_sentence_when_its_reason_is_unknown(history: History) -> None:
    history.add_event(NOW, CHAT, "floor", "nothing wants it", Reason(ReasonCode.NO_DEMAND))
    with history._writing() as db:
        db.execute("UPDATE events SET reason = replace(reason, 'no-demand', 'whim')")
    assert history.events(0, 1) == [RecordedEvent(1, NOW, CHAT, "floor", "nothing wants it", None)]


def test_a_naive_instant_is_refused(history: History) -> None:
    with pytest.raises(TypeError):
        history.add_event(datetime(2026, 11, 30), None, "floor", "", None)  # noqa: DTZ001 — the mistake under test
    assert history.events(0, 1) == []
