"""The progress line, with and without a terminal, and the command behind it."""

import io
import sys
from pathlib import Path

from scripts.progress import Progress, run_logged


def script(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_all_that_a_command_says_is_logged_and_its_status_returned(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = script("import sys; print('Collecting a'); print('oh', file=sys.stderr); sys.exit(3)")

    status = run_logged(command, cwd=tmp_path, log=log, progress=Progress(interactive=False, out=io.StringIO()))

    assert status == 3
    assert log.read_text().splitlines()[1:] == ["Collecting a", "oh"]


def test_a_terminal_sees_what_it_is_at_and_a_clean_line_in_the_end(tmp_path: Path) -> None:
    out = io.StringIO()
    progress = Progress(interactive=True, out=out)
    command = script("print('Collecting a'); print('WARNING: b')")

    run_logged(command, cwd=tmp_path, log=tmp_path / "log", progress=progress)
    progress.end()

    assert "… Collecting a" in out.getvalue()
    assert "WARNING" not in out.getvalue()
    assert out.getvalue().endswith("\r\x1b[K")


def test_without_a_terminal_a_short_command_prints_its_step_only(tmp_path: Path) -> None:
    out = io.StringIO()
    progress = Progress(interactive=False, out=out)
    progress.step("installing")

    run_logged(script("print('Collecting a')"), cwd=tmp_path, log=tmp_path / "log", progress=progress)
    progress.end()

    assert out.getvalue() == "setup: [   0 s] installing\n"
