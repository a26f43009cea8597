import os
import shutil
from pathlib import Path

import pytest

from runtime.cache import roots
from runtime.cache.roots import KEPT, PROVEN, Root

KEY = "4f" * 32
OTHER = "5e" * 32


def used(root: Root) -> Root:
    """As a proven start leaves it."""
    assert not root.take()
    (root.path / "artifact").write_text(root.key)
    root.prove()
    return root


def test_a_new_root_is_private_and_empty(tmp_path: Path) -> None:
    root = Root(tmp_path / "caches" / "r", KEY)
    assert not root.is_proven()
    assert not root.take()
    assert (root.path.stat().st_mode & 0o777, list(root.path.iterdir())) == (0o700, [])


def test_a_proven_root_is_used_again(tmp_path: Path) -> None:
    used(Root(tmp_path / "r", KEY))
    again = Root(tmp_path / "r", KEY)
    assert again.is_proven()
    assert again.take()
    assert (again.path / "artifact").exists()


def test_a_start_that_is_not_proven_costs_the_root_its_proof(tmp_path: Path) -> None:
    """It may have been killed while it compiled one thing more."""
    used(Root(tmp_path / "r", KEY))
    assert Root(tmp_path / "r", KEY).take()
    third = Root(tmp_path / "r", KEY)
    assert not third.is_proven()
    assert not third.take()
    assert list(third.path.iterdir()) == []


@pytest.mark.parametrize(
    "proof",
    ["", "{", "[]", "null", '{"key": 1}', '{"boot": "here"}', '{"key": "' + KEY + '", "boot": "another"}', "\x00"],
)
def test_a_proof_that_is_none(tmp_path: Path, proof: str) -> None:
    root = used(Root(tmp_path / "r", KEY))
    (root.path / PROVEN).write_text(proof)
    assert not root.is_proven()
    assert not root.take()
    assert list(root.path.iterdir()) == []


def test_a_proof_is_for_one_key(tmp_path: Path) -> None:
    used(Root(tmp_path / "r", KEY))
    assert not Root(tmp_path / "r", OTHER).is_proven()


def test_a_proof_is_for_one_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used(Root(tmp_path / "r", KEY))
    boot = tmp_path / "boot_id"
    boot.write_text("after a power cut\n")
    monkeypatch.setattr(roots, "_BOOT", boot)
    assert not Root(tmp_path / "r", KEY).is_proven()
    used(Root(tmp_path / "s", KEY))
    assert Root(tmp_path / "s", KEY).is_proven()


def test_without_a_boot_id_a_proof_counts_for_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roots, "_BOOT", tmp_path / "none")
    root = used(Root(tmp_path / "r", KEY))
    assert root.is_proven()
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert not root.is_proven()


def test_a_root_without_a_key_is_never_proven(tmp_path: Path) -> None:
    root = Root(tmp_path / "r", "")
    root.take()
    (root.path / "artifact").write_text("x")
    root.prove()
    assert not (root.path / PROVEN).exists()
    assert not root.take()
    assert list(root.path.iterdir()) == []


@pytest.mark.parametrize("there", ["file", "link"])
def test_what_is_no_directory_makes_way(tmp_path: Path, there: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine").write_text("kept")
    path = tmp_path / "r"
    path.write_text("x") if there == "file" else path.symlink_to(elsewhere)
    assert not Root(path, KEY).take()
    assert path.is_dir()
    assert not path.is_symlink()
    assert (elsewhere / "mine").exists(), "what a link points to is not ours to remove"


def test_a_root_that_cannot_be_removed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Root(tmp_path / "r", KEY)
    root.take()

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(PermissionError, match="r'"):
        root.take()


def test_the_newest_proven_roots_are_kept(tmp_path: Path) -> None:
    made = []
    for number in range(KEPT + 2):
        root = used(Root(tmp_path / f"r{number}", f"{number}" * 64))
        os.utime(root.path / PROVEN, (number, number))
        made.append(root)
    Root(tmp_path / "torn", KEY).take()
    (tmp_path / "a file").write_text("of another's")
    now = made[0]  # an argument was changed back: the oldest is in use
    now.remove_others()
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {"r0", "a file", *(f"r{number}" for number in range(KEPT + 2)[-(KEPT - 1) :])}


def test_what_is_compiled_is_told_by_its_place(tmp_path: Path) -> None:
    root = Root(tmp_path / "r", KEY)
    assert root.artifacts() == frozenset()
    root.take()
    for name in (
        f"torch_compile_cache/torch_aot_compile/{KEY}/rank_0_0/model",
        "triton_cache/AB/k.cubin",
        "modelinfos/m",
    ):
        (root.path / name).parent.mkdir(parents=True)
        (root.path / name).write_text("x")
    root.prove()
    assert root.artifacts() == {f"torch_compile_cache/torch_aot_compile/{KEY}/rank_0_0/model", "triton_cache/AB"}
