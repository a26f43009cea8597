"""Processes of the bench: each with all below it gone when the block ends, however it ends."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil

END_S = 20.0
_PASSED = ("PATH", "HOME", "USER", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CC", "CXX")


def environment(**more: str) -> dict[str, str]:
    """What every subject runs in: nothing of the shell that could change one and not the other."""
    passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
    return {**passed, "PYTHONUNBUFFERED": "1", **more}


@contextlib.contextmanager
def running(
    argv: list[str],
    *,
    env: Mapping[str, str],
    log: Path,
    cwd: Path,
    on_line: Callable[[float, str], None] | None = None,
) -> Iterator["subprocess.Popen[bytes]"]:
    """A process while the block runs; `on_line` gets each line of its output with its wall time."""
    log.parent.mkdir(parents=True, exist_ok=True)
    cwd.mkdir(parents=True, exist_ok=True)
    child = subprocess.Popen(
        argv, env=dict(env), cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    reader = threading.Thread(target=_read, args=(child, log, on_line), daemon=True)
    reader.start()
    try:
        yield child
    finally:
        _end(child)
        reader.join(5.0)


def python() -> str:
    """The interpreter that runs the bench runs its subjects."""
    return sys.executable


def drop_from_page_cache(directory: Path) -> None:
    """Have the next read of these files come from disk, as on a node that has not seen them."""
    for path in directory.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            try:
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)


def _read(child: "subprocess.Popen[bytes]", log: Path, on_line: Callable[[float, str], None] | None) -> None:
    output = child.stdout
    assert output is not None  # noqa: S101  (it was asked for as a pipe)
    with output, log.open("w", encoding="utf-8") as file:
        for raw in output:
            at, text = time.time(), raw.decode(errors="replace").rstrip()
            file.write(f"{at:.3f} {text}\n")
            file.flush()
            if on_line is not None:
                on_line(at, text)


def _end(child: "subprocess.Popen[bytes]") -> None:
    """SIGTERM to the leader, then SIGKILL to all that is left below it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        below = psutil.Process(child.pid).children(recursive=True)
        child.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(END_S)
        for process in [*below, *_group(child.pid)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
    child.kill()
    child.wait()


def _group(pgid: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, psutil.Error):
            if os.getpgid(process.pid) == pgid:
                found.append(process)
    return found
