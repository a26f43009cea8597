"""Real vLLM: of two hosts with one store one compiles, the other waits for it, also where that one dies; recycling."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtime.contract import StartRecord, Verdict
from runtime.engine import compiled
from runtime.engine.fork.pool import ForkPool
from tests.engine.conftest import model
from tests.engine.following_host import ARGS
from tests.unit.runtime.host.test_recycle import CHAT, Host

ROOT = Path(__file__).parents[2]


@contextmanager
def hosted(place: Path, name: str, *step: str) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-m", "tests.engine.following_host"]
    argv += [str(place / name), str(place / "far"), str(place / "m"), *step]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as host:
        try:
            yield host
        finally:
            host.kill()


def ended(host: subprocess.Popen[str]) -> StartRecord:
    said, errors = host.communicate(timeout=500)
    assert host.returncode == 0, errors[-3000:]
    record = StartRecord.model_validate_json(said)
    waited = sum(stage.elapsed_ms for stage in record.stages if stage.stage == "cache_restore") / 1000
    print(f"{record.ready_s} s, of which {waited:.1f} s until the cache was there: {record.cache.model_dump_json()}")
    return record


@pytest.mark.prove
def test_of_two_hosts_that_start_at_once_one_compiles(tmp_path: Path) -> None:
    model(tmp_path / "m", 7)
    (tmp_path / "far").mkdir()
    with hosted(tmp_path, "a") as one, hosted(tmp_path, "b") as other:
        records = sorted((ended(one), ended(other)), key=lambda record: record.cache.verdict is Verdict.USED)
    assert [record.cache.verdict for record in records] == [Verdict.ABSENT, Verdict.USED]
    made, used = records
    assert used.cache.note.startswith("found after ")
    assert (used.cache.digest, used.golden_tokens) == (made.cache.published, made.golden_tokens)


@pytest.mark.prove
async def test_an_engine_that_compiled_is_begun_anew_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU's KV cache has a given size; here it counts as measured. What it learns then leaves the next one alone."""
    monkeypatch.setattr(compiled, "given", lambda *_: False)
    forks = ForkPool()
    host = Host(tmp_path / "h", model(tmp_path / "m", 7), forks)
    try:
        host.order(1, args=ARGS)
        first, second = await host.warm(1)
        print(f"recycled after {first.stages[-1].stage}: {first.cache.note}; ready {second.ready_s} s later")
        assert (first.outcome, first.cache.verdict) == ("recycled", Verdict.ABSENT)
        assert first.cache.published is not None
        assert (second.outcome, second.cache.verdict) == ("ready", Verdict.USED)
        assert second.golden_tokens == first.golden_tokens
    finally:
        await host.close()
        await forks.close()
    tokens = [int(found.replace(",", "")) for found in re.findall(r"KV cache size: ([\d,]+) tokens", log_of(host))]
    engine, known = next(iter(host.shelf._experience._read()[CHAT].kv_tokens.items()))
    assert engine
    assert known == tokens[-1], "learned of the start that found its code, by vLLM's own line"


def log_of(host: Host) -> str:
    (log,) = host.root.glob("engines/**/engine.log")
    return log.read_text()


@pytest.mark.prove
@pytest.mark.parametrize("step", ["compiling", "answered", "publishing"])
def test_a_host_killed_while_another_waits_for_it(tmp_path: Path, step: str) -> None:
    """The other takes the turn over, at most 35 s after the last heartbeat, or goes without: in its bound of 150 s."""
    model(tmp_path / "m", 7)
    with hosted(tmp_path, "dying", step) as dying:
        locks = tmp_path / "far" / "locks"
        while not any(locks.glob("*/[0-9]*")):
            assert dying.poll() is None
            time.sleep(0.1)  # another process makes it
        with hosted(tmp_path, "next") as following:
            record = ended(following)
        assert dying.wait(10) == -9
    assert (record.outcome, record.cache.verdict) == ("ready", Verdict.ABSENT)
    assert "its turn came after " in record.cache.note or "not waited for: " in record.cache.note
    (waited_s,) = (stage.elapsed_ms / 1000 for stage in record.stages if stage.stage == "cache_restore")
    assert waited_s < 160
