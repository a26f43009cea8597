"""What starts have shown, kept in one file that may be lost."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from runtime.cache.experience import Experience
from runtime.cache.following import Known
from runtime.cache.roots import Root
from runtime.cache.start_cache import StartCache
from runtime.contract import CacheUse, Verdict

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
CHAT = "test/chat"


def test_what_was_learned_is_known_to_the_next_process(tmp_path: Path) -> None:
    file = tmp_path / "x" / "experience.json"
    assert Experience(file).known(CHAT) == Known()
    Experience(file).took(CHAT, 30.8, compiled=True, whole_s=52.0)
    assert Experience(file).known(CHAT) == Known(30.8, 52.0)
    Experience(file).took(CHAT, 2.8, compiled=False)
    assert Experience(file).known(CHAT) == Known(28.0, 52.0)
    assert Experience(file).known("test/other") == Known()
    for seconds in (40.0, 40.0, 20.0, 400.0, 40.0):  # the newest five, of which one was slow
        Experience(file).took(CHAT, seconds, compiled=True)
    assert Experience(file).known(CHAT).saves_s == pytest.approx(37.2)


def test_with_it_is_never_dearer_than_without(tmp_path: Path) -> None:
    seen = Experience(tmp_path / "e.json")
    seen.took(CHAT, 5.0, compiled=True)
    seen.took(CHAT, 9.0, compiled=False)
    assert seen.known(CHAT).saves_s == 0.0


def test_kv_cache_of_an_engine(tmp_path: Path) -> None:
    seen = Experience(tmp_path / "e.json")
    assert seen.kv_tokens(CHAT, "a") is None
    seen.got_kv_tokens(CHAT, "a", 800_000)
    seen.took(CHAT, 5.0, compiled=True)
    assert seen.kv_tokens(CHAT, "a") == 800_000
    for number in range(8):
        seen.got_kv_tokens(CHAT, str(number), number)
    assert seen.kv_tokens(CHAT, "a") is None, "eight are kept"
    assert seen.kv_tokens(CHAT, "7") == 7


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"services": {"test/chat": {"compiled_s": ["x"]}}}', b"x" * 2**21]
)
def test_a_damaged_file_counts_as_none(tmp_path: Path, damage: bytes) -> None:
    file = tmp_path / "e.json"
    file.write_bytes(damage)
    seen = Experience(file)
    assert seen.known(CHAT) == Known()
    seen.took(CHAT, 5.0, compiled=True)
    assert seen.known(CHAT) == Known(5.0)


def test_a_file_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "e.json").mkdir()
    Experience(tmp_path / "e.json").took(CHAT, 5.0, compiled=True)
    assert Experience(tmp_path / "e.json").known(CHAT) == Known()


def test_services_are_bounded(tmp_path: Path) -> None:
    seen = Experience(tmp_path / "e.json")
    for number in range(258):
        seen.took(f"test/{number}", 1.0, compiled=True)
    assert seen.known("test/1") == Known()
    assert seen.known("test/2") == Known(1.0)


@pytest.mark.parametrize(
    ("verdict", "artifacts", "compile_s", "known"),
    [
        (Verdict.ABSENT, True, 30.0, Known(30.0, 42.0)),
        (Verdict.RECOMPILED, True, 30.0, Known(30.0, 42.0)),
        (Verdict.QUARANTINED, True, 30.0, Known(30.0, 42.0)),
        (Verdict.USED, True, 2.0, Known()),  # tells what a start with it takes, no more
        (Verdict.PARTLY, True, 9.0, Known()),
        (Verdict.ABSENT, False, None, Known(0.0, 42.0)),  # eager: nothing is saved
        (Verdict.ABSENT, False, 1.0, Known(0.0, 42.0)),
        (Verdict.ABSENT, True, None, Known()),  # its stage was not seen
        (None, True, 30.0, Known()),
    ],
)
def test_what_a_start_teaches(
    tmp_path: Path, verdict: Verdict | None, artifacts: bool, compile_s: float | None, known: Known
) -> None:
    root = Root(tmp_path / "r", "4f" * 32)
    cache = StartCache(root, CacheUse(verdict=verdict), tmp_path / "s", service=CHAT, engine="e")
    cache.line("(EngineCore pid=9) INFO 11-29 21:08:43 [kv_cache_utils.py:2327] GPU KV cache size: 800,000 tokens, Max")
    if artifacts:
        cache._evidence.after = frozenset({"triton_cache/x"})
    cache.turns.begun_at = NOON
    seen = Experience(tmp_path / "e.json")
    seen.learn(cache, compile_s, NOON + timedelta(seconds=42))
    assert seen.known(CHAT) == known
    assert seen.kv_tokens(CHAT, "e") == (800_000 if verdict is Verdict.USED else None)
