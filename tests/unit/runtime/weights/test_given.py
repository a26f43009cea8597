import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from runtime.weights.given import LIST_NAME, BadListError, Given, given_digests, is_list, write_list

A, B = "a" * 64, "B" * 64


def lists(directory: Path, **files: str) -> Path:
    for name, text in files.items():
        (directory / name.replace("__", ".")).write_text(text)
    return directory


def names(directory: Path) -> dict[str, list[str]]:
    return {name: [given.sha256 for given in each] for name, each in given_digests(directory).files.items()}


@pytest.mark.parametrize(
    ("line", "name"),
    [
        pytest.param(f"{A}  model.safetensors", "model.safetensors", id="text"),
        pytest.param(f"{A} *model.safetensors", "model.safetensors", id="binary"),
        pytest.param(f"{A}  ./sub/x y.bin", "sub/x y.bin", id="dot and space"),
        pytest.param(f"\\{A}  a\\nb\\\\c", "a\nb\\c", id="escaped"),
        pytest.param(f"SHA256 (m (1).bin) = {A}", "m (1).bin", id="BSD"),
        pytest.param(f"# made by us\n\n{A.upper()}  x", "x", id="comment, upper case"),
    ],
)
def test_lines_of_sha256sum(tmp_path: Path, line: str, name: str) -> None:
    assert names(lists(tmp_path, SHA256SUMS=line + "\n")) == {name: [A]}


def test_one_bare_digest_beside_a_file(tmp_path: Path) -> None:
    assert names(lists(tmp_path, model__safetensors__sha256=B + "\n")) == {"model.safetensors": [B.lower()]}


@pytest.mark.parametrize(
    "line", ["hello", f"{A[:-1]}  x", f"{A}x  y", A, f"{A}  ../x", f"{A}  /etc/passwd", f"{A}  a/../../b"]
)
def test_a_line_that_is_none(tmp_path: Path, line: str) -> None:
    with pytest.raises(BadListError) as caught:
        given_digests(lists(tmp_path, SHA256SUMS=line))
    assert caught.value.path == tmp_path / "SHA256SUMS"


def test_two_lists_both_count(tmp_path: Path) -> None:
    assert names(lists(tmp_path, SHA256SUMS=f"{A}  x", x__sha256=B)) == {"x": [A, B.lower()]}


def test_our_list_comes_back_as_written(tmp_path: Path) -> None:
    write_list(tmp_path, {"b": (A, 2), "sub/a": (B.lower(), 1)}, {"made_from": "here"})
    given = given_digests(tmp_path)
    assert given.ours
    assert given.files == {"b": (Given(A, 2, LIST_NAME),), "sub/a": (Given(B.lower(), 1, LIST_NAME),)}


WHOLE = {"format": "pilotlight-digests/1", "files": {"x": {"sha256": A, "size_bytes": 1}}}


@pytest.mark.parametrize(
    "change",
    [
        {"format": "pilotlight-digests/2"},
        {"files": {}},
        {"files": []},
        {"files": {"x": None}},
        {"files": {"x": {"sha256": A}}},
        {"files": {"x": {"sha256": A, "size_bytes": -1}}},
        {"files": {"x": {"sha256": A, "size_bytes": True}}},
        {"files": {"x": {"sha256": B, "size_bytes": 1}}},
        {"files": {"../x": {"sha256": A, "size_bytes": 1}}},
        {"files": {"": {"sha256": A, "size_bytes": 1}}},
    ],
)
def test_our_list_is_read_strictly(tmp_path: Path, change: dict[str, Any]) -> None:
    (tmp_path / LIST_NAME).write_text(json.dumps(WHOLE))
    assert len(given_digests(tmp_path).files) == 1
    (tmp_path / LIST_NAME).write_text(json.dumps(WHOLE | change))
    with pytest.raises(BadListError):
        given_digests(tmp_path)


@pytest.mark.parametrize("data", [b"", b"{", b"[" * 100_000, b"\xff\xfe", b"null"])
def test_rubbish_for_our_list(tmp_path: Path, data: bytes) -> None:
    (tmp_path / LIST_NAME).write_bytes(data)
    with pytest.raises(BadListError):
        given_digests(tmp_path)


def test_what_the_hub_leaves_in_a_download_directory(tmp_path: Path) -> None:
    notes = tmp_path / ".cache" / "huggingface" / "download"
    notes.mkdir(parents=True)
    data = b"weights"
    digest = hashlib.sha256(data).hexdigest()
    (tmp_path / "model.safetensors").write_bytes(data)
    os.utime(tmp_path / "model.safetensors", (1000, 1000))
    note = notes / "model.safetensors.metadata"
    note.write_text(f"{'0' * 40}\n{digest}\n1000.5\n")
    (notes / "config.json.metadata").write_text(f"{'0' * 40}\n{'1' * 40}\n1000.5\n")  # a git hash: no sha256
    assert names(tmp_path) == {"model.safetensors": [digest]}
    os.utime(tmp_path / "model.safetensors", (2000, 2000))
    assert names(tmp_path) == {}, "written after the download: no longer that file"


def test_a_directory_without_lists(tmp_path: Path) -> None:
    given = given_digests(tmp_path)
    assert (given.files, given.ours) == ({}, False)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        (LIST_NAME, True),
        ("SHA256SUMS", True),
        ("sha256sums.txt", True),
        ("m.safetensors.sha256", True),
        ("m.bin", False),
    ],
)
def test_names_of_lists(name: str, known: bool) -> None:
    assert is_list(name) is known
