import json
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runtime.weights.winners import Measured, Winners, node_name

AT = datetime(2026, 11, 30, tzinfo=UTC)


def measured(versions: str = "v1", *, cold: bool = True, **seconds: tuple[float, ...]) -> Measured:
    return Measured(at=AT, versions=versions, cold=cold, bytes=100, seconds=seconds)


@pytest.fixture
def winners(tmp_path: Path) -> Winners:
    return Winners(tmp_path / "state" / "loaders.json")


def test_the_fastest_comes_first(winners: Winners) -> None:
    winners.remember("n", "m", measured(lazy=(5.0, 1.0, 3.0), eager=(2.0, 2.5)))
    assert list(winners.recall("n", "m", "v1", cold=True).items()) == [("eager", 2.25), ("lazy", 3.0)]


def test_each_node_model_version_and_cache_state_has_its_own(winners: Winners) -> None:
    winners.remember("n", "m", measured(lazy=(1.0,)))
    winners.remember("n", "m", measured(cold=False, lazy=(0.1,)))
    assert winners.recall("n", "m", "v1", cold=False) == {"lazy": 0.1}
    assert winners.recall("n", "m", "v1", cold=True) == {"lazy": 1.0}
    assert winners.recall("n2", "m", "v1", cold=True) == {}
    assert winners.recall("n", "m2", "v1", cold=True) == {}
    assert winners.recall("n", "m", "v2", cold=True) == {}


def test_a_second_bench_adds_and_replaces(winners: Winners) -> None:
    winners.remember("n", "m", measured(lazy=(1.0,), eager=(2.0,)))
    winners.remember("n", "m", measured(lazy=(3.0,)))
    assert winners.recall("n", "m", "v1", cold=True) == {"eager": 2.0, "lazy": 3.0}
    winners.remember("n", "m", measured("v2", lazy=(4.0,)))
    assert winners.recall("n", "m", "v2", cold=True) == {"lazy": 4.0}, "another version is another loader"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        '{"format": "other", "measured": {"n cold m": {}}}',
        '{"format": "pilotlight-loaders/1", "measured": []}',
        '{"format": "pilotlight-loaders/1", "measured": {"n cold m": 7}}',
        '{"format": "pilotlight-loaders/1", "measured": {"n cold m": {"at": "x", "versions": "v1", "seconds": {}}}}',
        '{"format": "pilotlight-loaders/1", "measured": {"n cold m": {"at": "2026-01-01", "versions": "v1", "bytes": 1,'
        ' "seconds": {"lazy": ["x"]}}}}',
    ],
)
def test_rubbish_counts_as_nothing_measured_and_is_replaced(tmp_path: Path, text: str) -> None:
    path = tmp_path / "loaders.json"
    path.write_text(text)
    winners = Winners(path)
    assert winners.recall("n", "m", "v1", cold=True) == {}
    winners.remember("n", "m", measured(lazy=(1.0,)))
    assert winners.recall("n", "m", "v1", cold=True) == {"lazy": 1.0}


def test_many_writers_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "loaders.json"
    writers = [
        threading.Thread(target=lambda n=n: Winners(path).remember(f"n{n}", "m", measured(lazy=(float(n),))))
        for n in range(20)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(json.loads(path.read_text())["measured"]) == 20
    assert sorted(p.name for p in tmp_path.iterdir()) == [".loaders.json.lock", "loaders.json"]


def test_what_this_machine_is_called(tmp_path: Path) -> None:
    (tmp_path / "id").write_text("abc\n")
    assert node_name({"NODE_NAME": "gpu-7"}, tmp_path / "id") == "gpu-7"
    assert node_name({}, tmp_path / "id") == "abc"
    assert node_name({}, tmp_path / "none") != ""
