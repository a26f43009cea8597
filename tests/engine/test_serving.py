"""The main job on real vLLM: from zero, together, alike, whole, and back to zero."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import openai

from tests.engine.conftest import model
from tests.serving import Up, service, wait_for

START_S = 240
"""A start takes 25 to 80 s on two cores, more on a busy machine; only one that never ends fails."""


def to_zero(up: Up, name: str) -> None:
    """Wait until the service has gone to zero by itself."""
    up.wait_warmth(name, "cold", within_s=60)
    wait_for(lambda: not up.engines(), within_s=60, saying="engine processes are gone")


def text(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    found: str = answer.json()["choices"][0]["text"]
    return found


def test_fifty_clients_at_zero_make_one_start_and_all_are_answered_alike(up: Up) -> None:
    to_zero(up, "one")
    before = len(up.starts("one"))
    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(lambda _: up.ask("one", timeout_s=START_S), range(50)))
    assert [answer.status_code for answer in answers] == [200] * 50
    assert len({text(answer) for answer in answers}) == 1
    assert len(up.starts("one")) == before + 1


def test_the_answer_is_the_same_after_zero(up: Up) -> None:
    first = text(up.ask("one", timeout_s=START_S))
    to_zero(up, "one")
    assert up.status("one")["floor"] == 0
    again = up.ask("one", timeout_s=START_S)
    assert float(again.headers["x-pilotlight-waited-ms"]) > 500
    assert text(again) == first
    start = up.starts("one")[0]
    assert (start["kind"], start["outcome"]) == ("fork", "ready")
    assert start["attributed"] >= 0.95


def test_two_seeds_two_answers(up: Up) -> None:
    assert text(up.ask("one", timeout_s=START_S)) != text(up.ask("two", timeout_s=START_S))


def test_openai_client_waits_and_streams(up: Up) -> None:
    with openai.OpenAI(base_url=f"http://{up.portal}/v1", api_key="none", timeout=START_S, max_retries=0) as client:
        assert {"test/one", "one", "test/two", "two"} <= {model.id for model in client.models.list()}
        chunks = client.chat.completions.create(
            model="test/one", messages=[{"role": "user", "content": "hello"}], stream=True, max_tokens=8, temperature=0
        )
        pieces = [chunk.choices[0].delta.content or "" for chunk in chunks]
        whole = client.chat.completions.create(
            model="one", messages=[{"role": "user", "content": "hello"}], max_tokens=8, temperature=0
        )
    assert "".join(pieces) == whole.choices[0].message.content


def test_streams_of_twenty_seconds_through_a_scale_down_are_whole(up: Up) -> None:
    """Two streams on two replicas; the hold for the second ends, and it drains while its stream runs on.

    On the wide model: the tiny one makes a thousand tokens a second, and keeps two cores too busy to see anything else.
    """
    hold = up.api("POST", "/v1/holds", {"service": "test/wide", "for_s": 600, "replicas": 2}).json()
    wait_for(lambda: len(warm(up, "wide")) == 2, within_s=2 * START_S, saying="two warm replicas")
    tokens = tokens_in(up, "wide", seconds=40.0)

    def stream(begun: threading.Event) -> tuple[list[str], float]:
        body = {"model": "wide", "prompt": "x", "max_tokens": tokens, "ignore_eos": True, "stream": True}
        lines, start = [], time.monotonic()
        url = f"http://{up.portal}/v1/completions"
        with httpx.stream("POST", url, json=body, timeout=START_S) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    lines.append(line)
                    begun.set()
        return lines, time.monotonic() - start

    with ThreadPoolExecutor(2) as pool:
        begun = threading.Event(), threading.Event()
        answers = [pool.submit(stream, event) for event in begun]
        assert all(event.wait(START_S) for event in begun)
        assert up.api("DELETE", f"/v1/holds/{hold['id']}").status_code == 204
        wait_for(lambda: any(r["draining"] for r in up.status("wide")["replicas"]), within_s=15, saying="one drains")
        early = [answer.result() for answer in answers if answer.done()]
        assert not early, [(lines[-2:], took_s) for lines, took_s in early]
        for lines, took_s in (answer.result() for answer in answers):
            assert lines[-1] == "data: [DONE]"
            assert json.loads(lines[-2].removeprefix("data: "))["choices"][0]["finish_reason"] == "length"
            assert took_s >= 20
    wait_for(lambda: len(up.status("wide")["replicas"]) <= 1, within_s=60, saying="the drained replica is gone")


def warm(up: Up, name: str) -> list[str]:
    """The ids of its replicas that can answer."""
    return [r["id"] for r in up.status(name)["replicas"] if r["warmth"] in ("warm", "busy") and not r["draining"]]


def tokens_in(up: Up, name: str, *, seconds: float) -> int:
    """About how many tokens a warm engine makes in that time, at most what its context takes."""
    begun = time.monotonic()
    text(up.ask(name, max_tokens=200, ignore_eos=True, timeout_s=START_S))
    return min(int(200 / (time.monotonic() - begun) * seconds), 8000)


def test_a_flipped_tensor_is_never_admitted(up: Up) -> None:
    """Weights that lie where the proven ones lay, but differ: the golden prompt finds it out."""
    text(up.ask("two", timeout_s=START_S))
    golden = next(start for start in up.starts("two") if start["outcome"] == "ready")["golden_tokens"]
    model(up.models / "flipped", 1)
    negate_first_tensor(up.models / "flipped" / "model.safetensors")
    policy = "golden: {tokens: " + json.dumps(golden) + "}"
    (up.files / "flipped.yaml").write_text(service("flipped", cost="5s", policy=policy))
    try:
        wait_for(lambda: "test/flipped" in up.api("GET", "/v1/services").text, within_s=15, saying="it is served")
        answer = up.ask("flipped", timeout_s=START_S)
        assert answer.status_code == 503
        assert "golden" in answer.json()["error"]["message"]
        assert up.status("flipped")["last_failure"]["cause"] == "golden-wrong"
        assert "ready" not in [start["outcome"] for start in up.starts("flipped")]
    finally:
        (up.files / "flipped.yaml").unlink()


def negate_first_tensor(file: Path) -> None:
    """Flip the sign of every value of the first bfloat16 tensor (the top bit of each second byte)."""
    data = bytearray(file.read_bytes())
    header_bytes = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + header_bytes])
    begin, end = next(entry["data_offsets"] for name, entry in header.items() if name != "__metadata__")
    for offset in range(8 + header_bytes + begin + 1, 8 + header_bytes + end, 2):
        data[offset] ^= 0x80
    file.write_bytes(data)
