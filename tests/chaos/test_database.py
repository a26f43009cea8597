"""The history file: killed in the middle of a write, damaged in every way before an `up`, and while one runs."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from activator_ext.adapters.history import History
from tests.chaos.kit import ChaosUp, serves_again
from tests.chaos.rows import Row
from tests.serving import running, wait_for

WRITER = """
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from activator_ext.adapters.history import History
from activator_ext.core.model import Hold, LeadSample, ServiceId, StartKind

now = datetime.now(UTC)
chat = ServiceId("test", "chat")
history = History(Path(sys.argv[1]), lambda: now)
for number in range(10**6):
    history.add_hold(Hold(f"{sys.argv[2]}-{number}", chat, 1, created_at=now, until=now + timedelta(hours=1)), None)
    history.add_event(now, chat, "note", "x" * 2000, None)
    history.add_lead_sample(chat, LeadSample(StartKind.COLD_NODE, 1.0, now + timedelta(seconds=number)))
    print(f"{sys.argv[2]}-{number}", flush=True)
"""


@pytest.mark.parametrize("kills", [5, pytest.param(60, marks=pytest.mark.prove)])
def test_killed_in_the_middle_of_a_write(tmp_path: Path, chance: random.Random, row: Row, kills: int) -> None:
    """A process that writes all the time is killed at chance moments; each hold that it was told of is there."""
    path = tmp_path / "history.sqlite3"
    told: list[str] = []
    for number in range(kills):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(number)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        with writer.stdout:
            told += [writer.stdout.readline().decode().strip() for _ in range(chance.randint(1, 40))]
            # Not at the end of a write, where it has just been told, but a chance time into the next ones.
            with pytest.raises(subprocess.TimeoutExpired):
                writer.wait(chance.uniform(0.0001, 0.01))
            writer.kill()
            told += [line for line in writer.stdout.read().decode().split("\n")[:-1] if line]
        assert writer.wait(10) == -signal.SIGKILL
        with closing(History(path, lambda: datetime.now(UTC))) as history:
            assert history.notice is None, history.notice
            kept = {hold.id for hold in history.holds(datetime.now(UTC))}
        assert set(told) <= kept, f"lost: {sorted(set(told) - kept)[:5]}"
    row.tell(
        done=f"a writing process killed {kills} times",
        outcome="no acknowledged hold lost, no damage",
        figure=f"{len(told)} holds acknowledged, {len(told)} there",
    )


@pytest.mark.parametrize(
    ("point", "there"),
    [pytest.param("begin", False, id="before"), pytest.param("commit", True, id="after", marks=pytest.mark.prove)],
)
def test_up_killed_in_the_middle_of_a_hold(up: ChaosUp, row: Row, point: str, there: bool) -> None:
    """It was not acknowledged, so it may be there or not; asked again with its key, it is there once."""
    up.serve("chat")
    with running(up):
        serves_again(up)
        # What the start still has to record must not come to the point first.
        wait_for(lambda: starts(up)[0]["warmed_at"], within_s=60, saying="the start is over")
        up.shut(point)
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(hold, up)
            up.at(point)
            up.kill("controller")
            with pytest.raises(httpx.TransportError):
                asked.result()
        up.open(point)
        up.begin()
        assert (len(up.api("GET", "/v1/holds").json()) == 1) is there
        again = hold(up)
        assert again.status_code == 201, again.text
        assert [each["id"] for each in up.api("GET", "/v1/holds").json()] == [again.json()["id"]]
        serves_again(up)
    row.tell(
        done=f"up killed while it records a hold, {'after' if there else 'before'} the commit",
        outcome="not acknowledged; asked again with its key it is there once",
    )


def starts(up: ChaosUp) -> list[dict[str, Any]]:
    """Of `test/chat`, the newest first."""
    found: list[dict[str, Any]] = up.api("GET", "/v1/services/test/chat/starts").json()
    return found


def hold(up: ChaosUp) -> httpx.Response:
    """Ask for a hold under one key."""
    body = {"service": "test/chat", "for_s": 600}
    url, headers = up.address()
    return httpx.post(f"{url}/v1/holds", json=body, headers=headers | {"Idempotency-Key": "one"}, timeout=60)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def scribbled(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


def another_s(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")


def lacking(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE holds")


def log_scribbled(path: Path) -> None:
    path.with_name(path.name + "-wal").write_bytes(os.urandom(40_000))


def index_scribbled(path: Path) -> None:
    path.with_name(path.name + "-shm").write_bytes(os.urandom(32_768))


DAMAGE: tuple[tuple[Callable[[Path], None], str], ...] = (
    (emptied, "was empty and is begun anew"),
    (cut, "was damaged"),
    (scribbled, "was damaged"),
    (another_s, "no history of Pilotlight's"),
    (lacking, "holds is missing"),
    (log_scribbled, "-wal was damaged (its header is not that of a log)"),
    (index_scribbled, ""),
)


@pytest.mark.prove
def test_a_damaged_database(up: ChaosUp, row: Row) -> None:
    """Kept aside under a name, begun anew, said; and it serves."""
    up.serve("chat")
    database = up.state / "history.sqlite3"
    with running(up):
        serves_again(up)
        for damage, says in DAMAGE:
            assert up.end() == 0
            damage(database)
            before = {path.name for path in up.state.glob("*.damaged-*")}
            heard = len(up.said())
            up.begin()
            said = up.said()[heard:]
            aside = {path.name for path in up.state.glob("*.damaged-*")} - before
            if says:
                assert says in said
            if "begun anew" not in says and says:
                assert aside
                assert all(name in said for name in aside if not name.endswith(("-shm", "-wal")) or len(aside) == 1)
            serves_again(up)
            assert up.starts("chat")[0]["outcome"] == "ready"
    row.tell(
        done=", ".join(damage.__name__.replace("_", " ") for damage, _ in DAMAGE),
        outcome="kept aside and said where something was lost; begun anew; served",
        figure=f"{len(DAMAGE)} of {len(DAMAGE)}",
    )


@pytest.mark.prove
def test_a_database_damaged_while_up_runs(up: ChaosUp, row: Row) -> None:
    """Requests are served on, from what is in memory or without; the next up begins the file anew."""
    up.serve("chat", cost="1s")
    database = up.state / "history.sqlite3"
    with running(up):
        serves_again(up)
        with database.open("r+b") as file:
            file.write(os.urandom(database.stat().st_size))
        with database.with_name(database.name + "-wal").open("r+b") as file:
            file.truncate(0)
        up.wait_warmth("chat", "cold")
        serves_again(up)
        assert up.end() == 0
        up.begin()
        assert "moved to history.sqlite3.damaged-" in up.said()
        assert hold(up).status_code == 201
        serves_again(up)
    assert "Traceback" not in up.said()
    row.tell(done="the file overwritten while up runs", outcome="served on; the next up keeps it aside and begins anew")
