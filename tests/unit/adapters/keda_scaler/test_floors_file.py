"""A file of floors: what it may hold, what it is told when it does not, and edits while it is followed."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from activator_ext.adapters.keda_scaler.floors import Floors, KnownFloor, Unknown
from activator_ext.adapters.keda_scaler.floors_file import BadFloors, FloorsFile, parse
from activator_ext.core.model import ServiceId

CHAT, EMBED = ServiceId("team-a", "chat"), ServiceId("team-a", "embed")


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_what_a_file_says(tmp_path: Path) -> None:
    text = "floors:\n  team-a/chat: 2\n  team-a/embed: {replicas: 1, until: 2026-12-01T18:00:00+01:00}\n"

    assert parse(written(tmp_path / "floors.yaml", text)) == {
        CHAT: KnownFloor(2),
        EMBED: KnownFloor(1, datetime(2026, 12, 1, 17, tzinfo=UTC)),
    }


@pytest.mark.parametrize("until", ["'2026-12-01T18:00:00+01:00'", "2026-12-01T17:00:00Z", "2026-12-01 18:00:00 +01:00"])
def test_instants_as_people_write_them(tmp_path: Path, until: str) -> None:
    file = written(tmp_path / "f.yaml", f"floors: {{team-a/chat: {{replicas: 1, until: {until}}}}}")

    assert parse(file) == {CHAT: KnownFloor(1, datetime(2026, 12, 1, 17, tzinfo=UTC))}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "write one key `floors`"),
        ("team-a/chat: 1", "write one key `floors`"),
        ("floors: [1]", "write one key `floors`"),
        ("floors: {chat: 1}", "'chat' is no service: write NAMESPACE/NAME"),
        ("floors: {a/b/c: 1}", "'a/b/c' is not a service"),
        ("floors: {team-a/chat: -1}", "replicas -1 is no whole number"),
        ("floors: {team-a/chat: true}", "replicas True is no whole number"),
        ("floors: {team-a/chat: 1.5}", "replicas 1.5 is no whole number"),
        ("floors: {team-a/chat: 100001}", "replicas 100001 is no whole number"),
        ("floors: {team-a/chat: }", "replicas None is no whole number"),
        ("floors: {team-a/chat: {replicas: 1, untill: x}}", "unknown key 'untill'"),
        ("floors: {team-a/chat: {replicas: 1, until: 2026-12-01}}", "no instant with a zone"),
        ("floors: {team-a/chat: {replicas: 1, until: 2026-12-01T18:00:00}}", "no instant with a zone"),
        ("floors: {team-a/chat: {replicas: 1, until: soon}}", "no instant with a zone"),
        ("floors:\n  team-a/chat: 1\n  team-a/chat: 0\n", "line 3: 'team-a/chat' stands there twice"),
        ("floors: {[1]: 2}", "line 1: a key is plain text"),
        ("floors: {", "is no YAML"),
        ("floors: {team-a/chat: {replicas: 1, until: 2026-13-01T18:00:00Z}}", "f.yaml"),
        ("[" * 3000, "is no YAML"),
    ],
)
def test_what_a_file_may_not_say(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadFloors) as refused:
        parse(written(tmp_path / "f.yaml", text))

    assert str(refused.value).startswith(str(tmp_path / "f.yaml"))
    assert told in str(refused.value)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(BadFloors, match=r"No such file or directory.*--floors"):
        parse(tmp_path / "none.yaml")


async def test_edits_are_followed_and_bad_ones_change_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "floors.yaml", "floors: {team-a/chat: 0}")
    floors, said = Floors(lambda: datetime(2026, 12, 1, tzinfo=UTC)), asyncio.Queue[str]()
    file = FloorsFile(path, floors, said.put_nowait)
    file.read()
    following = asyncio.create_task(file.follow())
    async with asyncio.timeout(60):
        path.write_text("floors: {team-a/chat: 1}")
        while floors.of(CHAT) == 0:  # noqa: ASYNC110 — a file tells no event
            await asyncio.sleep(0.01)
        path.write_text("floors: {team-a/chat: many}")
        while "the floors read before stay" not in await said.get():
            pass
        assert floors.of(CHAT) == 1
        path.write_text("floors: {}")
        while not isinstance(floors.of(CHAT), Unknown):  # noqa: ASYNC110 — as above
            await asyncio.sleep(0.01)
    following.cancel()
