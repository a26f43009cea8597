"""Real vLLM in a pod of its own: what a client, a kubelet and the next pod see of it."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from runtime.cache.signing import SigningKey
from tests.engine.conftest import model
from tests.serving import free_port, wait_for

pytestmark = pytest.mark.prove

ARGS = ("--max-model-len=2048", "--max-num-seqs=8", "--dtype=bfloat16")


class Pod:
    """One `pilotlight-engine` in an empty directory of its own, which answers on all of this machine's loopback."""

    def __init__(self, root: Path, files: Path, *options: str) -> None:
        self.port, self.err = free_port(), root / "err"
        self.url = f"http://127.0.0.1:{self.port}"
        self.seen: list[int | None] = []
        self.events: list[dict[str, Any]] = []
        ours = ("--root", str(root / "engine"), "--listen", f"127.0.0.1:{self.port}", "--let-go-s", "1", *options)
        theirs = ("--model", str(files), "--served-model-name", "test/pod", "pod", *ARGS)
        root.mkdir()
        with self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "runtime.host.dedicated", *ours, "--", *theirs],
                stdout=subprocess.PIPE,
                stderr=err,
            )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            self.events.extend(json.loads(line) for line in lines)

    def ready(self) -> bool:
        """Ask as a kubelet does, and keep the answer."""
        try:
            status = httpx.get(f"{self.url}/pilotlight/ready").status_code
        except httpx.TransportError:
            status = None
        if self.seen[-1:] != [status]:
            self.seen.append(status)
        return status == 200

    def until_ready(self) -> dict[str, Any]:
        wait_for(self.ready, within_s=240, saying="ready")
        return wait_for(lambda: next(iter(self.starts()), None), within_s=5, saying="the start is told of")

    def starts(self) -> list[dict[str, Any]]:
        return [event["start"] for event in self.events if "start" in event]

    def published(self) -> str | None:
        return next((start["cache"]["published"] for start in self.starts() if "published" in start["cache"]), None)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(90)
        self._reader.join()
        return code


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Callable[..., Pod]]:
    made: list[Pod] = []
    files = model(tmp_path / "model", 3)

    def make(*options: str) -> Pod:
        made.append(Pod(tmp_path / f"pod{len(made)}", files, *options))
        return made[-1]

    yield make
    for each in made:
        each.process.kill()
        each.process.wait()


def test_a_pod_from_nothing_to_its_last_token_and_the_next_by_its_compiled_code(
    pod: Callable[..., Pod], tmp_path: Path
) -> None:
    key = SigningKey.generate(tmp_path / "key.pem")
    trust = tmp_path / "trust.yaml"
    trust.write_text(json.dumps({"keys": [{"name": "pods", "public_key": key.public.pem}]}))
    shared = str(tmp_path / "shared")
    first = pod("--publish-to", shared, "--signing-key", str(tmp_path / "key.pem"), "--trust", str(trust))
    cold = first.until_ready()
    assert first.seen[-1] == 200
    assert set(first.seen[:-1]) <= {None, 503}, (
        "nothing but a closed port and a closed gate before it has proven itself"
    )
    assert cold["cache"]["verdict"] == "absent"
    assert httpx.post(f"{first.url}/collective_rpc", json={}).status_code == 403
    assert httpx.get(f"{first.url}/openapi.json").status_code == 403
    wait_for(first.published, within_s=60, saying="published")

    # A stream of some seconds is running when the kubelet says that the pod goes.
    body = {"model": "pod", "prompt": "a", "max_tokens": 1200, "ignore_eos": True, "stream": True}
    with httpx.stream("POST", f"{first.url}/v1/completions", json=body, timeout=60) as answer:
        lines = answer.iter_lines()
        got = [next(lines)]
        first.process.send_signal(signal.SIGTERM)
        wait_for(lambda: not first.ready(), within_s=5, saying="readiness turns")
        assert first.seen[-1] == 503
        got += [line for line in lines if line]
    assert got[-1] == "data: [DONE]"
    assert json.loads(got[-2].removeprefix("data: "))["choices"][0]["finish_reason"] == "length"
    assert first.end() == 0

    second = pod("--store", shared, "--trust", str(trust))
    warm = second.until_ready()
    assert warm["cache"]["verdict"] == "used", warm["cache"]
    assert warm["cache"]["digest"] == first.published()
    assert warm["golden_tokens"] == cold["golden_tokens"]
    assert warm["forked"]
    assert second.end() == 0
    print(f"cold {cold['ready_s']:.1f} s, the next pod {warm['ready_s']:.1f} s ({warm['cache']['evidence']})")
