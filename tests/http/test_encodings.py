"""Encoded bodies: those that must be read to be routed are decoded, within bounds; others pass as they are."""

import gzip
import json
import zlib
from collections.abc import Callable

import pytest

from tests.http.engine import says
from tests.http.house import Place, request
from tests.http.test_bodies import head

CHAT = "/v1/chat/completions"
LIMIT = 8 * 2**20
SMALL = gzip.compress(b'{"a": 1}')


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


PACKED: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress, "x-gzip": gzip.compress}


def chat(here: Place, **fields: object) -> bytes:
    return json.dumps({"model": here.name, **fields}).encode()


@pytest.mark.parametrize("coding", ["gzip", "deflate", "GZIP"])
def test_a_packed_body_is_routed_by_its_model(here: Place, coding: str) -> None:
    body = chat(here, text="ä" * 10_000)
    line = here.line()
    for _ in range(2):
        line.send(request("POST", CHAT, f"Content-Encoding: {coding}", body=PACKED[coding.lower()](body)))
        assert line.answer().status == 200

    for seen in here.engine.seen:
        unpacked = seen.body if not seen.all("content-encoding") else gzip.decompress(seen.body)
        assert unpacked == body
        assert seen.all("content-length") == [str(len(seen.body))]


def test_deflate_without_its_frame_is_read_or_refused(here: Place) -> None:
    """Some send it so against RFC 9110 §8.4.1.2, which asks for zlib's frame."""
    body = chat(here)
    line = here.line()
    line.send(request("POST", CHAT, "Content-Encoding: deflate", body=raw_deflate(body)))
    answer = line.answer()

    assert answer.status in (200, 400)
    assert [seen.body for seen in here.engine.seen] == ([body] if answer.status == 200 else [])


def test_identity_is_no_coding(here: Place) -> None:
    line = here.line()
    line.send(request("POST", CHAT, "Content-Encoding: identity", body=chat(here)))

    assert line.answer().status == 200


BROKEN = {
    "no gzip": b"hello",
    "half of it": gzip.compress(b'{"model": "x"}' * 100)[:30],
    "no end": gzip.compress(b'{"model": "x"}')[:-8],
    "a wrong sum": gzip.compress(b'{"model": "x"}')[:-8] + bytes(8),
    "something after it": gzip.compress(b'{"model": "x"}') + b"tail",
    "nothing": b"",
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_body_is_400(here: Place, case: str) -> None:
    line = here.line()
    line.send(request("POST", CHAT, "Content-Encoding: gzip", body=BROKEN[case]))
    answer = line.answer()

    assert answer.status == 400
    answer.error()
    assert here.engine.raw == b""


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("size", [LIMIT + 1, 128 * 2**20])
def test_a_bomb_is_413_and_costs_no_memory(here: Place, coding: str, size: int) -> None:
    packer = zlib.compressobj(9, wbits=31 if coding == "gzip" else 15)
    packed = (
        b"".join(packer.compress(bytes(2**20)) for _ in range(size // 2**20)) + packer.compress(b"x") + packer.flush()
    )
    here.house.forget_peak()
    before = here.house.rss_bytes()
    line = here.line()
    line.send(request("POST", CHAT, f"Content-Encoding: {coding}", body=packed))
    answer = line.answer()

    assert answer.status == 413
    answer.error()
    assert here.house.rss_bytes() - before < 8 * LIMIT
    assert here.engine.raw == b""


@pytest.mark.parametrize("coding", ["x-none", "gzip, gzip", "gzip, deflate", "zstd-of-2050", "identity, x-none"])
def test_another_coding_is_415_where_the_body_must_be_read(here: Place, coding: str) -> None:
    line = here.line()
    line.send(request("POST", CHAT, f"Content-Encoding: {coding}", body=chat(here)))
    answer = line.answer()

    assert answer.status == 415
    answer.error()
    assert here.engine.raw == b""


def test_another_coding_passes_by_path(here: Place) -> None:
    line = here.line()
    line.send(here.post("Content-Encoding: x-none", body=b"\x00\x01packed"))

    assert line.answer().status == 200
    assert (here.engine.seen[0].body, here.engine.seen[0].all("content-encoding")) == (b"\x00\x01packed", ["x-none"])


@pytest.mark.parametrize("body", [SMALL, gzip.compress(bytes(20 * 2**20)), b"no gzip"])
def test_what_goes_by_path_means_to_the_engine_what_its_headers_say(here: Place, body: bytes) -> None:
    """Decoded or as it came, but never one with the headers of the other. A broken or huge one may be refused."""
    line = here.line()
    line.send(here.post("Content-Encoding: gzip", "Content-Type: application/json", body=body))
    answer = line.answer()
    if answer.status != 200:
        assert answer.status == (400 if body == b"no gzip" else 413)
        assert body != SMALL
        return
    (seen,) = here.engine.seen
    if seen.all("content-encoding"):
        assert seen.body == body
    else:
        assert seen.body == gzip.decompress(body)


@pytest.mark.parametrize("asks", ["gzip", "br;q=1.0, *;q=0.5", "identity"])
def test_answers_are_not_packed_on_the_way(settle: Callable[..., Place], asks: str) -> None:
    """A heartbeat may stand before them: the engine is asked for plain bytes; what it packs all the same passes."""
    packed = gzip.compress(b"hello")
    here = settle(says(head("Content-Encoding: gzip", f"Content-Length: {len(packed)}") + packed))
    line = here.line()
    line.send(here.post(f"Accept-Encoding: {asks}"))
    answer = line.answer()

    assert (answer.body, answer.header("content-encoding")) == (packed, "gzip")
    assert here.engine.seen[0].all("accept-encoding") in ([], ["identity"])
