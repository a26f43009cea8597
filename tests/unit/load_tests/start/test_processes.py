"""A process of a bench: its lines are taken, and nothing of it is left."""

import sys
from pathlib import Path

from start.processes import environment, running

SAYS = "print('one'); print('two', flush=True); import time; time.sleep(60)"


def test_its_lines_are_taken_and_its_pipe_is_closed(tmp_path: Path) -> None:
    taken: list[str] = []
    argv = [sys.executable, "-c", SAYS]
    log = tmp_path / "log"
    with running(argv, env=environment(), log=log, cwd=tmp_path, on_line=lambda _, text: taken.append(text)) as child:
        while len(taken) < 2:
            assert child.poll() is None
    assert taken == ["one", "two"]
    assert [line.split(maxsplit=1)[1] for line in log.read_text().splitlines()] == taken
    assert child.returncode is not None
    assert child.stdout is not None
    assert child.stdout.closed
