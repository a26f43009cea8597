"""The bench from end to end, in its quick form; and how it ends when it cannot go on."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from portal.__main__ import main
from portal.build import HERE
from portal.machine import BenchFailed, check_programs

ROOT = HERE.parent.parent
COMMAND = [sys.executable, "-m", "portal", "--quick"]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(HERE.parent), **more}


@pytest.fixture
def peers() -> None:
    try:
        check_programs()
    except BenchFailed as missing:
        pytest.skip(str(missing))


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a bench keeps its files; short, as there are unix sockets in it."""
    path = Path(tempfile.mkdtemp(prefix="b-"))
    yield path
    shutil.rmtree(path)


def left_over() -> list[str]:
    """Processes of a bench that is gone."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.cmdline())
            if "bench-portal-" in line or str(HERE) in line:
                found.append(line)
    return found


def test_a_missing_program_is_one_clear_error(tmp_path: Path) -> None:
    done = subprocess.run(
        COMMAND, cwd=ROOT, env=environment(PATH=str(tmp_path)), capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "bench-portal: haproxy, caddy, wrk, taskset, setpriv not found. Install them: apt-get "
    )
    assert done.stderr.count("\n") == 1


def test_help_says_what_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert all(each in said for each in ("--quick", "--json", "HAProxy", "Caddy", "last line"))


@pytest.mark.prove
@pytest.mark.usefixtures("peers")
def test_a_quick_run_measures_everything_and_leaves_nothing(tmp_path: Path) -> None:
    written = tmp_path / "found.json"
    done = subprocess.run(
        [*COMMAND, "--json", written],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert list(last) == ["bench", "rps_vs_caddy", "rps_vs_haproxy", "added_p50_ms", "added_p99_ms"]
    assert all(figure > 0 for name, figure in last.items() if name.startswith("rps"))
    found = json.loads(written.read_text(encoding="utf-8"))
    assert found["result"] == last
    assert set(found["streams"][0]) == {"direct", "portal", "haproxy", "caddy"}
    assert found["decoys"]["portal"] == "9 of 9"
    assert left_over() == []


@pytest.mark.prove
@pytest.mark.usefixtures("peers")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)])
def test_however_it_is_stopped_nothing_is_left(number: signal.Signals, status: int, folder: Path) -> None:
    with subprocess.Popen(
        COMMAND, cwd=ROOT, env=environment(TMPDIR=str(folder)), stderr=subprocess.PIPE, text=True
    ) as bench:
        assert bench.stderr is not None
        for line in bench.stderr:
            if "routes are right" in line:
                break
        bench.send_signal(number)
        said = bench.stderr.read()
        assert bench.wait(30) == status
    if number != signal.SIGKILL:
        assert said.endswith("stopped; nothing is left running\n")
        assert list(folder.iterdir()) == []
    for process in [psutil.Process(p.pid) for p in psutil.process_iter() if str(HERE) in " ".join(_line(p))]:
        process.wait(10)  # the kernel has told them; they need a moment to be gone
    assert left_over() == []


def _line(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []
