import json
import os
import threading
from pathlib import Path

import pytest

from runtime.weights.digest import DigestCache, hash_directory
from tests.fakes.model import make_model

GO = threading.Event()


def digest(model: Path, cache: Path | None = None) -> str:
    return hash_directory(model, DigestCache(cache or model.parent / "digests.json"), GO).digest


def test_content_and_names_decide(tmp_path: Path) -> None:
    one, same, other = (make_model(tmp_path / name, seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1)))
    assert digest(one) == digest(same) != digest(other)
    (same / "config.json").rename(same / "config2.json")
    assert digest(same) != digest(one)


def test_hidden_files_do_not_count(tmp_path: Path) -> None:
    model = make_model(tmp_path / "m")
    before = digest(model)
    (model / ".git").mkdir()
    (model / ".git" / "x").write_text("x")
    (model / ".hidden").write_text("x")
    assert digest(model) == before
    (model / "sub").mkdir()
    (model / "sub" / "x").write_text("x")
    assert digest(model) != before


def test_an_unchanged_file_is_not_read_again(tmp_path: Path) -> None:
    model = make_model(tmp_path / "m")
    before = digest(model)
    cache = tmp_path / "digests.json"
    known = json.loads(cache.read_text())
    weights = str((model / "model.safetensors").resolve())
    known[weights][3] = "remembered"
    cache.write_text(json.dumps(known))
    assert digest(model) != before
    os.utime(weights, ns=(1, 1))
    assert digest(model) == before


@pytest.mark.parametrize("text", ["", "{", "[]", '{"x": 1}'])
def test_a_broken_cache_counts_as_empty(tmp_path: Path, text: str) -> None:
    model = make_model(tmp_path / "m")
    before = digest(model)
    (tmp_path / "broken.json").write_text(text)
    assert digest(model, tmp_path / "broken.json") == before


def test_entries_of_another_process_are_kept(tmp_path: Path) -> None:
    model = make_model(tmp_path / "m")
    cache = tmp_path / "digests.json"
    mine = DigestCache(cache)
    cache.write_text('{"theirs": [1, 2, 3, "x"]}')
    hash_directory(model, mine, GO)
    assert {"theirs", str((model / "config.json").resolve())} <= set(json.loads(cache.read_text()))
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_hashing_stops_when_told(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(InterruptedError):
        hash_directory(make_model(tmp_path / "m"), DigestCache(tmp_path / "digests.json"), stop)
