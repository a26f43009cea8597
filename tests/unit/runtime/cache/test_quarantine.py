"""What a host holds against a bundle, and for how long."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from runtime.cache.blame import SOON_S, Blame, judge_failure, judge_recompiled
from runtime.cache.quarantine import Quarantine
from runtime.contract import Failure, FailureCause

NOW = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)
A, B = "a" * 64, "b" * 64


def test_what_was_put_aside_is_held_until_its_expiry(tmp_path: Path) -> None:
    held = Quarantine(tmp_path / "state/quarantine.json", expiry=timedelta(days=1))
    assert held.holds(A, NOW) is None
    held.add(A, "SIGSEGV soon after it was restored", NOW)
    again = Quarantine(tmp_path / "state/quarantine.json", expiry=timedelta(days=1))
    found = again.holds(A, NOW + timedelta(hours=23))
    assert found is not None
    assert (found.why, found.at) == ("SIGSEGV soon after it was restored", NOW)
    assert again.holds(B, NOW) is None
    assert again.holds(A, NOW + timedelta(days=1)) is None
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["quarantine.json"]


def test_a_clock_that_was_set_back_does_not_hold_for_ever(tmp_path: Path) -> None:
    held = Quarantine(tmp_path / "q.json", expiry=timedelta(days=1))
    held.add(A, "x", NOW + timedelta(days=400))
    held.add(B, "x", NOW)
    assert held.holds(A, NOW) is None
    assert [row.digest for row in held.rows(NOW)] == [B]


def test_again_is_one_record_with_the_newer_time(tmp_path: Path) -> None:
    held = Quarantine(tmp_path / "q.json")
    held.add(A, "first", NOW)
    held.add(B, "other", NOW + timedelta(hours=1))
    held.add(A, "second", NOW + timedelta(hours=2))
    assert [(row.digest, row.why) for row in held.rows(NOW)] == [(B, "other"), (A, "second")]


def test_its_size_is_bounded_by_leaving_the_oldest(tmp_path: Path) -> None:
    held = Quarantine(tmp_path / "q.json", most=3)
    digests = [f"{at:064x}" for at in range(5)]
    for at, digest in enumerate(digests):
        held.add(digest, "x" * 100_000, NOW + timedelta(seconds=at))
    assert [row.digest for row in held.rows(NOW)] == digests[2:]
    assert (tmp_path / "q.json").stat().st_size < 5000


def test_several_at_once_lose_nothing(tmp_path: Path) -> None:
    digests = [f"{at:064x}" for at in range(24)]
    with ThreadPoolExecutor(8) as pool:
        for end in [pool.submit(Quarantine(tmp_path / "q.json").add, digest, "x", NOW) for digest in digests]:
            end.result()
    assert {row.digest for row in Quarantine(tmp_path / "q.json").rows(NOW)} == set(digests)


def test_release(tmp_path: Path) -> None:
    held = Quarantine(tmp_path / "q.json")
    held.add(A, "x", NOW)
    assert (held.release(B), held.release(A), held.release(A)) == (False, True, False)
    assert held.rows(NOW) == ()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"null",
        b'{"quarantined": [{"digest": "a"}]}',
        b'{"quarantined": [{"digest": "../../x", "why": "", "at": "2026-11-30T09:00:00Z"}]}',
        b'{"quarantined": [{"digest": "' + b"a" * 64 + b'", "why": "", "at": "2026-11-30T09:00:00"}]}',
        b"\xff\xfe",
        b" " * 2**21,
    ],
)
def test_damage_counts_as_empty_and_is_said(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "q.json"
    file.write_bytes(content)
    held = Quarantine(file)
    assert held.rows(NOW) == ()
    assert str(file) in (held.damage or "")
    held.add(A, "x", NOW)
    assert held.damage is None
    assert held.holds(A, NOW)


def test_a_record_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    held = Quarantine(tmp_path)
    assert held.holds(A, NOW) is None
    assert "cannot be read" in (held.damage or "")
    with pytest.raises(OSError, match="directory"):
        held.add(A, "x", NOW)


def test_a_newer_field_is_no_damage(tmp_path: Path) -> None:
    file = tmp_path / "q.json"
    held = Quarantine(file)
    held.add(A, "x", NOW)
    stored = json.loads(file.read_text())
    stored["more"] = stored["quarantined"][0]["more"] = 1
    file.write_text(json.dumps(stored))
    assert held.holds(A, NOW)


C = FailureCause


@pytest.mark.parametrize(
    ("cause", "numbers", "seconds", "before", "blame"),
    [
        # The bundle's doing, or likely enough at once.
        (C.KILLED, {"signal": "SIGSEGV", "stage": "compile"}, 30, 0, Blame.QUARANTINE),
        (C.KILLED, {"signal": "SIGILL", "stage": "golden_prompt"}, 40, 0, Blame.QUARANTINE),
        (C.KILLED, {"signal": "SIGABRT", "stage": "imports_core"}, 12, 0, Blame.QUARANTINE),
        (C.EXITED, {"exit_code": 1, "stage": "compile"}, 30, 0, Blame.QUARANTINE),
        (C.EXITED, {"exit_code": 1, "stage": "graph_capture"}, 60, 0, Blame.QUARANTINE),
        (C.STUCK, {"stage": "compile"}, 300, 0, Blame.QUARANTINE),
        (C.GOLDEN_FAILED, {}, 40, 0, Blame.QUARANTINE),
        (C.GOLDEN_WRONG, {}, 40, 0, Blame.QUARANTINE),
        (C.DIED_AFTER_READY, {"how": "killed", "signal": "SIGSEGV"}, 90, 0, Blame.QUARANTINE),
        # Perhaps; a second time in a row it counts.
        (C.EXITED, {"exit_code": 1, "stage": "imports_core"}, 12, 0, Blame.NONE),
        (C.EXITED, {"exit_code": 1, "stage": "imports_core"}, 12, 1, Blame.QUARANTINE),
        (C.EXITED, {"exit_code": 1}, 12, 0, Blame.NONE),
        (C.STUCK, {"stage": "weight_load"}, 300, 0, Blame.NONE),
        (C.STUCK, {"stage": "weight_load"}, 300, 1, Blame.QUARANTINE),
        (C.START_TIMEOUT, {"stage": "compile"}, 800, 0, Blame.NONE),
        (C.START_TIMEOUT, {"stage": "compile"}, 800, 1, Blame.QUARANTINE),
        (C.FROZEN, {}, 90, 0, Blame.NONE),
        (C.FROZEN, {}, 90, 1, Blame.QUARANTINE),
        (C.DIED_AFTER_READY, {"how": "exited", "exit_code": 1}, 90, 0, Blame.NONE),
        # Too late to be the first use.
        (C.DIED_AFTER_READY, {"how": "killed", "signal": "SIGSEGV"}, SOON_S + 1, 5, Blame.NONE),
        (C.FROZEN, {}, SOON_S + 1, 5, Blame.NONE),
        # Sent by somebody.
        (C.KILLED, {"signal": "SIGKILL", "stage": "compile"}, 30, 5, Blame.NONE),
        (C.KILLED, {"signal": "SIGTERM", "stage": "compile"}, 30, 5, Blame.NONE),
        (C.DIED_AFTER_READY, {"how": "killed", "signal": "SIGKILL"}, 90, 5, Blame.NONE),
        # Known to come of something else, however often.
        (C.DIED_AFTER_READY, {"how": "no-memory"}, 90, 5, Blame.NONE),
        (C.NO_MEMORY, {"stage": "compile"}, 30, 5, Blame.NONE),
        (C.NO_MEMORY, {"signal": "SIGKILL", "oom_kills": 1, "stage": "compile"}, 30, 5, Blame.NONE),
        (C.BAD_ARGUMENTS, {"exit_code": 2, "stage": "configuration"}, 10, 5, Blame.NONE),
        (C.MODEL_MISSING, {}, 0, 5, Blame.NONE),
        (C.MODEL_INCOMPLETE, {}, 0, 5, Blame.NONE),
        (C.UNSUPPORTED_MODEL, {"stage": "configuration"}, 10, 5, Blame.NONE),
        (C.SPAWN_FAILED, {}, 0, 5, Blame.NONE),
        (C.PORT_TAKEN, {"stage": "server"}, 30, 5, Blame.NONE),
        (C.NO_COMPILER, {"stage": "compile"}, 30, 5, Blame.NONE),
        (C.NOT_SERVED, {}, 40, 5, Blame.NONE),
        (C.HOST_LOST, {}, 40, 5, Blame.NONE),
        # Of the pod: its engine may not even have begun.
        (C.UNSCHEDULABLE, {}, 0, 5, Blame.NONE),
        (C.IMAGE_PULL, {}, 0, 5, Blame.NONE),
        (C.POD_REFUSED, {}, 0, 5, Blame.NONE),
        (C.POD_CONFIG, {}, 0, 5, Blame.NONE),
        (C.INIT_FAILED, {}, 0, 5, Blame.NONE),
        (C.PROBE_FAILED, {"exit_code": 137}, 40, 5, Blame.NONE),
        (C.EVICTED, {}, 40, 5, Blame.NONE),
        (C.NODE_LOST, {}, 40, 5, Blame.NONE),
        (C.PROGRESS_DEADLINE, {}, 600, 5, Blame.NONE),
    ],
)
def test_who_is_to_blame(cause: C, numbers: dict[str, float | str], seconds: float, before: int, blame: Blame) -> None:
    failure = Failure(cause=cause, message="", at=NOW, numbers=numbers)
    judged = judge_failure(A, failure, seconds, before)
    assert judged.blame is blame, judged.why
    assert judge_failure(None, failure, seconds, before).blame is Blame.NONE


def test_every_cause_is_judged_above() -> None:
    """A new cause must be thought about: the second time in a row it would put bundles aside."""
    rows = next(mark for mark in test_who_is_to_blame.pytestmark if mark.name == "parametrize").args[1]  # type: ignore[attr-defined]  # pytest's
    assert {row[0] for row in rows} == set(FailureCause)


def test_recompiled_again_is_a_finding_and_no_quarantine() -> None:
    assert [judge_recompiled(times).blame for times in (0, 1, 2, 3)] == [
        Blame.NONE,
        Blame.NONE,
        Blame.FINDING,
        Blame.FINDING,
    ]
