"""Unpacking: whatever is in the file, it is refused by name or comes out exactly as it was made."""

import errno
import hashlib
import json
import os
import random
import shutil
import struct
import tarfile
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from runtime.cache import reading, staging
from runtime.cache import restore as restoring
from runtime.cache.archive import END, FILES, MANIFEST, SIGNATURES, header, padding
from runtime.cache.bundle import pack
from runtime.cache.faults import BundleCause, BundleFault
from runtime.cache.fingerprint import Fingerprint
from runtime.cache.limits import Limits
from runtime.cache.restore import Restored, restore, verify
from runtime.cache.staging import sweep
from tests.unit.runtime.cache.hostile import (
    bundle_of,
    bundle_with,
    file_entry,
    manifest_of,
    sealed,
    signatures_of,
    tar_of,
    written,
)
from tests.unit.runtime.cache.trees import FILES as TREE
from tests.unit.runtime.cache.trees import FINGERPRINT, PROVENANCE, a_bundle, a_key, left_behind, read_tree, trust

KEY = FINGERPRINT.key
GOOD = "tilelang/0.1/kernel.so"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A good bundle's bytes."""
    return a_bundle(tmp_path_factory.mktemp("made")).path.read_bytes()


def _restore(file: Path, **more: object) -> Restored:
    return restore(file, file.parent / "into", trust=trust(), expected_key=KEY, **more)  # type: ignore[arg-type]  # one test each


def _refused(tmp: Path, data: bytes, *causes: BundleCause, **more: object) -> str:
    """Both ways of reading refuse `data` by one of these causes, and nothing is left of it."""
    file = written(tmp, data)
    with pytest.raises(BundleFault) as caught:
        _restore(file, **more)
    assert caught.value.cause in causes, caught.value
    assert caught.value.permanent
    assert str(file) in str(caught.value)
    assert sorted(path.name for path in tmp.iterdir()) == [file.name]
    with pytest.raises(BundleFault) as seen:
        verify(file, trust=trust(), expected_key=KEY, **more)  # type: ignore[arg-type]  # one test each
    assert seen.value.cause == caught.value.cause
    return str(caught.value)


def test_a_crafted_good_one_is_taken(tmp_path: Path) -> None:
    """The tools of these tests make bundles that differ from ours only in what a test is about."""
    _restore(written(tmp_path, bundle_with({"modelinfos/a": b"1", GOOD: b"2"})))
    assert read_tree(tmp_path / "into") == {"modelinfos/a": b"1", GOOD: b"2"}


# Damage


def test_cut_off_anywhere(tmp_path: Path, made: bytes) -> None:
    file = tmp_path / "hostile.bundle"
    for length in range(0, len(made), 5):
        file.write_bytes(made[:length])
        with pytest.raises(BundleFault) as caught:
            verify(file, trust=trust())
        assert caught.value.cause == BundleCause.TRUNCATED, length
    for length in range(0, len(made), 211):
        _refused(tmp_path, made[:length], BundleCause.TRUNCATED)


def test_cut_off_between_members_and_sealed_again(tmp_path: Path, made: bytes) -> None:
    """A store or a proxy may cut; who packs again what was cut has a valid frame around it."""
    tar = zstandard.ZstdDecompressor().stream_reader(made).read()
    for length in range(0, len(tar), 512):
        _refused(tmp_path, sealed(tar[:length]), BundleCause.CORRUPT)


def _flip(directory: Path, made: bytes, bit: int) -> bool:
    """Flip one bit. Whether it is taken where no digest is known; then it must give the very tree, and be another file.

    zstd can say one content in several ways, so a few flips change nothing of what is unpacked.
    """
    data = bytearray(made)
    data[bit // 8] ^= 1 << bit % 8
    file, into = directory / "flipped.bundle", directory / "into"
    file.write_bytes(data)
    try:
        restore(file, into, trust=trust(), expected_key=KEY, durable=False)
    except BundleFault:
        assert not into.exists()
        return False
    assert read_tree(into) == TREE
    shutil.rmtree(into)
    with pytest.raises(BundleFault, match="expected"):
        verify(file, trust=trust(), expected_key=KEY, expected_digest=hashlib.sha256(made).hexdigest())
    return True


def test_a_flipped_bit_in_each_region(tmp_path: Path, made: bytes) -> None:
    seed = random.Random(2026)
    taken = [at for at in range(0, len(made), 9) if _flip(tmp_path, made, at * 8 + seed.randrange(8))]
    assert len(taken) < len(made) / 9 / 20


@pytest.mark.prove
def test_every_bit_flipped(tmp_path: Path, made: bytes) -> None:
    bits = len(made) * 8
    taken = sum(_flip(tmp_path, made, bit) for bit in range(bits))
    print(f"{bits} bits flipped one by one: with the digest known all refused; without it {taken} gave the very tree")


@given(st.data())
def test_any_part_replaced(tmp_path_factory: pytest.TempPathFactory, made: bytes, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(made)))
    end = data.draw(st.integers(start, min(len(made), start + 64)))
    other = data.draw(st.binary(max_size=64))
    file = tmp_path_factory.mktemp("any") / "a.bundle"
    file.write_bytes(made[:start] + other + made[end:])
    try:
        restore(file, file.parent / "into", trust=trust(), expected_key=KEY, durable=False)
    except BundleFault:
        assert not (file.parent / "into").exists()
    else:
        assert read_tree(file.parent / "into") == TREE
    assert left_behind(file.parent) == []


def test_something_follows(tmp_path: Path, made: bytes) -> None:
    skippable = struct.pack("<II", 0x184D2A50, 5) + b"hello"
    for tail in (b"x", bytes(4096), made, skippable, sealed(b"more")):
        assert "follow its end" in _refused(tmp_path, made + tail, BundleCause.CORRUPT)
    _refused(tmp_path, skippable + made, BundleCause.CORRUPT)


def test_no_archive_at_all(tmp_path: Path) -> None:
    for data in (b"hello, world", b"PK\x03\x04" + bytes(100), tar_of([]), b"\x28\xb5\x2f\xfd" + b"\xff" * 40):
        _refused(tmp_path, data, BundleCause.CORRUPT, BundleCause.TOO_LARGE)
    _refused(tmp_path, b"", BundleCause.TRUNCATED)


def test_a_frame_without_size_or_checksum_is_none_of_ours(tmp_path: Path, made: bytes) -> None:
    tar = zstandard.ZstdDecompressor().stream_reader(made).read()
    for compressor in (
        zstandard.ZstdCompressor(write_checksum=False),
        zstandard.ZstdCompressor(write_checksum=True, write_content_size=False),
    ):
        _refused(tmp_path, compressor.compress(tar), BundleCause.CORRUPT)


# Identity and trust


def test_another_fingerprint(tmp_path: Path, made: bytes) -> None:
    other = Fingerprint({"model.digest": "other"}).key
    with pytest.raises(BundleFault, match=f"for fingerprint {KEY[:16]}") as caught:
        verify(written(tmp_path, made), trust=trust(), expected_key=other)
    assert caught.value.cause == BundleCause.FOREIGN


def test_a_key_that_is_not_of_its_inputs(tmp_path: Path) -> None:
    """Trust looks at the inputs, the engine asks by key: one must not be had with the other's name."""
    data = bundle_with({GOOD: b""}, inputs={"model.digest": "mine"})
    assert "not that of its inputs" in _refused(tmp_path, data, BundleCause.FOREIGN)
    _refused(tmp_path, bundle_with({GOOD: b""}, inputs={"No Name": "x"}), BundleCause.CORRUPT)


def test_another_digest_than_the_store_said(tmp_path: Path, made: bytes) -> None:
    digest = hashlib.sha256(made).hexdigest()
    assert verify(written(tmp_path, made), trust=trust(), expected_digest=digest).digest == digest
    assert "expected" in _refused(tmp_path, made, BundleCause.CORRUPT, expected_digest="0" * 64)


def test_unsigned_and_signed_by_somebody(tmp_path: Path) -> None:
    manifest = manifest_of([file_entry(GOOD, b"")])
    members = [(header(FILES + GOOD, 0), b"")]
    unsigned = b'{"algorithm":"ed25519","signatures":[]}'
    _refused(tmp_path, bundle_of(manifest, members, unsigned), BundleCause.UNSIGNED)
    _refused(tmp_path, bundle_of(manifest, members, signatures_of(manifest, a_key(2))), BundleCause.UNTRUSTED)
    stolen = signatures_of(manifest_of([file_entry(GOOD, b"other")]))
    _refused(tmp_path, bundle_of(manifest, members, stolen), BundleCause.BAD_SIGNATURE)
    for broken in (b"", b"{}", b"[", b'{"signatures":[{"key":"x","signature":"!"}]}', unsigned + b" "):
        _refused(tmp_path, bundle_of(manifest, members, broken), BundleCause.BAD_SIGNATURE)


# Names


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "tilelang/../../x",
        "tilelang/..",
        "/tilelang/x",
        "/etc/cron.d/x",
        "tilelang//x",
        "tilelang/./x",
        "./tilelang/x",
        "tilelang/",
        "tilelang",
        "",
        ".",
        "assets/x",
        "pilotlight-compiled.json",
        "Tilelang/x",
        "tilelang/a\0b",
        "tilelang/a\nb",
        "tilelang/\x1b[2J",
        "tilelang/a\x7f",
        "tilelang/\u202egnp.so",
        "tilelang/a\\..\\b",
        "tilelang/e\u0301",
        "tilelang/" + "n" * 256,
        "tilelang/" + "/".join("d" * 40),
        "tilelang/" + "/".join(["n" * 200] * 6),
    ],
)
def test_an_unsafe_path(tmp_path: Path, path: str) -> None:
    _refused(tmp_path, bundle_with({path: b"x"}), BundleCause.UNSAFE_PATH)


def test_a_path_that_is_no_text(tmp_path: Path) -> None:
    _refused(tmp_path, bundle_with({"tilelang/\ud800": b"x"}), BundleCause.CORRUPT)
    entry = file_entry(GOOD, b"")
    for path in (5, None, ["tilelang", "x"]):
        _refused(tmp_path, bundle_of(manifest_of([entry | {"path": path}]), []), BundleCause.CORRUPT)


@pytest.mark.parametrize(
    "paths",
    [
        ("tilelang/a", "tilelang/a"),
        ("tilelang/A", "tilelang/a"),
        ("tilelang/b", "tilelang/a"),
        ("tilelang/a", "tilelang/a/b"),
        ("tilelang/A", "tilelang/a/b"),
        ("tilelang/STRASSE", "tilelang/straße"),
    ],
)
def test_two_names_that_are_one(tmp_path: Path, paths: tuple[str, str]) -> None:
    entries = [file_entry(path, b"") for path in paths]
    members = [(header(FILES + path, 0), b"") for path in paths]
    _refused(tmp_path, bundle_of(manifest_of(entries), members), BundleCause.UNSAFE_PATH)


# Members


def _tar_header(name: str, kind: bytes, link: str = "", size: int = 0) -> bytes:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.size = kind, link, size
    return member.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        (tarfile.SYMTYPE, BundleCause.LINK),
        (tarfile.LNKTYPE, BundleCause.LINK),
        (tarfile.CHRTYPE, BundleCause.SPECIAL_FILE),
        (tarfile.BLKTYPE, BundleCause.SPECIAL_FILE),
        (tarfile.FIFOTYPE, BundleCause.SPECIAL_FILE),
        (tarfile.DIRTYPE, BundleCause.CORRUPT),
        (tarfile.GNUTYPE_SPARSE, BundleCause.CORRUPT),
        (tarfile.XHDTYPE, BundleCause.CORRUPT),
        (tarfile.GNUTYPE_LONGNAME, BundleCause.CORRUPT),
        (b"Z", BundleCause.CORRUPT),
    ],
)
def test_a_member_that_is_no_file(tmp_path: Path, kind: bytes, cause: BundleCause) -> None:
    manifest = manifest_of([file_entry(GOOD, b"")])
    message = _refused(tmp_path, bundle_of(manifest, [(_tar_header(FILES + GOOD, kind, "/etc/passwd"), b"")]), cause)
    assert GOOD in message


def test_members_that_the_manifest_does_not_list(tmp_path: Path) -> None:
    manifest = manifest_of([file_entry(GOOD, b"")])
    good = (header(FILES + GOOD, 0), b"")
    extra = (header(FILES + "tilelang/x", 0), b"")
    assert "account for all" in _refused(tmp_path, bundle_of(manifest, [good, extra]), BundleCause.CORRUPT)
    _refused(tmp_path, bundle_of(manifest, []), BundleCause.CORRUPT)
    _refused(tmp_path, bundle_of(manifest, [extra]), BundleCause.CORRUPT)
    _refused(tmp_path, bundle_of(manifest, [good, good]), BundleCause.CORRUPT)
    _refused(tmp_path, bundle_of(manifest, [(_tar_header("../../x", tarfile.REGTYPE), b"")]), BundleCause.UNSAFE_PATH)
    _refused(tmp_path, bundle_of(manifest, [good], end=END + bytes(8192)), BundleCause.CORRUPT)
    _refused(tmp_path, bundle_of(manifest, [good], end=bytes(512) + b"x" * 512), BundleCause.CORRUPT)


def test_content_that_is_not_what_the_manifest_says(tmp_path: Path) -> None:
    member = (header(FILES + GOOD, 4), b"evil")
    _refused(tmp_path, bundle_of(manifest_of([file_entry(GOOD, b"good")]), [member]), BundleCause.CORRUPT)
    longer = bundle_of(manifest_of([file_entry(GOOD, b"evil", size=3)]), [(header(FILES + GOOD, 3), b"evil")])
    _refused(tmp_path, longer, BundleCause.CORRUPT)
    hidden = header(FILES + GOOD, 4) + b"good" + b"hidden".ljust(508, b"\0")
    _refused(tmp_path, bundle_of(manifest_of([file_entry(GOOD, b"good")]), [(hidden, b"")]), BundleCause.CORRUPT)


def test_modes_that_are_not_plain(tmp_path: Path) -> None:
    for mode in (0o4755, 0o777, 0o600, -1, "0644"):
        _refused(tmp_path, bundle_of(manifest_of([file_entry(GOOD, b"", mode=mode)]), []), BundleCause.CORRUPT)
    setuid = header(FILES + GOOD, 0, 0o4755)
    _refused(tmp_path, bundle_of(manifest_of([file_entry(GOOD, b"")]), [(setuid, b"")]), BundleCause.CORRUPT)


# Manifests


def test_a_manifest_in_any_other_form(tmp_path: Path) -> None:
    good = manifest_of([file_entry(GOOD, b"")])
    members = [(header(FILES + GOOD, 0), b"")]
    doubled = good.replace(b'"files":', b'"files":[],"files":')
    spaced = json.dumps(json.loads(good), sort_keys=True).encode()
    nested = good.replace(b'"files":', b'"inputs":' + b"[" * 200_000 + b',"files":')
    for data in (doubled, spaced, nested, good + b"\n", b"", b"null", b"[]", b"\xff", good[:-1]):
        _refused(tmp_path, bundle_of(data, members), BundleCause.CORRUPT)
    _refused(tmp_path, bundle_of(manifest_of([file_entry(GOOD, b"")], more=1), members), BundleCause.CORRUPT)
    _refused(tmp_path, bundle_of(manifest_of([file_entry(GOOD, b"")], total_bytes=5), members), BundleCause.CORRUPT)
    _refused(tmp_path, bundle_of(manifest_of([]), []), BundleCause.CORRUPT)


def test_a_newer_format_is_told_from_a_broken_one(tmp_path: Path) -> None:
    data = bundle_of(manifest_of([file_entry(GOOD, b"")], schema_version=2), [])
    assert "update Pilotlight" in _refused(tmp_path, data, BundleCause.UNKNOWN_FORMAT)


def test_first_members_at_the_wrong_place(tmp_path: Path) -> None:
    manifest = manifest_of([file_entry(GOOD, b"")])
    signed = signatures_of(manifest)
    one, two = (header(MANIFEST, len(manifest)), manifest), (header(SIGNATURES, len(signed)), signed)
    good = (header(FILES + GOOD, 0), b"")
    for members in ([two, one, good], [good, one, two], [one, good, two], [one, one, two, good], [one], []):
        _refused(tmp_path, sealed(tar_of(members)), BundleCause.CORRUPT)


# Bombs


def _zeros(content_bytes: int, stated_bytes: int, window: int = 0x50) -> bytes:
    """A frame of `content_bytes` zeros in run-length blocks of 128 KiB: four bytes each."""
    block = 2**17
    count = content_bytes // block
    head = b"\x28\xb5\x2f\xfd" + bytes([0b11000100, window]) + struct.pack("<Q", stated_bytes)
    blocks = [((block << 3) | 2 | (at == count - 1)).to_bytes(3, "little") + b"\0" for at in range(count)]
    return head + b"".join(blocks) + bytes(4)


def test_bombs_are_refused_by_their_headers(tmp_path: Path) -> None:
    assert "would unpack to" in _refused(tmp_path, _zeros(2**36, 2**36), BundleCause.TOO_LARGE)
    assert "times as much" in _refused(tmp_path, _zeros(2**33, 2**33), BundleCause.TOO_LARGE)
    assert "memory" in _refused(tmp_path, _zeros(2**20, 2**20, window=0xA8), BundleCause.TOO_LARGE)


def test_a_frame_of_empty_blocks_is_not_walked_to_its_end(tmp_path: Path) -> None:
    head = b"\x28\xb5\x2f\xfd" + bytes([0b11000100, 0x50]) + struct.pack("<Q", 1024)
    data = head + bytes(3) * 10_000 + b"\x01\0\0" + bytes(4)
    assert "more blocks" in _refused(tmp_path, data, BundleCause.CORRUPT)


def test_a_manifest_is_not_parsed_before_somebody_vouches_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some MB of brackets take hundreds of MB to parse."""

    def parse(_file: Path, _data: bytes) -> None:
        raise AssertionError("parsed")

    monkeypatch.setattr(reading, "read_manifest_bytes", parse)
    manifest = b"[" * 1000
    unsigned = b'{"algorithm":"ed25519","signatures":[]}'
    _refused(tmp_path, bundle_of(manifest, [], unsigned), BundleCause.UNSIGNED)
    _refused(tmp_path, bundle_of(manifest, [], signatures_of(manifest, a_key(2))), BundleCause.UNTRUSTED)
    _refused(tmp_path, bundle_of(manifest, [], signatures_of(manifest + b"[")), BundleCause.BAD_SIGNATURE)
    with pytest.raises(AssertionError, match="parsed"):
        _restore(written(tmp_path, bundle_of(manifest, [])))


def test_a_bomb_that_lies_about_its_size(tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        _refused(tmp_path, _zeros(2**30, 2048), BundleCause.CORRUPT)
        _refused(tmp_path, _zeros(2**30, 2**26), BundleCause.CORRUPT)
        assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    finally:
        tracemalloc.stop()


def test_sizes_that_are_only_said(tmp_path: Path) -> None:
    huge = header(MANIFEST, 8**11 - 1)
    _refused(tmp_path, sealed(huge + bytes(4096)), BundleCause.TOO_LARGE)
    _refused(tmp_path, sealed(huge[:124] + b"-0000000001\0" + huge[136:]), BundleCause.CORRUPT)
    entry = file_entry(GOOD, b"", size=2**40)
    _refused(tmp_path, bundle_of(manifest_of([entry]), []), BundleCause.TOO_LARGE)
    for size in (-1, 2.5, "5", True, 10**400):
        entry = file_entry(GOOD, b"", size=size)
        _refused(
            tmp_path, bundle_of(manifest_of([entry], total_bytes=0), []), BundleCause.CORRUPT, BundleCause.TOO_LARGE
        )


def test_limits_of_the_reader(tmp_path: Path, made: bytes) -> None:
    for limits in (
        Limits(files=len(TREE) - 1),
        Limits(total_bytes=1000),
        Limits(file_bytes=1000),
        Limits(manifest_bytes=1000),
        Limits(window_bytes=1024),
        Limits(ratio=1, ratio_from_bytes=0),
    ):
        _refused(tmp_path, made, BundleCause.TOO_LARGE, limits=limits)


def test_memory_is_bounded(tmp_path: Path) -> None:
    """64 MiB of incompressible files, unpacked with a few hundred kB."""
    tree = tmp_path / "made/tilelang"
    tree.mkdir(parents=True)
    block = random.Random(1).randbytes(2**20)
    for at in range(4):
        (tree / f"large{at}").write_bytes(block * 16)
    packed = pack(tmp_path / "made", tmp_path, fingerprint=FINGERPRINT, provenance=PROVENANCE, signer=a_key())
    tracemalloc.start()
    try:
        restore(packed.path, tmp_path / "into", trust=trust(), expected_key=KEY, durable=False)
        assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    finally:
        tracemalloc.stop()


# Places


def test_what_is_there_is_not_touched(tmp_path: Path, made: bytes) -> None:
    into = tmp_path / "into"
    into.mkdir()
    (into / "mine").write_text("mine")
    with pytest.raises(BundleFault) as caught:
        _restore(written(tmp_path, made))
    assert caught.value.cause == BundleCause.OCCUPIED
    assert read_tree(into) == {"mine": b"mine"}
    (into / "mine").unlink()
    _restore(written(tmp_path, made))
    assert read_tree(into) == TREE


@pytest.mark.parametrize("there", ["file", "link", "dangling"])
def test_a_place_that_is_no_directory(tmp_path: Path, made: bytes, there: str) -> None:
    into = tmp_path / "into"
    (tmp_path / "elsewhere").mkdir()
    if there == "file":
        into.write_text("")
    else:
        into.symlink_to(tmp_path / ("elsewhere" if there == "link" else "nowhere"))
    for replace in (False, True):
        with pytest.raises(BundleFault) as caught:
            _restore(written(tmp_path, made), replace=replace)
        assert caught.value.cause == BundleCause.OCCUPIED
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert left_behind(tmp_path) == []


def test_replacing_swaps_the_whole_tree(tmp_path: Path, made: bytes) -> None:
    into = tmp_path / "into"
    (into / "tilelang").mkdir(parents=True)
    (into / "tilelang/old").write_text("old")
    with pytest.raises(BundleFault):
        _restore(written(tmp_path, made[:-10]), replace=True)
    assert read_tree(into) == {"tilelang/old": b"old"}
    _restore(written(tmp_path, made), replace=True)
    assert read_tree(into) == TREE
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("replace", [False, True])
def test_two_at_once_into_one_place(tmp_path: Path, made: bytes, *, replace: bool) -> None:
    file = written(tmp_path, made)
    for _ in range(10):
        together = threading.Barrier(3)

        def one(together: threading.Barrier = together) -> BundleCause | None:
            together.wait()
            try:
                _restore(file, replace=replace, durable=False)
            except BundleFault as fault:
                return fault.cause
            return None

        with ThreadPoolExecutor(3) as pool:
            ends = [end.result() for end in [pool.submit(one) for _ in range(3)]]
        assert None in ends
        assert set(ends) <= {None, BundleCause.OCCUPIED}
        assert ends.count(None) == 1 or replace
        assert read_tree(tmp_path / "into") == TREE
        assert left_behind(tmp_path) == []
        shutil.rmtree(tmp_path / "into")


@pytest.mark.parametrize("after", [0, 1, 5, 20])
def test_it_can_be_stopped(tmp_path: Path, made: bytes, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    file = written(tmp_path, made)
    stop, writes = threading.Event(), 0
    write_all = restoring._write_all

    def stop_after(fd: int, data: bytes) -> None:
        nonlocal writes
        writes += 1
        write_all(fd, data)
        if writes == after:
            stop.set()

    monkeypatch.setattr(restoring, "_write_all", stop_after)
    if not after:
        stop.set()
    if after <= len(TREE):
        with pytest.raises(InterruptedError):
            _restore(file, stop=stop)
        assert [path.name for path in tmp_path.iterdir()] == [file.name]
    else:
        assert _restore(file, stop=stop)


def test_a_place_too_small_is_known_before(tmp_path: Path, made: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(tmp_path)

    def small(_path: object, **fields: int) -> os.statvfs_result:
        values = {**{name: getattr(real, name) for name in _STATVFS}, **fields}
        return os.statvfs_result([values[name] for name in _STATVFS])

    for fields in ({"f_bavail": 3}, {"f_files": 100, "f_favail": 3}):
        monkeypatch.setattr(os, "statvfs", lambda path, fields=fields: small(path, **fields))
        with pytest.raises(BundleFault, match="free, the bundle needs") as caught:
            _restore(written(tmp_path, made))
        assert caught.value.cause == BundleCause.NO_SPACE
        assert not caught.value.permanent
        assert left_behind(tmp_path) == []


_STATVFS = (
    *("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree", "f_favail", "f_flag"),
    "f_namemax",
)


def test_what_cannot_be_read(tmp_path: Path, made: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path, cause in ((tmp_path, "unreadable"), (fifo, "unreadable"), (tmp_path / "none", "missing")):
        with pytest.raises(BundleFault) as caught:
            verify(path, trust=trust())
        assert (caught.value.cause, caught.value.permanent) == (BundleCause(cause), False)
    fifo.unlink()

    def broken(_self: object, _size: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(reading._Source, "read", broken)
    with pytest.raises(BundleFault, match="Input/output error") as caught:
        _restore(written(tmp_path, made))
    assert caught.value.cause == BundleCause.UNREADABLE
    assert left_behind(tmp_path) == []


def test_sweep_removes_what_no_process_works_on(tmp_path: Path) -> None:
    for name in (".into.pilotlight-draft.0123456789abcdef", ".x.pilotlight-draft.0123456789abcdef"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half").write_text("half")
    (tmp_path / ".b.pilotlight-draft.0123456789abcdef").write_text("half")
    kept = tmp_path / ".mine.pilotlight-draft.notours"
    kept.mkdir()
    with staging.draft_directory(tmp_path / "into") as directory, staging.draft_file(tmp_path / "file") as file:
        assert len(sweep(tmp_path)) == 3
        assert sorted(tmp_path.iterdir()) == sorted([kept, directory.path, file.path])
    assert list(tmp_path.iterdir()) == [kept]
    assert sweep(tmp_path / "nowhere") == ()


def test_the_next_at_a_place_removes_what_killed_ones_left(tmp_path: Path, made: bytes) -> None:
    left = tmp_path / ".into.pilotlight-draft.0123456789abcdef"
    left.mkdir()
    _restore(written(tmp_path, made))
    assert not left.exists()
    left.write_text("half a bundle")
    pack(tmp_path / "into", tmp_path, fingerprint=FINGERPRINT, provenance=PROVENANCE, signer=a_key())
    assert not left.exists()


def test_a_swept_draft_that_was_renamed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    """The sweeper may wait at the lock while the owner names its draft: then the lock is of the finished tree."""
    with staging.draft_directory(tmp_path / "into") as draft:
        (draft.path / "whole").write_text("whole")
        fd = os.open(draft.path, os.O_RDONLY)
        staging.publish_directory(draft, tmp_path / "into", replace=False)
    assert not staging._is_at(fd, draft.path)
    os.close(fd)
    assert read_tree(tmp_path / "into") == {"whole": b"whole"}


# Paths inside files


def test_triton_groups_name_the_new_place(tmp_path: Path) -> None:
    tree = tmp_path / 'made "here"'
    group = tree / "triton_cache/KEY/__grp__kernel.json"
    group.parent.mkdir(parents=True)
    (group.parent / "kernel.cubin").write_bytes(b"cubin")
    group.write_text(json.dumps({"child_paths": {"kernel.cubin": str(group.parent / "kernel.cubin")}}))
    elsewhere = group.with_name("__grp__other.json")
    elsewhere.write_text(json.dumps({"child_paths": {"other.cubin": "/elsewhere/other.cubin"}}))
    group.with_name("__grp__broken.json").write_text("{")
    token = json.dumps({"child_paths": {"k": "@PILOTLIGHT_CACHE_ROOT@/../../elsewhere"}})
    group.with_name("__grp__sly.json").write_text(token)
    packed = pack(tree, tmp_path, fingerprint=FINGERPRINT, provenance=PROVENANCE, signer=a_key())
    left_out = ("broken", "other", "sly")
    assert packed.left_out == tuple(f"triton_cache/KEY/__grp__{name}.json" for name in left_out)
    into = tmp_path / "into"
    restore(packed.path, into, trust=trust(), expected_key=KEY)
    paths = json.loads((into / "triton_cache/KEY/__grp__kernel.json").read_text())["child_paths"]
    assert paths == {"kernel.cubin": str(into / "triton_cache/KEY/kernel.cubin")}
    assert Path(paths["kernel.cubin"]).read_bytes() == b"cubin"
    again = pack(into, tmp_path, fingerprint=FINGERPRINT, provenance=PROVENANCE, signer=a_key())
    assert again.digest == packed.digest


def test_a_padding_is_exact() -> None:
    assert [len(padding(size)) for size in (0, 1, 511, 512, 513)] == [0, 511, 1, 0, 511]
