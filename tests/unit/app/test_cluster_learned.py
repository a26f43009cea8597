"""What a cluster's starts teach: each once, from when a floor was asked for; also what an earlier process learned."""

from datetime import timedelta
from pathlib import Path

from activator_ext.adapters.history import History
from activator_ext.app.cluster.learned import Learned
from activator_ext.core.model import ServiceId, StartKind
from tests.unit.app.fakes import NOW, failed_start, ready_start

CHAT = ServiceId("team-a", "chat")
LATER = NOW + timedelta(hours=1)


def learned(path: Path) -> Learned:
    return Learned(History(path / "h.sqlite3", lambda: NOW))


def test_a_start_teaches_once(tmp_path: Path) -> None:
    known = learned(tmp_path)
    assert known.last_kind(CHAT) is StartKind.COLD_NODE
    assert known.learn(CHAT, [ready_start()], LATER) == (ready_start(),)
    assert known.learn(CHAT, [ready_start()], LATER) == ()
    (sample,) = known.samples(CHAT)
    assert (sample.lead_s, sample.kind) == (20.0, StartKind.CACHED_NODE)
    assert known.last_kind(CHAT) is StartKind.CACHED_NODE


def test_failed_tries_before_it_count_as_waiting(tmp_path: Path) -> None:
    known = learned(tmp_path)
    assert known.asked(CHAT, NOW - timedelta(seconds=40)) == NOW - timedelta(seconds=40)
    assert known.asked(CHAT, NOW) == NOW - timedelta(seconds=40), "since when it has been asked for"
    assert known.learn(CHAT, [failed_start()], LATER) == (failed_start(),)
    assert known.samples(CHAT) == ()
    known.learn(CHAT, [ready_start()], LATER)
    (sample,) = known.samples(CHAT)
    assert sample.lead_s == 60.0


def test_what_is_wanted_no_more_is_not_waited_for(tmp_path: Path) -> None:
    known = learned(tmp_path)
    known.asked(CHAT, NOW - timedelta(hours=3))
    assert known.asked(CHAT, None) is None
    known.learn(CHAT, [ready_start()], LATER)
    assert [sample.lead_s for sample in known.samples(CHAT)] == [20.0]


def test_one_that_is_under_way_or_has_only_just_ended_teaches_nothing_yet(tmp_path: Path) -> None:
    known = learned(tmp_path)
    under_way = ready_start().model_copy(update={"outcome": None})
    assert known.learn(CHAT, [under_way], LATER) == ()
    failed = failed_start()
    assert failed.failure is not None
    assert known.learn(CHAT, [failed], failed.failure.at) == ()
    assert known.learn(CHAT, [failed], LATER) == (failed,)


def test_the_next_process_knows_what_this_one_learned(tmp_path: Path) -> None:
    learned(tmp_path).learn(CHAT, [ready_start()], LATER)
    after = learned(tmp_path)
    assert [sample.lead_s for sample in after.samples(CHAT)] == [20.0]
    assert after.learn(CHAT, [ready_start()], LATER) == (), "its record is there"


def test_a_service_that_is_gone_is_forgotten_and_its_history_stays(tmp_path: Path) -> None:
    known = learned(tmp_path)
    known.learn(CHAT, [ready_start()], LATER)
    known.forget(CHAT)
    assert [sample.lead_s for sample in known.samples(CHAT)] == [20.0]
