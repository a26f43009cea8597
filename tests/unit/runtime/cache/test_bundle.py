"""Packing: what goes in, in which bytes, and what is refused."""

import hashlib
import io
import os
import socket
import subprocess
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from runtime.cache import archive, bundle, writing
from runtime.cache.bundle import bundle_name, pack
from runtime.cache.collect import Found
from runtime.cache.faults import BundleCause, BundleFault
from runtime.cache.fingerprint import Fingerprint
from runtime.cache.limits import Limits
from runtime.cache.restore import inspect, restore, verify
from tests.unit.runtime.cache.trees import (
    BUILT_NS,
    EXECUTABLE,
    FILES,
    FINGERPRINT,
    PROVENANCE,
    a_bundle,
    a_key,
    left_behind,
    make_tree,
    read_tree,
    trust,
)


def _pack(source: Path, target: Path, **more: object) -> bundle.Packed:
    return pack(source, target, fingerprint=FINGERPRINT, provenance=PROVENANCE, signer=a_key(), **more)  # type: ignore[arg-type]  # one test each


def _refused(cause: BundleCause, source: Path, target: Path, **more: object) -> str:
    with pytest.raises(BundleFault) as caught:
        _pack(source, target, **more)
    assert caught.value.cause == cause
    assert not target.exists()
    assert left_behind(target.parent) == []
    return str(caught.value)


def test_a_tree_comes_back_as_it_was(tmp_path: Path) -> None:
    packed = a_bundle(tmp_path)
    restored = restore(packed.path, tmp_path / "into", trust=trust(), expected_key=FINGERPRINT.key)
    assert read_tree(tmp_path / "into") == FILES
    assert restored.bundle.digest == packed.digest == hashlib.sha256(packed.path.read_bytes()).hexdigest()
    assert restored.bundle.manifest == packed.manifest
    assert restored.bundle.manifest.provenance == PROVENANCE
    assert restored.bundle.signer.name == "this host"
    assert left_behind(tmp_path) == []


def test_what_is_restored_is_private_with_plain_modes_and_times_only_where_they_count(tmp_path: Path) -> None:
    into = tmp_path / "into"
    restore(a_bundle(tmp_path).path, into, trust=trust(), expected_key=FINGERPRINT.key)
    assert into.stat().st_mode & 0o777 == 0o700
    for name in FILES:
        status = (into / name).stat()
        assert status.st_mode & 0o7777 == (0o755 if name in EXECUTABLE else 0o644)
        assert (status.st_mtime_ns == BUILT_NS) == name.startswith("flashinfer/")


def test_equal_trees_make_equal_bundles_whatever_their_times_and_owners(tmp_path: Path) -> None:
    one = a_bundle(tmp_path)
    other_tree = make_tree(tmp_path / "other")
    for name in FILES:
        if not name.startswith("flashinfer/"):
            os.utime(other_tree / name, ns=(1, 1))
    other = _pack(other_tree, tmp_path / "b.bundle")
    assert one.path.read_bytes() == other.path.read_bytes()
    (other_tree / "modelinfos/llama-LlamaForCausalLM.json").write_bytes(b'{"hash": "2"}')
    assert _pack(other_tree, tmp_path / "b.bundle").digest != one.digest


def test_the_number_of_threads_does_not_change_the_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = make_tree(tmp_path / "made")
    (tree / "tilelang/0.1/large").write_bytes(b"".join(i.to_bytes(4, "big") for i in range(2_000_000)))
    digests = set()
    for threads in (1, 2, 3):
        monkeypatch.setattr(writing, "compressor_threads", lambda threads=threads: threads)
        digests.add(_pack(tree, tmp_path / "b.bundle").digest)
    assert len(digests) == 1


def test_in_a_directory_a_bundle_has_its_own_name(tmp_path: Path) -> None:
    packed = _pack(make_tree(tmp_path / "made"), tmp_path)
    assert packed.path == tmp_path / bundle_name(FINGERPRINT.key, packed.digest)
    assert packed.path.stat().st_mode & 0o777 == 0o644
    assert left_behind(tmp_path) == []


def test_other_programs_read_it(tmp_path: Path) -> None:
    """The archive is plain tar in plain zstd, long names too: Python's tarfile and the system's tar see the same."""
    packed = a_bundle(tmp_path)
    tar = zstandard.ZstdDecompressor().stream_reader(packed.path.read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(tar)) as opened:
        members = opened.getmembers()
        contents = {member.name: opened.extractfile(member) for member in members}
    assert [member.name for member in members[:2]] == [archive.MANIFEST, archive.SIGNATURES]
    found = {name.removeprefix("files/"): file.read() for name, file in contents.items() if file and "/" in name}
    assert found == FILES
    listed = subprocess.run(["tar", "-tf", "-"], input=tar, capture_output=True, check=True).stdout.decode().split()
    assert listed == [member.name for member in members]


def test_a_socket_is_left_out(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "made")
    short = Path(os.path.relpath(tree / "tilelang/s"))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(short))
        assert {file.path for file in _pack(tree, tmp_path / "b.bundle").manifest.files} == set(FILES)


def test_a_hard_link_is_a_file_like_any_other(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "made")
    os.link(tree / "tilelang/0.1/kernel.so", tree / "tilelang/0.1/same.so")
    packed = _pack(tree, tmp_path / "b.bundle")
    restore(packed.path, tmp_path / "into", trust=trust(), expected_key=FINGERPRINT.key)
    assert (tmp_path / "into/tilelang/0.1/same.so").read_bytes() == FILES["tilelang/0.1/kernel.so"]
    assert (tmp_path / "into/tilelang/0.1/same.so").stat().st_nlink == 1


@pytest.mark.parametrize(
    ("cause", "spoil"),
    [
        (BundleCause.LINK, lambda tree: (tree / "tilelang/link").symlink_to("/etc/passwd")),
        (BundleCause.LINK, lambda tree: (tree / "tilelang/dir").symlink_to(tree / "modelinfos")),
        (BundleCause.LINK, lambda tree: (tree / "inductor_cache").symlink_to(tree / "modelinfos")),
        (BundleCause.SPECIAL_FILE, lambda tree: os.mkfifo(tree / "tilelang/fifo")),
        (BundleCause.SPECIAL_FILE, lambda tree: (tree / "inductor_cache").write_bytes(b"")),
        (BundleCause.UNSAFE_PATH, lambda tree: (tree / "tilelang/a\nb").write_bytes(b"")),
        (BundleCause.UNSAFE_PATH, lambda tree: (tree / "tilelang/a\\b").write_bytes(b"")),
        (BundleCause.UNSAFE_PATH, lambda tree: os.close(os.open(bytes(tree) + b"/tilelang/\xff", os.O_CREAT))),
        (BundleCause.UNSAFE_PATH, lambda tree: (tree / "tilelang/0.1/KERNEL.so").write_bytes(b"")),
    ],
)
def test_what_no_bundle_holds_is_refused(tmp_path: Path, cause: BundleCause, spoil: Callable[[Path], object]) -> None:
    tree = make_tree(tmp_path / "made")
    spoil(tree)
    _refused(cause, tree, tmp_path / "b.bundle")


def test_nothing_to_pack_is_said(tmp_path: Path) -> None:
    (tmp_path / "made" / "assets").mkdir(parents=True)
    (tmp_path / "made" / "assets" / "model").write_bytes(b"weights")
    assert "nothing to pack" in _refused(BundleCause.EMPTY, tmp_path / "made", tmp_path / "b.bundle")
    _refused(BundleCause.MISSING, tmp_path / "nowhere", tmp_path / "b.bundle")


def test_bounds_hold_while_packing(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "made")
    target = tmp_path / "b.bundle"
    _refused(BundleCause.TOO_LARGE, tree, target, limits=Limits(files=3))
    _refused(BundleCause.TOO_LARGE, tree, target, limits=Limits(total_bytes=1000))
    _refused(BundleCause.TOO_LARGE, tree, target, limits=Limits(file_bytes=1000))
    _refused(BundleCause.TOO_LARGE, tree, target, limits=Limits(manifest_bytes=1000))
    (tree / "tilelang/zeros").write_bytes(bytes(2**22))
    _refused(BundleCause.TOO_LARGE, tree, target, limits=Limits(ratio=20, ratio_from_bytes=2**20))


class _Meddler:
    """Changes the tree once packing has got so far."""

    def __init__(self, after_bytes: int, change: Callable[[], object]) -> None:
        self._after, self._change = after_bytes, change

    def __call__(self, done: int, total: int) -> None:
        if done >= self._after:
            self._change()
            self._after = total * 10


SIZE = sum(len(content) for content in FILES.values())
LAST = "triton_cache/KEY/kernel.cubin"


@pytest.mark.parametrize("after_bytes", [1, SIZE // 2, SIZE, SIZE + 1, 2 * SIZE - 1])
@pytest.mark.parametrize(
    "change",
    [
        lambda tree: (tree / LAST).write_bytes(b"other bytes"),
        lambda tree: (tree / LAST).write_bytes(b"cubit"),
        lambda tree: (tree / LAST).unlink(),
        lambda tree: (tree / "triton_cache/KEY/new").write_bytes(b"new"),
        lambda tree: (tree / "deep_gemm/cache/kernel.gemm.0f/kernel.cubin").write_bytes(b"xy"),
        lambda tree: (tree / "modelinfos").rename(tree / "modelinfos-old"),
    ],
)
def test_a_cache_that_is_written_to_makes_no_bundle(
    tmp_path: Path, change: Callable[[Path], object], after_bytes: int
) -> None:
    tree = make_tree(tmp_path / "made")
    meddler = _Meddler(after_bytes, lambda: change(tree))
    assert "changed while it was packed" in _refused(BundleCause.CHANGED, tree, tmp_path / "b.bundle", progress=meddler)


def test_a_change_that_the_clock_does_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write in the same tick of the kernel's clock leaves size and times as they were."""
    monkeypatch.setattr(Found, "same", lambda _self, _status: True)
    monkeypatch.setattr(bundle._Packing, "_refuse_changes", lambda _self: None)
    tree = make_tree(tmp_path / "made")
    meddler = _Meddler(SIZE, lambda: (tree / LAST).write_bytes(b"cubit"))
    assert LAST in _refused(BundleCause.CHANGED, tree, tmp_path / "b.bundle", progress=meddler)


def test_a_passing_file_may_come_and_go_meanwhile(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "made")
    meddler = _Meddler(SIZE, lambda: (tree / "triton_cache/KEY/other.lock").write_bytes(b""))
    assert _pack(tree, tmp_path / "b.bundle", progress=meddler).path.exists()


def test_packing_can_be_stopped_at_any_byte(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "made")
    for after in (0, 1, SIZE, SIZE + 1):
        stop = threading.Event()
        if not after:
            stop.set()
        with pytest.raises(InterruptedError):
            _pack(tree, tmp_path / "b.bundle", stop=stop, progress=_Meddler(after, stop.set) if after else None)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["made"]


def test_progress_ends_at_the_whole(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    a_bundle(tmp_path)
    packed = _pack(tmp_path / "made", tmp_path / "b.bundle", progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (2 * SIZE, 2 * SIZE)
    assert told == sorted(told)
    told.clear()
    verify(packed.path, trust=trust(), progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (packed.size_bytes, packed.size_bytes)


def test_inspect_reads_the_head_alone(tmp_path: Path) -> None:
    packed = a_bundle(tmp_path)
    head = inspect(packed.path, trust=trust())
    assert head.manifest == packed.manifest
    assert head.manifest.parts == (
        "deep-gemm",
        "flashinfer",
        "model-infos",
        "startup-plan",
        "tilelang",
        "torch-compile",
        "triton",
    )


def test_an_existing_target_is_replaced_whole(tmp_path: Path) -> None:
    packed = a_bundle(tmp_path)
    old, read_meanwhile = packed.path.read_bytes(), packed.path.open("rb")
    other = pack(
        tmp_path / "made",
        packed.path,
        fingerprint=Fingerprint({"model.digest": "other"}),
        provenance=PROVENANCE,
        signer=a_key(),
    )
    assert verify(packed.path, trust=trust()).digest == other.digest != packed.digest
    with read_meanwhile:
        assert read_meanwhile.read() == old
