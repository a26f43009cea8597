"""An hour of traffic in minutes on a real `up` with fake engines: nothing that our processes hold grows.

The long form is told by `make prove`; the short one keeps it honest in CI, where only what grows fast shows.
"""

import asyncio
import json
import os
import shlex
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from tests.leaks.figures import Held, growth, held, processes, size_bytes
from tests.leaks.traffic import Traffic
from tests.serving import Up, running, runtime

SAMPLES = 45
LONG_S = float(os.environ.get("PILOTLIGHT_LEAKS_S", "600"))
# Allocators keep what they once had, and the history fills up to its bounds (10,000 events, 500 starts a service).
MEMORY_BYTES = 6 * 2**20
DESCRIPTORS = 6.0
THREADS = 2.0


async def _play(up: Up, traffic: Traffic, seconds: float) -> tuple[Counter[str], list[dict[str, Held]]]:
    playing = asyncio.create_task(traffic.run(seconds))
    ours, samples = processes(up), []
    for _ in range(SAMPLES):
        await asyncio.sleep(seconds / SAMPLES)
        samples.append({name: held(process) for name, process in ours.items()})
    await playing
    return traffic.done, samples


def judge(samples: list[dict[str, Held]]) -> list[str]:
    """A line for each process; the figures that grow are named with `grows`."""
    told = []
    for name in samples[0]:
        own = [sample[name] for sample in samples]
        memory, descriptors = growth(s.uss_bytes for s in own), growth(s.descriptors for s in own)
        threads, children = growth(s.threads for s in own), growth(s.children for s in own)
        wrong = [
            what
            for what, grew, most in (
                ("memory", memory, MEMORY_BYTES),
                ("descriptors", descriptors, DESCRIPTORS),
                ("threads", threads, THREADS),
                ("children", children, 3.0),
            )
            if grew > most
        ]
        told.append(
            f"{name:6} {own[-1].uss_bytes / 2**20:6.1f} MiB ({memory / 2**20:+.2f}), {own[-1].descriptors} descriptors "
            f"({descriptors:+.0f}), {own[-1].threads} threads ({threads:+.0f})"
            + "".join(f"; {what} grows" for what in wrong)
        )
    return told


def _leaks(tmp_path: Path, seconds: float, seed: int) -> None:
    command = shlex.join([sys.executable, str(Path(__file__).with_name("engine.py"))])
    up = Up(tmp_path, engine_command=command)
    (up.files / "runtime.yaml").write_text(runtime())
    begun = time.monotonic()
    traffic = Traffic(up, seed)
    with running(up):
        done, samples = asyncio.run(_play(up, traffic, seconds))
        starts = sum(text.count(" ready after ") for text in up.said().splitlines())
        told = judge(samples)
        state = size_bytes(up.state)
        passing = [text for text in ("services", "plan") if "passing" in up.api("GET", f"/v1/{text}").text]
    print("\n".join(told))
    memory = {name: [round(s[name].uss_bytes / 2**20, 1) for s in samples[::4]] for name in samples[0]}
    print(json.dumps({"uss_mib": memory}))
    print(
        json.dumps(
            {"leaks": dict(done), "starts": starts, "state_bytes": state, "seconds": round(time.monotonic() - begun)}
        )
    )
    assert not [line for line in told if "grows" in line], told
    assert not passing, "services whose files are gone are still shown"
    assert not [status for status in done if status.endswith((" 500", " 502"))], done
    assert not [p for p in psutil.process_iter() if str(tmp_path) in " ".join(_command(p))]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_a_minute_of_traffic_leaves_nothing_behind(tmp_path: Path) -> None:
    _leaks(tmp_path, 30.0, seed=1)


@pytest.mark.prove
def test_an_hour_of_traffic_leaves_nothing_behind(tmp_path: Path) -> None:
    _leaks(tmp_path, LONG_S, seed=2)
