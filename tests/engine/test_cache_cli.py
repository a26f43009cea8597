"""`pilotlight cache build` on real vLLM: the bundle it makes is the one that a host's start asks for, and uses."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import psutil

from runtime.cache.shelf import Shelf
from runtime.cache.trust import TrustPolicy
from runtime.contract import EngineSpec, Verdict
from runtime.engine.fork.pool import ForkPool
from runtime.engine.launch import Launcher
from runtime.engine.spans import SpanReceiver
from runtime.engine.start import EngineDirs, EngineStart, utc_now
from tests.engine.conftest import model

ARGS = ("--max-model-len=512", "--max-num-seqs=8", "--dtype=bfloat16")


def cache(state: Path, *words: str | Path) -> str:
    """stdout of `pilotlight cache …`."""
    done = subprocess.run(
        [sys.executable, "-m", "activator_ext", "cache", *map(str, words)],
        env={**os.environ, "PILOTLIGHT_STATE": str(state)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def working_below(path: Path) -> list[str]:
    """Processes whose working directory is below `path`: an engine's is."""
    found = []
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if Path(each.cwd()).is_relative_to(path):
                found.append(" ".join(each.cmdline()))
    return found


async def test_a_start_uses_what_build_has_built(tmp_path: Path) -> None:
    directory, state, far = model(tmp_path / "m", 7), tmp_path / "state", tmp_path / "far"
    cache(state, "keygen", tmp_path / "build.key")
    words = ("build", directory, "--args", " ".join(ARGS), "--store", far, "--key", tmp_path / "build.key", "--json")
    (built,) = json.loads(cache(state, *words))["variants"]
    assert (built["result"], built["verdict"]) == ("built", "used")
    assert working_below(tmp_path) == []

    policy = tmp_path / "trust.yaml"
    pem = (tmp_path / "build.key.pub").read_text()
    policy.write_text(json.dumps({"keys": [{"name": "builds", "public_key": pem}]}))
    spec = EngineSpec(service="team/chat", served_names=("chat",), model=str(directory), args=ARGS, start_timeout_s=400)
    forks, spans = ForkPool(), SpanReceiver()
    shelf = Shelf(
        tmp_path / "host" / ".shelf",
        clock=utc_now,
        version="0",
        stores=[f"file://{far}"],
        policy=TrustPolicy.load(policy),
    )
    await spans.start()
    base = tmp_path / "host" / "0"
    launcher = Launcher(forks=forks, shelf=shelf)
    launcher.want(spec)
    start = EngineStart(
        spec=spec,
        start_id="a-1",
        replica="team/chat/0",
        dirs=EngineDirs(cache=base / "cache", log=base / "engine.log", run=base / "run"),
        asked_at=utc_now(),
        why="a test",
        spans=spans,
        on_change=lambda _: None,
        on_stage=lambda _: None,
        launcher=launcher,
    )
    try:
        engine = await start.run()
        start.admit(utc_now())
        record = await start.published()
        await engine.stop(1.0)
    finally:
        await start.close()
        await forks.close()
        await shelf.close()
        await spans.close()
    assert (record.cache.key, record.cache.digest) == (built["key"], built["digest"])
    assert record.cache.verdict is Verdict.USED, record.cache
    assert record.cache.origin == f"file://{far}"
    (row,) = json.loads(cache(state, "ls", far, "--trust", policy, "--json"))
    assert (row["model"], row["signer"]) == ("LlamaForCausalLM 2×128", "builds")
    assert row["compile_s"] > record.cache.compile_s
