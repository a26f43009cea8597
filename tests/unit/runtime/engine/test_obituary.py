"""A child of multiprocessing that a signal ends is told by its parent, and by nobody else."""

import os
import subprocess
import sys

import pytest

from runtime.engine.obituary import Death, parse, render

CHILD = """
import multiprocessing.connection, os, signal, sys, time
from runtime.engine.obituary import tell_deaths
tell_deaths()
def work(way):
    if way == "exits": sys.exit(3)
    if way.startswith("crashes"): os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(600)
if __name__ == "__main__":
    way = sys.argv[1]
    child = multiprocessing.get_context("spawn").Process(target=work, args=(way,), name="EngineCore")
    child.start()
    if way == "killed": os.kill(child.pid, signal.SIGKILL)
    if way == "crashes and is ended":
        multiprocessing.connection.wait([child.sentinel])  # dead, and not reaped yet
        child.terminate()
        child.kill()
    if way == "ended": child.terminate()
    child.join()
    print(child.exitcode)
"""


@pytest.mark.parametrize(
    ("way", "code", "told"),
    [
        ("killed", -9, Death("EngineCore", -9)),
        ("crashes", -11, Death("EngineCore", -11)),
        ("crashes and is ended", -11, Death("EngineCore", -11)),  # vLLM ends its workers before it asks how they are
        ("ended", -15, None),
        ("exits", 3, None),
    ],
)
def test_a_death(way: str, code: int, told: Death | None, tmp_path: os.PathLike[str]) -> None:
    script = os.path.join(tmp_path, "parent.py")
    with open(script, "w") as file:
        file.write(CHILD)
    ran = subprocess.run(
        [sys.executable, script, way],
        env={**os.environ, "PILOTLIGHT_STAGES": "1", "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ran.stdout.strip() == str(code)
    deaths = [death for line in ran.stderr.splitlines() if (death := parse(line))]
    assert deaths == ([] if told is None else [told])


@pytest.mark.parametrize(
    ("line", "expect"),
    [
        (render(Death("Worker", -9)), Death("Worker", -9)),
        ("PILOTLIGHT_DEATH {", None),
        ('PILOTLIGHT_DEATH {"process": "x"}', None),
        ('PILOTLIGHT_DEATH {"process": "x", "code": "many"}', None),
        ("INFO", None),
    ],
)
def test_parse(line: str, expect: Death | None) -> None:
    assert parse(line) == expect
