"""Which image may be used, which goes, what must not be in one: each reason by its case."""

import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runtime.contract import EngineSpec
from runtime.engine.snapshot.create import refusal
from runtime.engine.snapshot.criu import CRIU_ENV, NoCriuError, find_criu
from runtime.engine.snapshot.images import BadImageError, ImageInUseError, Images, held
from runtime.engine.snapshot.manifest import MadeFrom, SavedFile, SnapshotManifest, secrets_of
from runtime.engine.snapshot.saved_files import damaged, save_files
from runtime.engine.snapshot.sweep import going, sweep
from runtime.engine.snapshot.usable import Asked, Kept, why_not

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
HOST = {"machine": "m", "boot": "b", "kernel": "6.18", "processor": "p", "user": "0", "criu": "4.2.1", "vllm": "0.32.0"}
ENGINE = MadeFrom(service="a/b", served_names=("a/b",), platform="cpu", args=("--x=1",), env={"VLLM_A": "1"})
OURS = Kept(owner=0, mode=0o700, user=0)


def manifest(**changed: Any) -> SnapshotManifest:
    facts: dict[str, Any] = {
        "id": "one",
        "made_from": ENGINE,
        "model_digest": "d",
        "key": "k",
        "host": HOST,
        "created_at": NOW - timedelta(hours=1),
        "expires_at": NOW + timedelta(hours=1),
        "leader": 100,
        "highest_pid": 120,
        "output": "pipe:[7]",
        "prompt": "p",
        "golden_tokens": (1, 2),
        "stock_s": 30.0,
        "dump_s": 4.0,
        "files": {"images/pages-1.img": SavedFile(stamp="s", size_bytes=10, sha256="0" * 64)},
    }
    return SnapshotManifest(**{**facts, **changed})


def asked(**changed: Any) -> Asked:
    facts: dict[str, Any] = {"made_from": ENGINE, "model_digest": "d", "key": "k", "host": HOST, "now": NOW}
    return Asked(**{**facts, **changed})


def test_the_same_engine_on_the_same_host_in_time_is_taken() -> None:
    assert why_not(manifest(), OURS, asked()) is None


@pytest.mark.parametrize(
    ("made", "kept", "wanted", "why"),
    [
        ({}, Kept(1, 0o700, 0), {}, "belongs to user 1"),
        ({}, Kept(0, 0o750, 0), {}, "open to others"),
        ({}, Kept(0, 0o702, 0), {}, "open to others"),
        ({}, OURS, {"host": {**HOST, "machine": "n"}}, "on another machine"),
        ({}, OURS, {"host": {**HOST, "boot": "c"}}, "before this machine was booted"),
        ({}, OURS, {"host": {**HOST, "kernel": "6.19"}}, "under another kernel"),
        ({}, OURS, {"host": {**HOST, "processor": "q"}}, "on another processor"),
        ({}, OURS, {"host": {**HOST, "user": "7"}}, "by another user"),
        ({}, OURS, {"host": {**HOST, "criu": "4.3"}}, "criu 4.2.1, here is 4.3"),
        ({}, OURS, {"host": {**HOST, "vllm": "0.33.0"}}, "vllm 0.32.0, here is 0.33.0"),
        ({}, OURS, {"host": {**HOST, "torch": "3"}}, "torch None, here is 3"),
        ({"host": {**HOST, "boot": "unknown"}}, OURS, {"host": {**HOST, "boot": "unknown"}}, "does not tell its boot"),
        ({}, OURS, {"made_from": ENGINE.model_copy(update={"service": "z/b"})}, "it is of a/b"),
        ({}, OURS, {"made_from": ENGINE.model_copy(update={"platform": "cuda"})}, "it is for cpu"),
        ({}, OURS, {"made_from": ENGINE.model_copy(update={"args": ()})}, "other arguments"),
        ({}, OURS, {"made_from": ENGINE.model_copy(update={"served_names": ("c",)})}, "other names"),
        ({}, OURS, {"made_from": ENGINE.model_copy(update={"env": {"VLLM_A": "2"}})}, "another VLLM_A"),
        ({}, OURS, {"made_from": ENGINE.model_copy(update={"env": {"VLLM_A": "1", "OMP_X": "2"}})}, "another OMP_X"),
        ({}, OURS, {"model_digest": "e"}, "other weights"),
        ({}, OURS, {"model_digest": None}, "other weights"),
        ({}, OURS, {"key": "l"}, "another fingerprint"),
        ({}, OURS, {"key": None}, "another fingerprint"),
        ({}, OURS, {"now": NOW + timedelta(hours=1)}, "it expired at 2026-11-30T13:00:00"),
        ({}, OURS, {"now": NOW - timedelta(hours=2)}, "from the future"),
    ],
)
def test_each_reason_not_to(made: dict[str, Any], kept: Kept, wanted: dict[str, Any], why: str) -> None:
    told = why_not(manifest(**made), kept, asked(**wanted))
    assert told is not None
    assert why in told


def test_what_goes_and_why() -> None:
    other = ENGINE.model_copy(update={"service": "c/d"})
    third = ENGINE.model_copy(update={"service": "e/f"})
    rows = [
        ("newest", manifest()),
        ("half", None),
        ("older", manifest()),
        ("expired", manifest(expires_at=NOW)),
        ("booted", manifest(host={**HOST, "boot": "c"})),
        ("second", manifest(made_from=other)),
        ("third", manifest(made_from=third)),
    ]
    gone = {one.name: one.why for one in going(rows, HOST, NOW, 20)}
    assert list(gone) == ["half", "older", "expired", "booted", "third"]
    assert gone["older"] == "there is a newer one of the same engine"
    assert "20 bytes" in gone["third"]


def test_a_sweep_removes_what_goes_and_leaves_what_is_in_use(tmp_path: Path) -> None:
    images = Images(tmp_path / "images")
    used, half = images.place("used"), images.place("half")
    used.make()
    half.make()
    with held(used, alone=False):
        assert [one.name for one in sweep(images, HOST, NOW, 100)] == ["half"]
        with pytest.raises(ImageInUseError, match="used is in use"):
            images.remove(used)
    assert [one.name for one in sweep(images, HOST, NOW, 100)] == ["used"]
    assert images.places() == ()


def test_a_manifest_is_read_as_it_was_written_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    place = Images(tmp_path / "images").place("one")
    place.make()
    with pytest.raises(BadImageError, match="unfinished"):
        place.read()
    place.write(manifest())
    assert place.read() == manifest()
    assert stat.S_IMODE(place.manifest.stat().st_mode) == 0o600
    place.manifest.write_text(place.manifest.read_text().replace('"leader": 100', '"leader": "x"'))
    with pytest.raises(BadImageError, match="leader"):
        place.read()
    place.manifest.write_text("{")
    with pytest.raises(BadImageError, match="not JSON"):
        place.read()


@pytest.mark.parametrize("name", ["", ".", "../x", "a/b"])
def test_no_path_is_the_id_of_an_image(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadImageError):
        Images(tmp_path).place(name)


def test_a_touched_file_is_read_again_and_a_written_one_is_found(tmp_path: Path) -> None:
    place = Images(tmp_path / "images").place("one")
    place.make()
    file = place.images / "pages-1.img"
    file.write_bytes(b"memory")
    saved = save_files(place)
    assert damaged(place, saved) is None
    os.utime(file)
    assert damaged(place, saved) is None, "the same bytes"
    file.write_bytes(b"memorx")
    assert damaged(place, saved) == "images/pages-1.img is damaged"
    file.write_bytes(b"mem")
    assert damaged(place, saved) == "images/pages-1.img has 3 bytes, it had 6"
    file.unlink()
    told = damaged(place, saved)
    assert told is not None
    assert told.startswith("images/pages-1.img: ")


def test_credentials_are_told_by_name() -> None:
    spec = EngineSpec(service="a/b", served_names=("a/b",), model="/m", args=("--hf-token=x", "--tokenizer=y"))
    environ = {
        "HF_TOKEN": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "HTTPS_PROXY": "http://user:word@proxy:1",
        "TOKENIZERS_PARALLELISM": "true",
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }
    assert secrets_of(spec, environ) == ("--hf-token", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "HTTPS_PROXY")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"env": {"HF_TOKEN": "x"}}, "remove HF_TOKEN"),
        ({"platform": "cuda"}, "vLLM's own snapshots"),
        ({"args": ("--allowed-media-domains=a",)}, "reaches no network"),
    ],
)
def test_what_no_image_is_made_of(changed: dict[str, Any], why: str) -> None:
    told = refusal(EngineSpec(**{"service": "a/b", "served_names": ("a/b",), "model": "/m", **changed}))
    assert told is not None
    assert why in told


def test_without_a_usable_criu_the_error_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoCriuError, match=r"install CRIU 4.0 or newer.*PILOTLIGHT_CRIU"):
        find_criu({CRIU_ENV: str(tmp_path / "none")})
    program = tmp_path / "criu"
    program.write_text("#!/bin/sh\necho Version: 3.17.1\n")
    program.chmod(0o755)
    monkeypatch.setattr("runtime.engine.snapshot.criu._privileged", lambda: True)
    with pytest.raises(NoCriuError, match=r"CRIU 3.17.1: 4.0 or newer"):
        find_criu({CRIU_ENV: str(program)})
    program.write_text("#!/bin/sh\necho Version: 4.2.1\n")
    assert find_criu({CRIU_ENV: str(program)}).version == "4.2.1"
    monkeypatch.setattr("runtime.engine.snapshot.criu._privileged", lambda: False)
    with pytest.raises(NoCriuError, match="CAP_SYS_ADMIN and CAP_CHECKPOINT_RESTORE"):
        find_criu({CRIU_ENV: str(program)})
