import json
import os
import subprocess
import sys
import time

import pytest

from runtime.engine.marker import Marker, Role, parse, process_begun, render, role_of


def test_a_marker_survives_its_line() -> None:
    marker = Marker("plugin", "core", 7, at=12.5, begun=10.25)
    assert parse(render(marker)) == marker
    assert parse("Loading: 0%" + render(marker)) == marker


@pytest.mark.parametrize("line", ["", "INFO", "PILOTLIGHT_MARK {", 'PILOTLIGHT_MARK {"point": "main", "more": 1}'])
def test_anything_else_is_no_marker(line: str) -> None:
    assert parse(line) is None


@pytest.mark.parametrize(
    ("process", "main", "role"),
    [
        ("MainProcess", "runtime.engine.serve", "api"),
        ("MainProcess", "vllm.model_executor.models.registry", "other"),
        ("EngineCore", "__mp_main__", "core"),
        ("EngineCore_DP0", "__mp_main__", "core"),
        ("VllmWorker-0", "__mp_main__", "worker"),
        ("ApiServer_1", "__mp_main__", "other"),
    ],
)
def test_role_of(process: str, main: str, role: Role) -> None:
    assert role_of(process, main) == role


def test_process_begun_is_about_when_it_was_created() -> None:
    before = time.time()
    code = "from runtime.engine.marker import process_begun; print(process_begun())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # A clock tick is 10 ms; one more for rounding.
    assert before - 0.02 <= float(ran.stdout) <= time.time() + 0.02
    assert process_begun() is not None


@pytest.mark.parametrize(("stages", "printed"), [("1", True), ("0", False)])
def test_the_plugin_is_inert_unless_asked(stages: str, printed: bool) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "from runtime.engine.vllm_plugin import register; register()"],
        env={**os.environ, "PILOTLIGHT_STAGES": stages},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == ""
    marker = parse(ran.stderr)
    assert (marker is not None) is printed
    if marker is not None:
        assert (marker.point, marker.role) == ("plugin", "other")
        assert len(ran.stderr.splitlines()) == 1
        assert json.loads(ran.stderr.partition(" ")[2])["pid"] == marker.pid


def test_a_spawned_child_marks_itself() -> None:
    """`python -m` and multiprocessing's spawn, as vLLM does it, with a stand-in for vLLM's main."""
    code = (
        "import multiprocessing, runpy, sys, types\n"
        "cli = types.ModuleType('vllm.entrypoints.cli.main')\n"
        "def main():\n"
        "    process = multiprocessing.get_context('spawn').Process(target=print, name='EngineCore')\n"
        "    process.start(); process.join()\n"
        "cli.main = main\n"
        "for name in ('vllm', 'vllm.entrypoints', 'vllm.entrypoints.cli'):\n"
        "    sys.modules[name] = types.ModuleType(name)\n"
        "sys.modules['vllm.entrypoints.cli.main'] = cli\n"
        "runpy.run_module('runtime.engine.serve', run_name='__main__', alter_sys=True)\n"
    )
    env = {**os.environ, "PILOTLIGHT_STAGES": "1", "PILOTLIGHT_PARENT_PID": str(os.getpid())}
    ran = subprocess.run([sys.executable, "-P", "-c", code], env=env, capture_output=True, text=True, check=True)
    markers = [marker for line in ran.stderr.splitlines() if (marker := parse(line))]
    assert [(marker.point, marker.role) for marker in markers] == [("main", "api"), ("main", "core")]
