"""The record beside each bundle."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.cache.stores.base import BundleRef
from runtime.cache.stores.record import from_json, to_json
from tests.unit.runtime.cache.stores.samples import KEY, NOON, ref


@given(st.dictionaries(st.text(), st.text(), max_size=5))
def test_what_is_written_is_read(metadata: dict[str, str]) -> None:
    written = BundleRef(KEY, KEY, 5, NOON, metadata)
    found = from_json(to_json(written))
    assert found == written
    assert found is not None
    assert (found.metadata, found.size_bytes, found.published_at) == (metadata, 5, NOON)


@given(st.integers(0, 400), st.integers(0, 255))
def test_a_damaged_record_is_none_or_still_a_record(place: int, byte: int) -> None:
    data = bytearray(to_json(ref(1)))
    data[place % len(data)] = byte
    from_json(bytes(data))
    assert from_json(bytes(data[: place % len(data)])) is None


@pytest.mark.parametrize(
    "change",
    [
        {"key": "../../etc/passwd"},
        {"digest": "a" * 63},
        {"digest": "A" * 64},
        {"version": 2},
        {"size_bytes": -1},
        {"published_at": "2026-03-02T12:00:00"},
        {"metadata": {"a": 1}},
        {"metadata": []},
        {"key": 7},
    ],
)
def test_what_is_no_record_of_ours_is_none(change: dict[str, object]) -> None:
    assert from_json(json.dumps(json.loads(to_json(ref(1))) | change).encode()) is None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 50_000])
def test_other_bytes_are_none(data: bytes) -> None:
    assert from_json(data) is None


def test_metadata_that_is_no_metadata_is_refused() -> None:
    with pytest.raises(ValueError, match="65536"):
        to_json(BundleRef(KEY, KEY, 5, NOON, {"log": "x" * 70_000}))
