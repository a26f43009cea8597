"""The checks of tests/chaos see what they are there for: a planted second engine, an answer that only looks whole."""

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.kit import FAKE, HERE, ChaosUp, _meaning

WHOLE = '{"choices": [{"finish_reason": "stop"}]}'
CHUNK = 'data: {"choices": [{"delta": {"content": "t1 "}}]}\n\n'


def test_a_second_engine_of_one_replica_is_seen(tmp_path: Path) -> None:
    up = ChaosUp(tmp_path)
    run = up.state / "engines" / "test" / "chat" / "0" / "run"
    run.mkdir(parents=True)
    engine = [sys.executable, str(HERE / "lone_engine.py"), "--no-such-option"]
    subprocess.run(engine, cwd=run, capture_output=True, check=False)
    up.never_two()
    with (run.parent / "alone").open("a") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        subprocess.run(engine, cwd=run, capture_output=True, check=False)
    with pytest.raises(AssertionError, match="two engines of one replica at once"):
        up.never_two()


def test_the_fake_engine_of_chaos_is_the_one_that_tells() -> None:
    assert "lone_engine.py" in FAKE


@pytest.mark.parametrize(
    ("status", "text", "stream", "meaning"),
    [
        (200, WHOLE, False, "answered"),
        (200, WHOLE[:-5], False, "SILENT"),
        (200, '{"choices": [{"finish_reason": null}]}', False, "SILENT"),
        (200, "", False, "SILENT"),
        (503, '{"error": {"code": "killed"}}', False, "error 503 killed"),
        (503, "<html>", False, "SILENT"),
        (200, f"{CHUNK}data: [DONE]\n\n", True, "answered"),
        (200, CHUNK, True, "SILENT"),
        (200, ": heartbeat\n\n", True, "SILENT"),
        (200, f'{CHUNK}data: {{"error": {{"code": "engine_lost"}}}}\n\n', True, "error in stream engine_lost"),
    ],
)
def test_what_a_client_was_told(status: int, text: str, stream: bool, meaning: str) -> None:
    assert _meaning(status, text, stream=stream).startswith(meaning)
