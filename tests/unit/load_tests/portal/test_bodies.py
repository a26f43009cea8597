import json

import pytest

from portal import bodies


def test_bodies_have_4_kb_in_the_mean_and_are_never_equally_long() -> None:
    sizes = [len(body) for body in bodies.mix()]
    assert sum(sizes) / len(sizes) == 4096
    assert len(set(sizes)) == len(sizes)
    assert len(bodies.chat("model-0", first=True)) == 4096


def test_each_model_comes_first_once_and_last_once() -> None:
    mix = bodies.mix()
    read = [json.loads(body) for body in mix]
    assert [each["model"] for each in read if next(iter(each)) == "model"] == list(bodies.MODELS)
    assert [each["model"] for each in read if list(each)[-1] == "model"] == list(bodies.MODELS)


def test_decoys_mean_the_model_though_the_other_is_written_in_them() -> None:
    for body in bodies.decoys("model-1", "model-2"):
        assert json.loads(body)["model"] == "model-1"
        assert b"model-2" in body


@pytest.mark.parametrize("wanted", ["nested", "quoted"])
def test_decoys_mislead_whoever_takes_the_first_match(wanted: str) -> None:
    naive = b'"model":"model-2"' if wanted == "nested" else rb"\"model\":\"model-2\""
    assert any(naive in body for body in bodies.decoys("model-1", "model-2"))


def test_a_request_says_how_long_its_body_is() -> None:
    head, _, body = bodies.on_wire(bodies.stream("model-3", chunks=7, period_us=20_000)).partition(b"\r\n\r\n")
    assert b"Content-Length: 4096" in head.split(b"\r\n")
    assert json.loads(body) | {"messages": []} == {
        "messages": [],
        "max_tokens": 64,
        "temperature": 0.7,
        "stream": True,
        "bench_chunks": 7,
        "bench_period_us": 20_000,
        "model": "model-3",
    }
