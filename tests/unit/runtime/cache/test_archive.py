"""The archive's own bytes: tar headers that other programs read, and where a zstd frame ends."""

import io
import tarfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import assume, example, given
from hypothesis import strategies as st

from runtime.cache.archive import FILE_BYTES, BadFrame, header, member_bytes, padding, read_frame, tar_bytes
from runtime.cache.faults import BundleFault
from runtime.cache.paths import check_path
from tests.unit.runtime.cache.hostile import tar_of

_COMPONENT = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="/\\"), min_size=1, max_size=120)
_PATHS = st.lists(_COMPONENT, min_size=1, max_size=5).map(lambda parts: "tilelang/" + "/".join(parts))


@given(_PATHS, st.integers(0, FILE_BYTES), st.sampled_from([0o644, 0o755]))
@example("tilelang/" + "n" * 91, 0, 0o644)
@example("tilelang/" + "n" * 92, 1, 0o644)
@example("tilelang/" + "d" * 146 + "/" + "n" * 99, 1, 0o755)
@example("tilelang/" + "d" * 147 + "/" + "n" * 100, 1, 0o755)
@example("tilelang/" + "d" * 145 + "/" + "n" * 101, 1, 0o755)
@example("tilelang/" + "é" * 120, FILE_BYTES, 0o644)
def test_tarfile_reads_every_header(path: str, size: int, mode: int) -> None:
    try:
        check_path(Path("x"), path)
    except BundleFault:
        assume(False)
    name = "files/" + path
    head = header(name, size, mode)
    assert len(head) % 512 == 0
    with tarfile.open(fileobj=io.BytesIO(head), mode="r:") as opened:
        member = opened.next()
    assert member is not None
    assert (member.name, member.size, member.mode, member.isreg()) == (name, size, mode, True)
    assert (member.mtime, member.uid, member.gid, member.uname, member.gname) == (0, 0, 0, "", "")


@given(st.lists(st.tuples(_PATHS, st.binary(max_size=1200)), max_size=5))
def test_the_size_of_a_tar_is_known_before(files: list[tuple[str, bytes]]) -> None:
    tar = tar_of([(header(name, len(content)), content) for name, content in files])
    assert len(tar) == tar_bytes((name, len(content)) for name, content in files)
    for name, content in files:
        assert member_bytes(name, len(content)) == len(header(name, len(content)) + content + padding(len(content)))


@given(
    st.binary(max_size=300_000) | st.integers(0, 5_000_000).map(bytes),
    st.integers(-5, 12),
    st.integers(0, 2),
    st.binary(min_size=1, max_size=9),
)
def test_the_end_of_a_frame_is_found(content: bytes, level: int, threads: int, tail: bytes) -> None:
    compressor = zstandard.ZstdCompressor(level=level, threads=threads, write_checksum=True)
    data = compressor.compress(content)
    assert read_frame(io.BytesIO(data), len(data)).content_bytes == len(content)
    with pytest.raises(BadFrame) as caught:
        read_frame(io.BytesIO(data + tail), len(data + tail))
    assert not caught.value.truncated
    for length in {len(data) - 1, len(data) // 2, 5}:
        with pytest.raises(BadFrame) as caught:
            read_frame(io.BytesIO(data[:length]), length)
        assert caught.value.truncated
