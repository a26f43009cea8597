"""Capture sizes and a real vLLM: its own sizes are those we compare with, our arguments are its, its steps are counted.

A CPU captures nothing: load-tests/gpu shows the rest, on a GPU.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from runtime.engine.capture.sizes import own_sizes
from runtime.engine.capture.steps import BUCKET_ARGS, FINE, Tally, steps_of
from runtime.host.shapes import FLAG
from tests.engine.test_serving import START_S, text
from tests.serving import Up

SEQS = (1, 2, 3, 8, 20, 100, 128, 256, 1024)


@pytest.fixture(scope="module")
def asked() -> Any:
    given = {"seqs": SEQS, "args": [*BUCKET_ARGS, FLAG, "1", "4"]}
    probe = [sys.executable, str(Path(__file__).with_name("capture_probe.py"))]
    done = subprocess.run(probe, input=json.dumps(given), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("seqs", SEQS)
def test_vllm_s_own_sizes_are_as_we_say(asked: Any, seqs: int) -> None:
    assert tuple(asked["own"][str(seqs)]) == own_sizes(seqs)


def test_vllm_takes_our_arguments(asked: Any) -> None:
    assert asked["sizes"] == [1, 4]
    assert asked["buckets"]["iteration_tokens"][: len(FINE)] == list(FINE)


def test_a_real_engine_s_steps_are_counted_by_their_tokens(up: Up) -> None:
    """One answer of 300 tokens: 299 steps of one token, and one with the prompt.

    Beside them the host may warm shapes: a dozen steps of one token, and a few larger ones.
    """
    text(up.ask("one", timeout_s=START_S))
    (url,) = (replica["url"] for replica in up.status("one")["replicas"] if not replica["draining"])
    tally = Tally()
    tally.new(steps_of(httpx.get(f"{url}/metrics", trust_env=False).text))
    text(up.ask("one", max_tokens=300, ignore_eos=True, timeout_s=START_S))
    new = tally.new(steps_of(httpx.get(f"{url}/metrics", trust_env=False).text))
    assert 299 <= new[1] <= 299 + 16
    assert 300 <= sum(new.values()) <= 300 + 32
